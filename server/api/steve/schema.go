// Types of /v1 and what their resources look like to a caller.

package steve

import (
	"maps"
	"net/url"
	"strings"
)

// Schema is a type.
type Schema struct {
	// Group, Version, Kind and Resource (the plural) are those of Kubernetes.
	Group, Version, Kind, Resource string
	Namespaced                     bool
	// CollectionMethods and ResourceMethods are what the caller may do.
	CollectionMethods, ResourceMethods []string
}

// ID is "<group>.<kind in lower case>"; types of the core group have no group in front.
func (s Schema) ID() string { return s.in(".", strings.ToLower(s.Kind)) }

// Plural is the type's segment in URLs, "<group>.<resource>".
func (s Schema) Plural() string { return s.in(".", s.Resource) }

// APIVersion is that of the objects.
func (s Schema) APIVersion() string { return s.in("/", s.Version) }

func (s Schema) in(separator, name string) string {
	if s.Group == "" {
		return name
	}
	return s.Group + separator + name
}

// Document is the schema as clients read it; base is the URL of the API.
func (s Schema) Document(base string) map[string]any {
	return map[string]any{
		"id": s.ID(), "type": "schema", "pluralName": s.Plural(), "description": "",
		"links":             map[string]string{"self": base + "/schemas/" + s.ID(), "collection": base + "/" + s.Plural()},
		"collectionMethods": s.CollectionMethods, "resourceMethods": s.ResourceMethods, "resourceFields": map[string]any{},
		"attributes": map[string]any{
			"group": s.Group, "version": s.Version, "kind": s.Kind, "resource": s.Resource, "namespaced": s.Namespaced,
		},
	}
}

// escaped are fields of Kubernetes objects whose names /v1 uses itself.
var escaped = []string{"type", "id", "links", "actions"}

// Escape gives fields of a Kubernetes object whose names /v1 uses itself the names that they have there, with an underscore in front.
func (s Schema) Escape(o map[string]any) {
	for _, field := range escaped {
		if value, ok := o[field]; ok {
			o["_"+field] = value
			delete(o, field)
		}
	}
}

// Unescape makes of an object that a client sends one of Kubernetes. The type of a Secret may also be written as Kubernetes has it.
func (s Schema) Unescape(o map[string]any) {
	kind, _ := o["type"].(string)
	for _, field := range escaped {
		delete(o, field)
		if value, ok := o["_"+field]; ok {
			o[field] = value
			delete(o, "_"+field)
		}
	}
	if s.Kind == "Secret" && o["type"] == nil && kind != "" && kind != s.ID() {
		o["type"] = kind
	}
}

// Links are what the caller may do with a resource, beyond looking at it.
type Links struct{ Update, Remove bool }

// Present adds to an object what /v1 shows beside the Kubernetes fields.
func (s Schema) Present(base string, o Object, id string, may Links) Object {
	segments := strings.Split(id, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	self := base + "/" + s.Plural() + "/" + strings.Join(segments, "/")
	links := map[string]string{"self": self, "view": self}
	if may.Update {
		links["update"] = self
	}
	if may.Remove {
		links["remove"] = self
	}
	shown := make(Object, len(o)+4)
	maps.Copy(shown, o)
	shown["id"], shown["type"], shown["links"] = id, s.ID(), links
	if _, ok := shown["actions"]; !ok {
		shown["actions"] = map[string]string{}
	}
	return shown
}
