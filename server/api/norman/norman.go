// Package norman is the form of the management API: URL space, schemas, envelopes of
// resources and collections, list parameters, error bodies and content negotiation.
// It knows nothing of what the resources mean and has no store.
//
// Wire source: rancher/norman api, parse, urlbuilder, types, clientbase (v0.10 line).
package norman

import (
	"maps"
	"slices"
	"time"
)

// Version names one API: the management API or a sub-API of a cluster or project.
type Version struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	// Path is below the server's URL, with a leading slash and without a trailing one.
	Path string `json:"path"`
}

// Field is one field of a schema. The zero value of Create and Update is read only.
type Field struct {
	// Type is string, int, boolean, date, enum, password, dnsLabel, hostname, reference[x], array[x], map[x] or a schema id.
	Type      string   `json:"type"`
	Create    bool     `json:"create"`
	Update    bool     `json:"update"`
	Required  bool     `json:"required,omitempty"`
	Nullable  bool     `json:"nullable,omitempty"`
	WriteOnly bool     `json:"writeOnly,omitempty"`
	Default   any      `json:"default,omitempty"`
	Options   []string `json:"options,omitempty"`
	MinLength int      `json:"minLength,omitempty"`
}

// filterable says whether lists can be filtered and sorted by the field.
func (f Field) filterable() bool {
	switch f.Type {
	case "string", "int", "boolean", "date", "enum", "dnsLabel", "dnsLabelRestricted", "hostname":
		return true
	}
	return len(f.Type) > len("reference[") && f.Type[:len("reference[")] == "reference["
}

// modifiers are what may follow the field's name in a filter.
func (f Field) modifiers() []string {
	if f.Type == "boolean" {
		return []string{"eq", "ne"}
	}
	return []string{"eq", "ne", "in", "notin"}
}

// Action is input and output of an action: ids of schemas, or empty.
type Action struct {
	Input  string `json:"input,omitempty"`
	Output string `json:"output,omitempty"`
}

// Schema is one type of resource.
type Schema struct {
	// ID is the type's name, camelCase; Plural the segment of its URL.
	ID, Plural string
	// Version is where the type lives.
	Version Version
	// CollectionMethods are GET and POST, ResourceMethods GET, PUT and DELETE: what a client may try.
	CollectionMethods, ResourceMethods []string
	// Fields are made by the function of that name.
	Fields                             map[string]Field
	ResourceActions, CollectionActions map[string]Action
	// Aliases are filters that look at more fields than the one they name.
	Aliases map[string][]string
}

// Fields adds to a type's own fields those that every resource has.
func Fields(own map[string]Field) map[string]Field {
	all := map[string]Field{
		"id": {Type: "string"}, "type": {Type: "string"}, "baseType": {Type: "string"},
		"links": {Type: "map[string]"}, "actions": {Type: "map[string]"},
		"created": {Type: "date"}, "creatorId": {Type: "string", Nullable: true}, "removed": {Type: "date", Nullable: true},
		"uuid": {Type: "string"}, "labels": {Type: "map[string]", Create: true, Update: true},
		"annotations": {Type: "map[string]", Create: true, Update: true},
		"state":       {Type: "string"}, "transitioning": {Type: "enum", Options: []string{"yes", "no", "error"}},
		"transitioningMessage": {Type: "string"},
	}
	maps.Copy(all, own)
	return all
}

// isEnvelope says that clients send the key back though it is not a field.
func isEnvelope(name string) bool {
	switch name {
	case "actionLinks", "createdTS", "removedTS", "ownerReferences":
		return true
	}
	return false
}

// isCommon says that every resource has the field, so that clients send it with all that they make.
func isCommon(name string) bool {
	_, common := Fields(nil)[name]
	return common
}

// Ignored are the names in a body that nothing is done about, sorted: a client that
// misspells a field is notified. Fields that exist but cannot be written are among
// them where something is made, and labels and annotations also where it is changed; all else
// is not, since clients send back what they read.
func (s Schema) Ignored(in Input, creating bool) []string {
	var names []string
	for name := range in.fields {
		field, ok := s.Fields[name]
		kept := name == "labels" || name == "annotations"
		switch {
		case isEnvelope(name):
		case !ok, s.ID != "" && in.Asks(name) && (creating && !field.Create && (kept || !isCommon(name)) || kept && !field.Create && !field.Update):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Objects are things as resources; none is nil.
func Objects[T any](all []T, show func(T) Object) (objects []Object) {
	for _, one := range all {
		objects = append(objects, show(one))
	}
	return objects
}

// Object is a resource before it is shown to a caller: links and actions that depend
// on the caller's rights are added by Present.
type Object struct {
	ID string
	// Fields hold values that encoding/json can write; a time.Time becomes RFC3339 text
	// with a twin in milliseconds, the zero time null.
	Fields map[string]any
	// Links are those beside self, update and remove.
	Links map[string]string
	// Fixed objects cannot be changed, Kept ones cannot be deleted, with any rights.
	Fixed, Kept bool
	// Actions are the names of those that make sense now.
	Actions []string
}

// Allowed is what the caller may do with an object.
type Allowed struct {
	Update, Remove bool
	Action         func(name string) bool
}

// Present is the object as a resource for one caller.
func (s Schema) Present(o Object, u URLs, may Allowed) map[string]any {
	self := u.Resource(s, o.ID)
	links := map[string]string{"self": self}
	maps.Copy(links, o.Links)
	if may.Update && !o.Fixed {
		links["update"] = self
	}
	if may.Remove && !o.Kept {
		links["remove"] = self
	}
	actions := map[string]string{}
	for _, name := range o.Actions {
		if may.Action != nil && may.Action(name) {
			actions[name] = self + "?action=" + name
		}
	}
	r := make(map[string]any, len(o.Fields)+8)
	r["id"], r["type"], r["baseType"], r["links"], r["actions"] = o.ID, s.ID, s.ID, links, actions
	for name, value := range o.Fields {
		at, isTime := value.(time.Time)
		switch {
		case !isTime:
			r[name] = value
		case at.IsZero():
			r[name], r[name+"TS"] = nil, nil
		default:
			r[name] = at.UTC().Format(time.RFC3339)
			r[name+"TS"] = at.UnixMilli()
		}
	}
	return r
}

// Reference shows an empty reference as null.
func Reference(id string) any {
	if id == "" {
		return nil
	}
	return id
}

// Map shows an absent map as an empty one.
func Map(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// maxDescription is the longest description of anything, in bytes.
const maxDescription = 1024

// CheckDescription refuses one that is too long.
func CheckDescription(text string) error {
	if len(text) > maxDescription {
		return Invalid(MaxLengthExceeded, "description", "has %d bytes; at most %d are possible", len(text), maxDescription)
	}
	return nil
}

// Document is the schema as clients read it. The URLs decide below which sub-API the
// links point.
func (s Schema) Document(u URLs) map[string]any {
	filters := map[string]any{}
	for name, f := range s.Fields {
		if f.filterable() {
			filters[name] = map[string]any{"modifiers": f.modifiers()}
		}
	}
	links := map[string]string{"self": u.At(s.Version.Path, "schemas", s.ID)}
	if s.lists() {
		links["collection"] = u.Collection(s)
	}
	return map[string]any{
		"id": s.ID, "type": "schema", "baseType": "schema", "pluralName": s.Plural, "version": s.Version,
		"links": links, "actions": map[string]string{},
		"collectionMethods": orEmpty(s.CollectionMethods), "resourceMethods": orEmpty(s.ResourceMethods),
		"resourceFields": s.Fields, "collectionFilters": filters,
		"resourceActions": actionsOrEmpty(s.ResourceActions), "collectionActions": actionsOrEmpty(s.CollectionActions),
	}
}

func (s Schema) lists() bool {
	return slices.Contains(s.CollectionMethods, "GET")
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func actionsOrEmpty(m map[string]Action) map[string]Action {
	if m == nil {
		return map[string]Action{}
	}
	return m
}
