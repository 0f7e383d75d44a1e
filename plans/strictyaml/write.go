package strictyaml

// write.go is the way back: values of our own as YAML.

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Write makes YAML of a struct by its yaml tags, with their omitempty, which leaves out empty
// lists and mappings too, and their inline. Equal values are equal bytes, and Decode with the
// tag yaml reads the same value. yaml.v3 alone loses the empty lines at the beginning of a text,
// and the quotes of "<<". It returns an error for a value that YAML does not have, such as a channel.
func Write(v any) ([]byte, error) {
	root, err := nodeOf(reflect.ValueOf(v))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(root), enc.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// nodeOf is a value as YAML. A type that writes itself, by MarshalYAML, says what it is.
func nodeOf(v reflect.Value) (*yaml.Node, error) {
	if m, ok := v.Interface().(yaml.Marshaler); ok && v.Kind() != reflect.Pointer {
		value, err := m.MarshalYAML()
		if err != nil {
			return nil, err
		}
		return nodeOf(reflect.ValueOf(value))
	}
	n := &yaml.Node{}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return nodeOf(v.Elem())
		}
		return n, n.Encode(nil)
	case reflect.Struct:
		n.Kind = yaml.MappingNode
		return n, addFields(n, v)
	case reflect.Map:
		n.Kind = yaml.MappingNode
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if err := addNodes(n, key, v.MapIndex(key)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.Slice:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			if err := addNodes(n, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.String:
		return textNode(v.String())
	}
	return n, n.Encode(v.Interface())
}

// textNode is a text: a block where it has lines and none of them is lost, else as the encoder
// writes it, which leaves "<<" without quotes.
func textNode(text string) (*yaml.Node, error) {
	n := &yaml.Node{}
	if !strings.Contains(text, "\n") {
		err := n.Encode(text)
		if n.ShortTag() != "!!str" {
			n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
		}
		return n, err
	}
	n.SetString(text)
	if strings.ContainsAny(text[:1], "\n \t") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

// addFields adds the fields of a struct that are not empty, or that are always written.
func addFields(n *yaml.Node, v reflect.Value) error {
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		field := v.Field(i)
		switch {
		case option == "inline":
			if err := addFields(n, field); err != nil {
				return err
			}
			continue
		case option == "omitempty" && (field.IsZero() || (field.Kind() == reflect.Map || field.Kind() == reflect.Slice) && field.Len() == 0):
			continue
		}
		if err := addNodes(n, reflect.ValueOf(name), field); err != nil {
			return err
		}
	}
	return nil
}

func addNodes(to *yaml.Node, values ...reflect.Value) error {
	for _, v := range values {
		child, err := nodeOf(v)
		if err != nil {
			return err
		}
		to.Content = append(to.Content, child)
	}
	return nil
}
