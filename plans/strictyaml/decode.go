package strictyaml

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// maxErrors bounds the errors of one document; people read no more.
	maxErrors = 100
	// maxPath and maxQuoted bound what an error repeats of a text, in bytes.
	maxPath   = 1000
	maxQuoted = 200
)

// Options say how values become fields.
type Options struct {
	// Unknown gives the reason for a key that no field has; "" means the usual one.
	Unknown func(path string) string
	// Ignore says that an unknown key is left out and not reported: fields that a server fills,
	// or keys that a newer program knows.
	Ignore func(path string) bool
	// IgnoreZero says that an unknown key is left out where its value asks for nothing: null,
	// false, 0, "", or lists and mappings of such. Clients of other servers send those of fields
	// that they never set.
	IgnoreZero func(path string) bool
	// AsWritten takes a number, a truth value or a date where text belongs as it is written:
	// permissions: 0644 means what it says.
	AsWritten bool
	// Private is that of the Source for this document alone.
	Private bool
	// YesNo takes YAML 1.1's yes, no, on, off, y and n where true or false belongs.
	YesNo bool
	// Tag is the struct tag that has the names of fields; "" is json.
	Tag string
	// MergeKeys takes YAML 1.1's "<<", whose values stand behind those of the mapping itself.
	MergeKeys bool
}

// IgnoreAll is an Options.Ignore that leaves out every unknown key.
func IgnoreAll(string) bool { return true }

// Decode reads the document into the struct or map that into points at, by json tags. It
// reads what it can and returns everything that is wrong, at most 100 errors; nil is a
// document that was read whole. A type with UnmarshalJSON gets the value as JSON.
func (d *Document) Decode(into any, o Options) Errors {
	dec := decoder{Options: o, source: d.source}
	dec.source.Private = d.source.Private || o.Private
	dec.value(nil, d.root, reflect.ValueOf(into).Elem())
	return dec.errs
}

// at is the way to a value from the document's root. It becomes text only in errors.
type at struct {
	above *at
	step  string // a key, or [0]
}

func (a *at) key(name string) *at { return &at{a, name} }
func (a *at) index(i int) *at     { return &at{a, "[" + strconv.Itoa(i) + "]"} }

func (a *at) String() string {
	var steps []string
	for ; a != nil; a = a.above {
		steps = append(steps, a.step)
	}
	path := ""
	for _, step := range slices.Backward(steps) {
		if path = join(path, step); len(path) > maxPath {
			return strings.ToValidUTF8(path[:maxPath], "") + "…"
		}
	}
	return path
}

func join(path, step string) string {
	if path == "" || strings.HasPrefix(step, "[") {
		return path + step
	}
	return path + "." + step
}

type decoder struct {
	Options
	source Source
	errs   Errors
}

func (d *decoder) add(e Error, n *yaml.Node) {
	if len(d.errs) < maxErrors {
		e.File, e.Line = d.source.File, n.Line
		d.errs = append(d.errs, e)
	}
}

func (d *decoder) fail(where *at, n *yaml.Node, format string, args ...any) {
	d.add(Error{Path: where.String(), Reason: fmt.Sprintf(format, args...)}, n)
}

// wrongType reports a value that is not what the field wants. Advice follows it where the value may be shown.
func (d *decoder) wrongType(where *at, n *yaml.Node, want, advice string) {
	e := Error{Path: where.String(), Kind: Type, Got: shape(n), Want: want, Reason: "a value of another type is expected"}
	if !d.source.Private {
		e.Reason = fmt.Sprintf("is %s where %s belongs%s", describe(n), want, advice)
	}
	d.add(e, n)
}

var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value reads one node into one Go value of a type that the structs use.
func (d *decoder) value(where *at, n *yaml.Node, v reflect.Value) {
	if len(d.errs) >= maxErrors {
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if isNull(n) {
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(jsonUnmarshaler) {
		d.custom(where, n, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(where, n, v.Elem())
	case reflect.Struct:
		d.structure(where, n, v)
	case reflect.Map:
		d.mapping(where, n, v)
	case reflect.Slice:
		d.list(where, n, v)
	case reflect.Interface:
		if free := d.free(where, n); free != nil {
			v.Set(reflect.ValueOf(free))
		}
	default:
		d.scalar(where, n, v)
	}
}

// custom reads a type that reads JSON itself.
func (d *decoder) custom(where *at, n *yaml.Node, v reflect.Value) {
	b, err := json.Marshal(d.free(where, n))
	if err == nil {
		err = v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(b)
	}
	if err != nil {
		d.wrongType(where, n, v.Type().Name(), "")
	}
}

func (d *decoder) scalar(where *at, n *yaml.Node, v reflect.Value) {
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		switch {
		case n.Kind == yaml.ScalarNode && (tag == "!!str" || d.AsWritten && isPlain(tag)):
			v.SetString(n.Value)
		case n.Kind == yaml.ScalarNode:
			d.wrongType(where, n, "text", fmt.Sprintf("; write it in quotes: %q", cut(n.Value)))
		default:
			d.wrongType(where, n, "text", "")
		}
	case reflect.Bool:
		value, ok := truth(n, d.YesNo)
		if !ok {
			d.wrongType(where, n, "true or false", unquote(n))
		}
		v.SetBool(value)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		i, err := strconv.ParseInt(n.Value, 0, v.Type().Bits())
		if n.Kind != yaml.ScalarNode || tag != "!!int" || err != nil || leadingZero(n.Value) {
			d.wrongType(where, n, "a whole number", unquote(n))
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || tag != "!!float" && tag != "!!int" || err != nil {
			d.wrongType(where, n, "a number", unquote(n))
			return
		}
		v.SetFloat(f)
	default:
		d.fail(where, n, "cannot be read into a %s", v.Type())
	}
}

func isPlain(tag string) bool {
	return slices.Contains([]string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}, tag)
}

func truth(n *yaml.Node, yesNo bool) (value, ok bool) {
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode || tag != "!!bool" && (tag != "!!str" || !yesNo) {
		return false, false
	}
	switch n.Value {
	case "true", "True", "TRUE":
		return true, tag == "!!bool"
	case "false", "False", "FALSE":
		return false, tag == "!!bool"
	case "y", "Y", "yes", "on":
		return true, yesNo && !quoted(n)
	case "n", "N", "no", "off":
		return false, yesNo && !quoted(n)
	}
	return false, false
}

// unquote is the advice on a text in quotes where there are no texts.
func unquote(n *yaml.Node) string {
	if quoted(n) {
		return "; write it without quotes"
	}
	return ""
}

// quoted says that a value is text because it stands in quotes.
func quoted(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

func (d *decoder) structure(where *at, n *yaml.Node, v reflect.Value) {
	fields := fieldsOf(v.Type(), d.Tag)
	d.pairs(where, n, func(key string, k, val *yaml.Node) {
		below := where.key(key)
		if f, ok := fields[key]; ok {
			d.value(below, val, v.FieldByIndex(f.Index))
			return
		}
		path := below.String()
		if d.Ignore != nil && d.Ignore(path) || d.IgnoreZero != nil && d.IgnoreZero(path) && isZero(val) {
			return
		}
		e := Error{Path: path, Kind: Unknown, Key: cut(key), In: where.String()}
		for name := range fields {
			e.Known = append(e.Known, name)
		}
		slices.Sort(e.Known)
		if d.Unknown != nil {
			e.Reason = d.Unknown(path)
		}
		if e.Reason == "" {
			e.Reason = "is not a field here" + suggestion(cut(key), e.Known)
		}
		d.add(e, k)
	})
}

// isZero says that a value asks for nothing. An alias does not: it repeats something.
func isZero(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return true
		case "!!bool":
			value, _ := truth(n, false)
			return !value
		case "!!int", "!!float":
			return strings.Trim(n.Value, "0.") == ""
		}
		return n.Value == ""
	case yaml.SequenceNode:
		return !slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return !isZero(item) })
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			if !isZero(n.Content[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// fieldsOf are the fields of a struct by their names in a tag, those of embedded structs included.
func fieldsOf(t reflect.Type, tag string) map[string]reflect.StructField {
	tag = cmp.Or(tag, "json")
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		if !f.Anonymous && f.IsExported() && name != "" && name != "-" {
			fields[name] = f
		}
	}
	return fields
}

// free reads a value of any shape: maps by text, lists, text, bool, int64, float64.
func (d *decoder) free(where *at, n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return d.free(where, n.Alias)
	case yaml.MappingNode:
		m := map[string]any{}
		d.mapping(where, n, reflect.ValueOf(&m).Elem())
		return m
	case yaml.SequenceNode:
		list := []any{}
		d.list(where, n, reflect.ValueOf(&list).Elem())
		return list
	}
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!bool":
		if value, ok := truth(n, false); ok {
			return value
		}
	case "!!int":
		return d.whole(where, n)
	case "!!float":
		// .inf and .nan stay text: no JSON has them.
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && !strings.ContainsAny(n.Value, "iInN") {
			return f
		}
		return n.Value
	case "!!null":
		return nil
	}
	d.wrongType(where, n, "a value without a tag", "")
	return nil
}

func (d *decoder) whole(where *at, n *yaml.Node) any {
	if leadingZero(n.Value) && d.source.Private {
		d.fail(where, n, "is a number with a leading zero; write it in quotes")
		return nil
	}
	if leadingZero(n.Value) {
		value := cut(n.Value)
		d.fail(where, n, "is the number %s with a leading zero; write it in quotes: %q", value, value)
		return nil
	}
	i, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil {
		d.wrongType(where, n, "a number of 64 bits", "")
		return nil
	}
	return i
}
