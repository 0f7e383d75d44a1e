// Just enough JSON for a simulated agent: thousands of them share the cores with the
// server that is measured, so none of them builds more than it looks at.

package main

import (
	"bytes"
	"errors"
	"fmt"
)

var errJSON = errors.New("the bench cannot read the server's JSON")

// each calls f for every member of a JSON object until f is false.
func each(object []byte, f func(name, value []byte) bool) error {
	i := blank(object, 0)
	if i >= len(object) || object[i] != '{' {
		return fmt.Errorf("%w: no object where one is expected", errJSON)
	}
	for i = blank(object, i+1); i < len(object) && object[i] != '}'; i = blank(object, i) {
		end, err := value(object, i)
		if err != nil {
			return err
		}
		name := object[i:end]
		if i = blank(object, end); i >= len(object) || object[i] != ':' || name[0] != '"' {
			return fmt.Errorf("%w: a member has no name", errJSON)
		}
		i = blank(object, i+1)
		if end, err = value(object, i); err != nil {
			return err
		}
		if !f(name[1:len(name)-1], object[i:end]) {
			return nil
		}
		if i = blank(object, end); i < len(object) && object[i] == ',' {
			i++
		}
	}
	if i >= len(object) {
		return fmt.Errorf("%w: an object is cut off", errJSON)
	}
	return nil
}

// value is where the value that begins at i ends.
func value(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, fmt.Errorf("%w: a value is cut off", errJSON)
	}
	switch b[i] {
	case '"':
		return text(b, i)
	case '{', '[':
	default:
		for i < len(b) && bytes.IndexByte([]byte(",}] \n\r\t"), b[i]) < 0 {
			i++
		}
		return i, nil
	}
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case '"':
			end, err := text(b, i)
			if err != nil {
				return 0, err
			}
			i = end - 1
		}
	}
	return 0, fmt.Errorf("%w: a value is cut off", errJSON)
}

// text is where the string that begins at i ends.
func text(b []byte, i int) (int, error) {
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return 0, fmt.Errorf("%w: a string is cut off", errJSON)
		}
		end := from + n
		escapes := 0
		for b[end-1-escapes] == '\\' {
			escapes++
		}
		if from = end + 1; escapes%2 == 0 {
			return from, nil
		}
	}
}

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// unquoted is the content of a string without escapes, as base64 and names have none.
func unquoted(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return v[1 : len(v)-1]
}
