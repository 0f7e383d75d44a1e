// The documents that describe the types.

package norman

import "slices"

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
