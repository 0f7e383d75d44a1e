// The description of Go types as they are on the wire.

package openapi

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
)

// Text describes a text.
func Text() map[string]any { return map[string]any{"type": "string"} }

// Object describes an object with properties.
func Object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties}
}

// Type describes a type as encoding/json writes it. Structs with a name become components, which are put into schemas, so
// that the description is as short as the code.
func Type(t reflect.Type, schemas map[string]any) map[string]any {
	switch {
	case t == nil:
		return map[string]any{}
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[clusterspec.Spec](): // whose fields encoding/json writes, and what is empty
		return component(t, schemas)
	case t == reflect.TypeFor[*clusterspec.Spec]():
		return component(t.Elem(), schemas)
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface, t.Implements(reflect.TypeFor[json.Marshaler]()):
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return Type(t.Elem(), schemas)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": Type(t.Elem(), schemas)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": Type(t.Elem(), schemas)}
	case reflect.Struct:
		return component(t, schemas)
	case reflect.String:
		return Text()
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{"type": "integer"}
	}
}

func component(t reflect.Type, schemas map[string]any) map[string]any {
	name := t.Name()
	if i := strings.IndexByte(name, '['); i >= 0 { // List[…views.Machine]
		name = strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "]") + name[:i]
	}
	if _, ok := schemas[name]; !ok {
		properties := map[string]any{}
		schemas[name] = Object(properties) // before its fields, which may hold it
		fieldsOf(t, properties, schemas)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

func fieldsOf(t reflect.Type, properties, schemas map[string]any) {
	for f := range t.Fields() {
		f := f
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			fieldsOf(f.Type, properties, schemas)
		case f.IsExported() && name != "-":
			name = cmp.Or(name, f.Name)
			properties[name] = Type(f.Type, schemas)
		}
	}
}
