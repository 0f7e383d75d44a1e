// Package jsonfault describes errors of encoding/json without quoting the text: the
// documents that agents and servers exchange hold credentials.
package jsonfault

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Plain is an error of encoding/json as an error that can be shown to all users:
// "files[0].path is a number where a string belongs" or "is not JSON, at byte 7".
func Plain(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return fmt.Errorf("%s is a %s where a %s belongs", wrongType.Field, wrongType.Value, wrongType.Type)
	case errors.As(err, &wrongType):
		return fmt.Errorf("a %s where an object belongs", wrongType.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("is not JSON, at byte %d", syntax.Offset)
	}
	return errors.New("is not JSON")
}
