// Package handwritten reads plans that people write by hand, in YAML or JSON, led by the plan's own
// types: what they do not have is refused, with the line, in words for people. Hosts read dropped
// files by it, and the server the plans that operators give it.
package handwritten

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/strictyaml"
)

// MaxSize bounds a written plan, in bytes: the parser takes a hundred times as much memory.
const MaxSize = 1 << 20

// Parse reads and checks a plan; path is what its errors call the file. They are of the type
// strictyaml.Error, with the line, and repeat no value, as a plan holds credentials.
func Parse(path string, b []byte) (*plans.Plan, error) {
	if len(b) > MaxSize {
		return nil, at(path, 1, "%d bytes are more than the %d allowed of a plan in YAML", len(b), MaxSize)
	}
	source := strictyaml.Source{File: path, Private: true, Limits: strictyaml.Limits{Bytes: MaxSize, Expanded: plans.MaxSize}}
	doc, err := strictyaml.ReadOne(source, b)
	if err != nil {
		return nil, inWords(path, err)
	}
	if doc.Empty() {
		return nil, at(path, 1, "there is no plan; an empty one is written {}")
	}
	var p plans.Plan
	if errs := doc.Decode(&p, strictyaml.Options{AsWritten: true}); errs != nil {
		return nil, inWords(path, errs)
	}
	document, err := p.Marshal()
	if err != nil {
		return nil, fmt.Errorf("render the plan as JSON: %w", err)
	}
	checked, err := plans.Parse(document)
	var fault *plans.FieldError
	if errors.As(err, &fault) {
		return nil, at(path, doc.LineOf(fault.Field), "%s", fault.Error())
	}
	return checked, err
}

// at is a fault in a line of a file.
func at(path string, line int, format string, args ...any) error {
	return strictyaml.Error{File: path, Line: line, Reason: fmt.Sprintf(format, args...)}
}

// inWords is the first fault of a document.
func inWords(path string, err error) error {
	var all strictyaml.Errors
	if !errors.As(err, &all) || len(all) == 0 {
		return err
	}
	return at(path, max(all[0].Line, 1), "%s", describe(all[0]))
}

func describe(e strictyaml.Error) string {
	switch e.Kind {
	case strictyaml.Second:
		return "a second document begins; a file holds one plan"
	case strictyaml.Unknown:
		return fmt.Sprintf("unknown field %.40q of %s, which has %s", e.Key, called(e.In), strings.Join(e.Known, ", "))
	case strictyaml.Repeated:
		return fmt.Sprintf("%.40q is there twice in %s", e.Key, called(e.In))
	case strictyaml.Merge:
		return "merging (<<) is not supported: repeat the fields"
	case strictyaml.BadKey:
		return fmt.Sprintf("a key of %s is not plain text", called(e.In))
	case strictyaml.Type:
		got, want := asObject(e.Got), asObject(e.Want)
		if got == "a single value" && want != "an object" && want != "a list" {
			return called(e.Path) + " is not " + want
		}
		return fmt.Sprintf("%s is %s where %s belongs", called(e.Path), got, want)
	case strictyaml.Limit:
		return called(e.Path) + ": " + e.Reason
	}
	return e.Reason
}

// asObject is what JSON calls a mapping.
func asObject(shape string) string {
	if shape == "a mapping" {
		return "an object"
	}
	return shape
}

func called(field string) string {
	if field == "" {
		return "the plan"
	}
	return field
}
