package config

// write.go writes a config as a cluster.yml.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Write makes the cluster.yml of a config: every value that is not empty, in the order of the
// types, so that equal configs are equal bytes. Parse reads the same config from it; an empty
// list or mapping is one that is not there.
func Write(c Cluster) ([]byte, error) {
	root, err := nodeOf(reflect.ValueOf(clone(c)))
	if err != nil {
		return nil, fmt.Errorf("writing a cluster.yml: %w", err)
	}
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(root), enc.Close()); err != nil {
		return nil, fmt.Errorf("writing a cluster.yml: %w", err)
	}
	return text.Bytes(), nil
}

// nodeOf is a value as YAML, by yaml tags. The encoder's own way from values to text loses an
// empty first line, which the webhook's file has.
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

// clone is a copy that shares nothing. Whole numbers in values of any type, which encoding/json
// reads as float64, become int64, as Parse reads them.
func clone(c Cluster) Cluster {
	copied := reflect.New(reflect.TypeFor[Cluster]()).Elem()
	copyInto(copied, reflect.ValueOf(c))
	return copied.Interface().(Cluster)
}

func copyInto(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			copyInto(to.Field(i), from.Field(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyInto(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyInto(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for pairs := from.MapRange(); pairs.Next(); {
				value := reflect.New(from.Type().Elem()).Elem()
				copyInto(value, pairs.Value())
				to.SetMapIndex(pairs.Key(), value)
			}
		}
	case reflect.Interface:
		if f, ok := from.Interface().(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			to.Set(reflect.ValueOf(int64(f)))
		} else if !from.IsNil() {
			value := reflect.New(from.Elem().Type()).Elem()
			copyInto(value, from.Elem())
			to.Set(value)
		}
	default:
		to.Set(from)
	}
}
