// The OpenAPI description of the objects that the server has as a Kubernetes API: made of
// the types that documents are read into and of their comments, so that it cannot say anything else.
//
// Wire source: k8s.io/kube-openapi pkg/spec3, pkg/validation/spec.

package discovery

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Schema describes a value.
type Schema struct {
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	// Values are those of a mapping with any keys.
	Values   *Schema  `json:"additionalProperties,omitempty"`
	Required []string `json:"required,omitempty"`
	// Free says that it may have fields which are not listed.
	Free bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	// GVK is set for objects.
	GVK []GVK `json:"x-kubernetes-group-version-kind,omitempty"`
}

// GVK names a kind of objects.
type GVK struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// Text, Whole, Flag and Time describe plain values.
func Text(description string) *Schema { return &Schema{Type: "string", Description: description} }
func Whole(description string) *Schema {
	return &Schema{Type: "integer", Format: "int64", Description: description}
}
func Flag(description string) *Schema { return &Schema{Type: "boolean", Description: description} }
func Time(description string) *Schema {
	return &Schema{Type: "string", Format: "date-time", Description: description}
}

// Texts is a mapping of texts.
func Texts(description string) *Schema {
	return &Schema{Type: "object", Description: description, Values: &Schema{Type: "string"}}
}

// Open is an object with fields that are not listed.
func Open(description string) *Schema {
	return &Schema{Type: "object", Description: description, Free: true}
}

// Struct is an object with these fields.
func Struct(description string, fields map[string]*Schema) *Schema {
	return &Schema{Type: "object", Description: description, Properties: fields}
}

// List is a list.
func List(description string, of *Schema) *Schema {
	return &Schema{Type: "array", Description: description, Items: of}
}

// SchemaOf describes the type of a value by its JSON form. Comments are looked up by "<package>.<type>.<field>" and
// "<package>.<type>"; fields of these types are left out.
func SchemaOf(t reflect.Type, comments map[string]string, without ...reflect.Type) *Schema {
	m := schemaMaker{comments: comments, without: without}
	return m.of(t)
}

type schemaMaker struct {
	comments map[string]string
	without  []reflect.Type
}

func (m schemaMaker) of(t reflect.Type) *Schema {
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem())
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &Schema{Type: "integer", Format: "int64"}
	case reflect.Slice:
		return &Schema{Type: "array", Items: m.of(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return &Schema{Type: "object", Free: true}
		}
		return &Schema{Type: "object", Values: m.of(t.Elem())}
	case reflect.Struct:
		s := &Schema{Type: "object", Description: m.comments[typeName(t)], Properties: map[string]*Schema{}}
		m.fields(t, s)
		slices.Sort(s.Required)
		return s
	default:
		return &Schema{Free: true}
	}
}

// fields adds the fields of a struct, those of embedded ones among them.
func (m schemaMaker) fields(t reflect.Type, s *Schema) {
	for field := range fieldsOf(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			m.fields(field.Type, s)
			continue
		case name == "" || name == "-" || slices.Contains(m.without, field.Type):
			continue
		}
		one := *m.of(field.Type)
		if comment := m.comments[typeName(t)+"."+field.Name]; comment != "" {
			one.Description = comment
		}
		s.Properties[name] = &one
		if !strings.Contains(options, "omit") {
			s.Required = append(s.Required, name)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for field := range t.Fields() {
			if !yield(field) {
				return
			}
		}
	}
}

// typeName is "<package>.<type>".
func typeName(t reflect.Type) string {
	path := t.PkgPath()
	return path[strings.LastIndexByte(path, '/')+1:] + "." + t.Name()
}

// Unknown takes out of an object what the schema does not have, and names it; keep says which paths stay.
func (s *Schema) Unknown(object map[string]any, keep func(path string) bool) []string {
	var gone []string
	s.strip("", object, keep, &gone)
	slices.Sort(gone)
	return gone
}

func (s *Schema) strip(at string, value any, keep func(path string) bool, gone *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			path := strings.TrimPrefix(at+"."+key, ".")
			switch {
			case s.Properties[key] != nil:
				s.Properties[key].strip(path, one, keep, gone)
			case s.Values != nil:
				s.Values.strip(path, one, keep, gone)
			case s.Properties != nil && !s.Free && !keep(path):
				delete(v, key)
				*gone = append(*gone, path)
			}
		}
	case []any:
		for _, one := range v {
			if s.Items != nil {
				s.Items.strip(at+"[]", one, keep, gone)
			}
		}
	}
}

// SchemaKind is one kind of objects of a document.
type SchemaKind struct {
	// Plural is the resource in the path.
	GVK
	Plural     string
	Namespaced bool
	// Changes says that the objects take patches.
	Changes bool
	Schema  *Schema
}

// OpenAPI is the OpenAPI document of a version of a group: what is needed to explain its objects, and for
// clients to know that the server looks at fields itself.
func OpenAPI(kinds ...SchemaKind) []byte {
	schemas, paths := map[string]any{}, map[string]any{}
	for _, k := range kinds {
		one := *k.Schema
		one.GVK = []GVK{k.GVK}
		name := reversed(k.Group) + "." + k.Version + "." + k.Kind
		schemas[name] = one
		at := "/apis/" + k.Group + "/" + k.Version + "/"
		if k.Namespaced {
			at += "namespaces/{namespace}/"
		}
		body := map[string]any{"application/json": map[string]any{"schema": map[string]string{"$ref": "#/components/schemas/" + name}}}
		answer := map[string]any{"200": map[string]any{"description": "OK", "content": body}}
		methods := map[string]any{"get": map[string]any{"responses": answer, "x-kubernetes-group-version-kind": k.GVK}}
		if k.Changes {
			methods["patch"] = map[string]any{
				"parameters": []any{query("fieldValidation"), query("dryRun"), query("fieldManager"), query("force")}, "responses": answer,
				"requestBody":                     map[string]any{"content": patches()},
				"x-kubernetes-group-version-kind": k.GVK, "x-kubernetes-action": "patch",
			}
		}
		paths[at+k.Plural+"/{name}"] = methods
	}
	text, err := json.Marshal(map[string]any{
		"openapi": "3.0.0", "info": map[string]string{"title": "drover", "version": kinds[0].Version},
		"paths": paths, "components": map[string]any{"schemas": schemas},
	})
	if err != nil {
		return []byte("{}") // cannot happen: all of it is texts and mappings of them
	}
	return text
}

func query(name string) map[string]any {
	return map[string]any{"name": name, "in": "query", "schema": map[string]string{"type": "string"}}
}

func patches() map[string]any {
	body := map[string]any{"schema": map[string]string{"type": "object"}}
	return map[string]any{"application/json-patch+json": body, "application/merge-patch+json": body, "application/apply-patch+yaml": body}
}

// reversed is a group's name as Kubernetes names schemas: io.cattle.provisioning.
func reversed(group string) string {
	parts := strings.Split(group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}
