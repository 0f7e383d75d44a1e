// YAML into the values that the JSON of a plan would have, led by the plan's own types:
// what they do not have is refused, and no document can be deeper than they are.

package drop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/yamlfault"
)

const (
	// maxYAML bounds a plan in YAML, in bytes: the parser takes a hundred times as much memory.
	maxYAML = 1 << 20
	// maxValues bounds the values of a document once its aliases are put in.
	maxValues = 100_000
)

// lines are the lines of fields, by the names that plans.FieldError has for them.
type lines map[string]int

// of is the line of a field, or of the nearest one around it that is there.
func (l lines) of(field string) int {
	for {
		if line, ok := l[field]; ok {
			return line
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return max(l[""], 1)
		}
		field = field[:cut]
	}
}

// planFromYAML reads one document. Faults are *lineError without a path.
func planFromYAML(b []byte) (value any, at lines, err error) {
	if len(b) > maxYAML {
		return nil, nil, &lineError{line: 1, reason: fmt.Sprintf("%d bytes are more than the %d allowed of a plan in YAML", len(b), maxYAML)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var document, more yaml.Node
	switch err := dec.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil, &lineError{line: 1, reason: "there is no plan; an empty one is written {}"}
	case err != nil:
		return nil, nil, &lineError{line: yamlfault.Line(err), reason: "is not YAML"}
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, nil, &lineError{line: max(more.Line, 1), reason: "a second document begins; a file holds one plan"}
	case !errors.Is(err, io.EOF):
		return nil, nil, &lineError{line: yamlfault.Line(err), reason: "is not YAML"}
	}
	r := &reader{lines: lines{"": document.Line}}
	value, err = r.value(&document, reflect.TypeFor[plans.Plan](), "")
	return value, r.lines, err
}

// reader reads one document.
type reader struct {
	lines  lines
	values int // so far
	bytes  int // of text so far
}

// value is a node as a type of plans wants it.
func (r *reader) value(n *yaml.Node, want reflect.Type, field string) (any, error) {
	if r.values++; r.values > maxValues {
		return nil, wrong(n, "aliases make more than %d values of this document", maxValues)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], want, field)
	case yaml.AliasNode:
		return r.value(n.Alias, want, field)
	}
	r.lines[field] = n.Line
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil, nil // absent, as null is in JSON
	}
	switch want.Kind() {
	case reflect.Pointer:
		return r.value(n, want.Elem(), field)
	case reflect.Struct:
		return r.object(n, want, field)
	case reflect.Map:
		return r.named(n, want.Elem(), field)
	case reflect.Slice:
		return r.list(n, want.Elem(), field)
	}
	return r.scalar(n, want, field)
}

// object reads a mapping whose keys are the fields of a type.
func (r *reader) object(n *yaml.Node, want reflect.Type, field string) (any, error) {
	fields := fieldsOf(want)
	return r.mapping(n, field, func(key *yaml.Node) (reflect.Type, string, error) {
		if kind, ok := fields[key.Value]; ok {
			return kind, join(field, key.Value), nil
		}
		if key.Value == "<<" {
			return nil, "", wrong(key, "merging (<<) is not supported: repeat the fields")
		}
		return nil, "", wrong(key, "unknown field %.40q of %s, which has %s", key.Value, called(field), strings.Join(sortedFields(fields), ", "))
	})
}

// named reads a mapping whose keys are names.
func (r *reader) named(n *yaml.Node, each reflect.Type, field string) (any, error) {
	return r.mapping(n, field, func(key *yaml.Node) (reflect.Type, string, error) {
		return each, field + "[" + key.Value + "]", nil
	})
}

func (r *reader) mapping(n *yaml.Node, field string, of func(key *yaml.Node) (reflect.Type, string, error)) (any, error) {
	if n.Kind != yaml.MappingNode || n.ShortTag() != "!!map" {
		return nil, wrong(n, "%s is %s where an object belongs", called(field), kindOf(n))
	}
	object := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, wrong(key, "a key of %s is not plain text", called(field))
		}
		if _, twice := object[key.Value]; twice {
			return nil, wrong(key, "%.40q is there twice in %s", key.Value, called(field))
		}
		kind, name, err := of(key)
		if err != nil {
			return nil, err
		}
		if object[key.Value], err = r.value(n.Content[i+1], kind, name); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func (r *reader) list(n *yaml.Node, each reflect.Type, field string) (any, error) {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		return nil, wrong(n, "%s is %s where a list belongs", called(field), kindOf(n))
	}
	list := make([]any, 0, len(n.Content))
	for i, one := range n.Content {
		value, err := r.value(one, each, fmt.Sprintf("%s[%d]", field, i))
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// scalar reads text, numbers and truth. Where text belongs a number is taken as it is
// written: permissions: 0644 means what it says.
func (r *reader) scalar(n *yaml.Node, want reflect.Type, field string) (any, error) {
	belongs := map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false"}[want.Kind()]
	if belongs == "" {
		belongs = "a whole number"
	}
	if n.Kind != yaml.ScalarNode {
		return nil, wrong(n, "%s is %s where %s belongs", called(field), kindOf(n), belongs)
	}
	if r.bytes += len(n.Value); r.bytes > plans.MaxSize {
		return nil, wrong(n, "aliases make more than %d bytes of this document", plans.MaxSize)
	}
	tag := n.ShortTag()
	switch {
	case want.Kind() == reflect.String && slices.Contains([]string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}, tag):
		return n.Value, nil
	case want.Kind() == reflect.Bool && tag == "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case want.Kind() == reflect.Int && tag == "!!int":
		if number, err := strconv.Atoi(n.Value); err == nil {
			return number, nil
		}
	}
	return nil, wrong(n, "%s is not %s", called(field), belongs)
}

// fieldsOf are the fields of a type as JSON names them.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && f.IsExported() && name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

func sortedFields(fields map[string]reflect.Type) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func called(field string) string {
	if field == "" {
		return "the plan"
	}
	return field
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

func wrong(n *yaml.Node, format string, args ...any) error {
	return &lineError{line: max(n.Line, 1), reason: fmt.Sprintf(format, args...)}
}
