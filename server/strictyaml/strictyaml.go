// Package strictyaml reads YAML (and so JSON) into structs and refuses everything
// the structs do not know, with the path of the field and its line. yaml.v3 refuses
// unknown fields too, but names neither path nor reason, stops caring about types
// where it can convert, and lets a repeated document pass.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxNodes bounds a document after aliases are followed, so that a few lines of
// aliases cannot become gigabytes.
const maxNodes = 100_000

// Error is one thing that is wrong.
type Error struct {
	Path   string `json:"path"` // spec.rkeConfig.etcd
	Line   int    `json:"line"` // 1-based; 0 when the whole document is meant
	Reason string `json:"reason"`
}

func (e Error) Error() string {
	s := ""
	if e.Line > 0 {
		s = fmt.Sprintf("line %d: ", e.Line)
	}
	if e.Path != "" {
		s += e.Path + ": "
	}
	return s + e.Reason
}

// Errors is everything that is wrong, in the order of the text.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Documents splits a stream into its documents; empty ones are left out.
func Documents(data []byte) ([]*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var docs []*yaml.Node
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, Errors{{Reason: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}}
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		docs = append(docs, doc.Content[0])
	}
}

// Options shape what is refused.
type Options struct {
	// Unknown gives the reason for a field that no struct has; "" means the usual one.
	Unknown func(path string) string
	// Ignore says that an unknown field is left out without a word: fields that a server fills.
	Ignore func(path string) bool
}

// Decoded is what is left of the text beside the values.
type Decoded struct {
	lines map[string]int
	start int
}

// Line is the line of a field, or of its nearest parent that stands in the text.
func (d Decoded) Line(path string) int {
	for path != "" {
		if line, ok := d.lines[path]; ok {
			return line
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			break
		}
		path = path[:cut]
	}
	return d.start
}

// Decode reads a document into the struct that into points at, by its json tags.
func Decode(doc *yaml.Node, into any, o Options) (Decoded, Errors) {
	d := decoder{Options: o, decoded: Decoded{lines: map[string]int{}, start: doc.Line}}
	d.value("", doc, reflect.ValueOf(into).Elem())
	return d.decoded, d.errs
}

type decoder struct {
	Options
	decoded Decoded
	errs    Errors
	nodes   int
}

func (d *decoder) fail(path string, n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, Error{Path: path, Line: n.Line, Reason: fmt.Sprintf(format, args...)})
}

// value reads one node into one Go value of a type that the structs use.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.fail(path, n, "the document has more than %d values", maxNodes)
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path != "" {
		d.decoded.lines[path] = n.Line
	}
	if n.Tag == "!!null" {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(path, n, v.Elem())
	case reflect.Struct:
		d.structure(path, n, v)
	case reflect.Map:
		d.mapping(path, n, v)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Interface:
		if free := d.free(path, n); free != nil {
			v.Set(reflect.ValueOf(free))
		}
	default:
		d.scalar(path, n, v)
	}
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.fail(path, n, "is %s where %s belongs", describe(n), kindName(v.Kind()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if n.Tag != "!!str" {
			d.fail(path, n, "is %s where text belongs; write it in quotes: %q", describe(n), n.Value)
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			d.fail(path, n, "is %s where true or false belongs", describe(n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64, reflect.Int32:
		i, err := strconv.ParseInt(n.Value, 0, v.Type().Bits())
		if n.Tag != "!!int" || err != nil {
			d.fail(path, n, "is %s where a whole number belongs", describe(n))
			return
		}
		v.SetInt(i)
	default:
		d.fail(path, n, "cannot be read into a %s", v.Type())
	}
}

func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value) {
	fields := map[string]int{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = i
		}
	}
	d.pairs(path, n, func(key string, k, val *yaml.Node) {
		at := join(path, key)
		if i, ok := fields[key]; ok {
			d.value(at, val, v.Field(i))
			d.decoded.lines[at] = k.Line
			return
		}
		if d.Ignore != nil && d.Ignore(at) {
			return
		}
		reason := ""
		if d.Unknown != nil {
			reason = d.Unknown(at)
		}
		if reason == "" {
			reason = "is not a field here" + suggestion(key, fields)
		}
		d.fail(at, k, "%s", reason)
	})
}

func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	d.pairs(path, n, func(key string, k, val *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, key), val, item)
		d.decoded.lines[join(path, key)] = k.Line
		m.SetMapIndex(reflect.ValueOf(key), item)
	})
	v.Set(m)
}

func (d *decoder) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.fail(path, n, "is %s where a list belongs", describe(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i))
	}
	v.Set(list)
}

// pairs walks a mapping and refuses repeated keys and keys that are no text.
func (d *decoder) pairs(path string, n *yaml.Node, each func(key string, k, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(path, n, "is %s where a mapping belongs", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			d.fail(path, k, "has a key that is not plain text; write the fields out")
			continue
		}
		if first, ok := seen[k.Value]; ok {
			d.fail(join(path, k.Value), k, "stands here a second time, first on line %d", first)
			continue
		}
		seen[k.Value] = k.Line
		each(k.Value, k, val)
	}
}

// free reads a value of any shape: maps by text, lists, text, bool, int64, float64.
func (d *decoder) free(path string, n *yaml.Node) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		d.mapping(path, n, reflect.ValueOf(&m).Elem())
		return m
	case yaml.SequenceNode:
		list := []any{}
		d.list(path, n, reflect.ValueOf(&list).Elem())
		return list
	}
	switch n.Tag {
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if len(n.Value) > 1 && n.Value[0] == '0' && n.Value[1] >= '0' && n.Value[1] <= '9' {
			// 0644 is 420 to some readers and 644 to others; whoever writes it means the digits.
			d.fail(path, n, "is the number %s with a leading zero; write it in quotes: %q", n.Value, n.Value)
			return nil
		}
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i
		}
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f
		}
	case "!!null":
		return nil
	}
	return n.Value
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	case "!!timestamp":
		return "the date " + n.Value
	default:
		return fmt.Sprintf("the text %q", n.Value)
	}
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}

// suggestion names the field that was probably meant.
func suggestion(key string, fields map[string]int) string {
	best, distance := "", 4
	for name := range fields {
		if n := editDistance(strings.ToLower(key), strings.ToLower(name)); n < distance || (n == distance && name < best) {
			best, distance = name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			above := row[j]
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above+1, row[j-1]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
