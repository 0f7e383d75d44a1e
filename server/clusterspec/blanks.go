// What an owner wrote that asks for nothing: false, 0, "", [] and {}. It reaches no plan, but it is kept and shown, so that
// Terraform, kubectl and Argo CD, which compare what they sent with what they read, find no difference.

package clusterspec

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// Blank is an empty value that was written, below the names and indexes of Path.
type Blank struct {
	Path  []any
	Value any
}

// withoutBlanks is Spec without its own way into and out of JSON.
type withoutBlanks Spec

// MarshalJSON is the spec with the empty values that its owner wrote.
func (s Spec) MarshalJSON() ([]byte, error) {
	if len(s.Blanks) == 0 {
		return json.Marshal(withoutBlanks(s))
	}
	fields, err := s.fields()
	if err != nil {
		return nil, err
	}
	for _, one := range s.Blanks {
		one.putInto(fields)
	}
	return json.Marshal(fields)
}

// mayHaveBlanks matches documents that may have empty values. Most have none, and are not read twice.
var mayHaveBlanks = regexp.MustCompile(`:(false|0|""|\[\]|\{\})`)

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Spec) UnmarshalJSON(text []byte) error {
	*s = Spec{}
	if err := json.Unmarshal(text, (*withoutBlanks)(s)); err != nil || !mayHaveBlanks.Match(text) {
		return err
	}
	var written map[string]any
	if err := numbers(text, &written); err != nil {
		return err
	}
	return s.keepBlanks(written)
}

// fields are those that the spec has, without the empty ones.
func (s Spec) fields() (fields map[string]any, err error) {
	text, err := json.Marshal(withoutBlanks(s))
	if err != nil {
		return nil, err
	}
	err = numbers(text, &fields)
	return fields, err
}

// keepBlanks keeps the empty values of the fields that were written.
func (s *Spec) keepBlanks(written map[string]any) error {
	kept, err := s.fields()
	delete(kept, "rancherKubernetesEngineConfig") // is kept as it was written
	s.Blanks = blanksOf(nil, written, kept)
	return err
}

// blanksOf are the empty values that were written and are not among what is kept.
func blanksOf(at []any, written, kept any) (all []Blank) {
	switch written := written.(type) {
	case map[string]any:
		kept, _ := kept.(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(written)) {
			value, path := written[field], append(slices.Clip(at), field)
			if there, ok := kept[field]; ok {
				all = append(all, blanksOf(path, value, there)...)
			} else if kept != nil && value != nil && empty(value) {
				all = append(all, Blank{path, value})
			}
		}
	case []any:
		kept, _ := kept.([]any)
		for i := range min(len(kept), len(written)) {
			all = append(all, blanksOf(append(slices.Clip(at), i), written[i], kept[i])...)
		}
	}
	return all
}

// empty says whether a value asks for nothing, and all that is in it.
func empty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(value)), func(one any) bool { return !empty(one) })
	case []any:
		return len(value) == 0
	case json.Number:
		return value == "0"
	default:
		return value == nil || reflect.ValueOf(value).IsZero()
	}
}

// putInto puts the value into a field that has no other, where the field's place is still there.
func (b Blank) putInto(spec any) {
	for i, step := range b.Path {
		switch step := step.(type) {
		case string:
			fields, _ := spec.(map[string]any)
			if _, ok := fields[step]; fields != nil && !ok && i == len(b.Path)-1 {
				fields[step] = b.Value
			}
			spec = fields[step]
		case int:
			items, _ := spec.([]any)
			if step >= len(items) {
				return
			}
			spec = items[step]
		}
	}
}

// numbers reads JSON with its numbers as they are written.
func numbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}
