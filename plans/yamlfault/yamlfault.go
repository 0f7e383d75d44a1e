// Package yamlfault says where a YAML document is wrong without quoting it: the parser
// quotes what it did not expect, and the documents that agents read hold credentials.
package yamlfault

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// place is how the parser begins its messages; it has no other way to tell a line.
var place = regexp.MustCompile(`^(?:yaml: )?line ([0-9]{1,9}): `)

// Line is the line that an error of yaml.v3 speaks of, counted from 1; of some faults of
// syntax it is the one before. The parser does not name the first one.
func Line(err error) int {
	text := err.Error()
	var types *yaml.TypeError
	if errors.As(err, &types) && len(types.Errors) > 0 {
		text = types.Errors[0]
	}
	found := place.FindStringSubmatch(text)
	if found == nil {
		return 1
	}
	line, err := strconv.Atoi(found[1])
	if err != nil {
		return 1
	}
	return max(line, 1)
}

// Plain is an error of yaml.v3 as one that can be shown to anybody: "line 3: is not YAML".
func Plain(err error) error {
	var types *yaml.TypeError
	if errors.As(err, &types) {
		return fmt.Errorf("line %d: a value of another type is expected", Line(err))
	}
	return fmt.Errorf("line %d: is not YAML", Line(err))
}
