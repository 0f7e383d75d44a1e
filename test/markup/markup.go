// Package markup puts a text into every field of every document that a server keeps, so that a test need not know what
// they have: whatever a page shows of them has to come out as text. What names a thing, and what says where it belongs, stays.
package markup

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/state"
)

// Texts are what is put into the fields: one breaks out of attributes and elements, the other is an address of a script.
var Texts = []string{
	`"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}javascript:alert(3)`,
	`javascript:alert(4)//</pre></textarea></title><img src=x onerror=alert(5)>`,
}

// kept are the fields of each collection that stay: by them things are found, or what is done with a thing depends on
// them. "*" is all of them.
var kept = map[string][]string{
	"Clusters":           {"Namespace", "Name", "UID", "ID", "Spec", "Exported", "Owners", "Paused", "Status.State"},
	"ClusterSecrets":     {"*"},
	"RegistrationTokens": {"ClusterID", "ClusterNamespace", "ClusterName", "Name", "Token"},
	"Fleets":             {"Namespace", "ID", "Name"},
	"Machines":           {"Namespace", "Name", "UID", "ClusterName", "ClusterID", "ClusterNamespace", "Docker", "Status.State"},
	"PlanSecrets":        {"Namespace", "Name", "Labels", "Data"},
	"RKEStates":          {"Done", "Halted", "Heeded"},
	"Objects":            {"*"},
	"Operations":         {"ID", "Subject", "State"},
	"Snapshots":          {"Cluster", "Machine", "Spec", "TokenHash"},
	"Users":              {"ID", "Username", "PasswordHash", "Elsewhere", "Groups"},
	"UserNames":          {"*"},
	"GlobalRoles":        {"ID", "Context"},
	"RoleTemplates":      {"ID", "Context"},
	"Bindings":           {"ID", "Role", "User", "Group", "ClusterID", "ProjectID"},
	"ProjectSecrets":     {"ProjectID", "Name"},
	"Projects":           {"ID", "ClusterID", "Name"},
	"Directories":        {"Kind", "Access", "LDAP", "OIDC", "GitHub"},
	"Tokens":             {"Name", "KeyHash", "UserID", "ClusterID", "ClusterHash", "Directory"},
	"Settings":           {"*"},
	"Replicas":           {"ID"},
	"Connections":        {"Subject", "Replica"},
	"Watches":            {"Subject", "Replica"},
	"ServerSecrets":      {"*"},
	"Events":             {"Events.ClusterID"},
}

// Everywhere puts the text into all documents that there are, and returns the names of the collections that have none.
func Everywhere(ctx context.Context, st *state.State, text string) (empty []string, err error) {
	all := reflect.ValueOf(st).Elem()
	for _, field := range reflect.VisibleFields(all.Type()) { // those of its groups, too
		name, collection := field.Name, all.FieldByIndex(field.Index)
		modify, list := collection.MethodByName("Modify"), collection.MethodByName("List")
		if !modify.IsValid() || !list.IsValid() {
			continue // the store, or an index
		}
		documents := list.Call(nil)[0]
		if documents.Len() == 0 {
			empty = append(empty, name)
		}
		change := reflect.MakeFunc(modify.Type().In(2), func(args []reflect.Value) []reflect.Value {
			filled := reflect.New(args[0].Type()).Elem()
			filled.Set(args[0])
			if !slices.Contains(kept[name], "*") {
				fill(filled, text, kept[name], "", 0)
			}
			return []reflect.Value{filled, reflect.Zero(reflect.TypeFor[error]())}
		})
		for j := range documents.Len() {
			key := documents.Index(j).FieldByName("Key")
			if failed, ok := modify.Call([]reflect.Value{reflect.ValueOf(ctx), key, change})[1].Interface().(error); ok {
				return nil, fmt.Errorf("fill %s %s: %w", name, key, failed)
			}
		}
	}
	return empty, nil
}

// Fill puts the text into every field of a value, and makes one of each list, map and pointer that there is none of.
func Fill(into any, text string) { fill(reflect.ValueOf(into).Elem(), text, nil, "", 0) }

// fill changes nothing that v shares with others. Times stay what they are.
func fill(v reflect.Value, text string, kept []string, path string, depth int) {
	if depth > 10 || !v.CanSet() || v.Type() == reflect.TypeFor[time.Time]() || slices.Contains(kept, path) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			at := path
			if !field.Anonymous {
				at = strings.TrimPrefix(path+"."+field.Name, ".")
			}
			fill(v.Field(i), text, kept, at, depth+1)
		}
	case reflect.Pointer:
		one := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			one.Elem().Set(v.Elem())
		}
		fill(one.Elem(), text, kept, path, depth+1)
		v.Set(one)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			all := reflect.MakeSlice(v.Type(), max(1, v.Len()), max(1, v.Len()))
			reflect.Copy(all, v)
			for i := range all.Len() {
				fill(all.Index(i), text, kept, path, depth+1)
			}
			v.Set(all)
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			one := reflect.New(v.Type().Elem()).Elem()
			fill(one, text, kept, path, depth+1)
			all := reflect.MakeMap(v.Type())
			for _, key := range v.MapKeys() {
				all.SetMapIndex(key, one)
			}
			all.SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), one)
			v.Set(all)
		}
	default: // numbers and truths say nothing
	}
}
