// JSON by hand, for what is written for every report of every agent: encoding/json needs
// reflection and memory for each.

package records

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// usualKeys is how many keys a map has in general; more only cost memory.
const usualKeys = 24

// EachSorted calls f for each entry of a map in the order of keys.
func EachSorted[V any](m map[string]V, f func(key string, value V)) {
	var room [usualKeys]string
	keys := room[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		f(key, m[key])
	}
}

// AppendString appends a string in JSON, as encoding/json writes it.
func AppendString(b []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return append(b, `""`...) // cannot happen: every string has a JSON form
	}
	return append(b, quoted...)
}

// isPlain says whether a string is its own JSON: nothing in it needs an escape.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// AppendStrings appends `,"name":{…}`, or nothing for an empty map.
func AppendStrings(b []byte, name string, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	separator := byte('{')
	EachSorted(m, func(key, value string) {
		b = append(AppendString(append(b, separator), key), ':')
		b = AppendString(b, value)
		separator = ','
	})
	return append(b, '}')
}

// appendMembers appends the members of an Object, without the braces.
func (o Object) appendMembers(b []byte) (_ []byte, err error) {
	b = AppendString(append(b, `"name":`...), o.Name)
	if o.Namespace != "" {
		b = AppendString(append(b, `,"namespace":`...), o.Namespace)
	}
	b = AppendString(append(b, `,"uid":`...), o.UID)
	if o.Generation != 0 {
		b = strconv.AppendInt(append(b, `,"generation":`...), o.Generation, 10)
	}
	if b, err = appendTime(b, "created", o.Created); err != nil {
		return nil, err
	}
	b = AppendStrings(b, "labels", o.Labels)
	b = AppendStrings(b, "annotations", o.Annotations)
	return appendTime(b, "deleting", o.Deleting)
}

func appendTime(b []byte, name string, t time.Time) ([]byte, error) {
	if t.IsZero() {
		return b, nil
	}
	b, err := t.AppendText(append(append(append(b, `,"`...), name...), `":"`...))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return append(b, '"'), nil
}
