// Package openapi makes the OpenAPI description of routes whose protocols are Rancher's and Kubernetes', from the
// table and the schemas of /v3, so that none is missing and none is described that is not served.
package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
)

// Routes describes rows by path and method. What it refers to is put into schemas; of finds the schema of a type of /v3.
func Routes(rows []route.Row, schemas map[string]any, of func(auth.Kind) (norman.Schema, bool)) map[string]any {
	d := &describer{paths: map[string]map[string]any{}, schemas: schemas, of: of}
	for _, row := range rows {
		d.add(row)
	}
	paths := map[string]any{}
	for path, methods := range d.paths {
		paths[path] = methods
	}
	return paths
}

// Path is where the description has a row: without its action, which is a parameter.
func Path(pattern string) string {
	path, _, _ := strings.Cut(pattern, "?")
	return strings.ReplaceAll(path, "...}", "}")
}

// Methods are those of a row, as OpenAPI names them.
func Methods(row route.Row) []string {
	if row.Method == "*" {
		return []string{"delete", "get", "patch", "post", "put"}
	}
	return []string{strings.ToLower(row.Method)}
}

type describer struct {
	paths   map[string]map[string]any
	schemas map[string]any
	of      func(auth.Kind) (norman.Schema, bool)
}

func (d *describer) add(row route.Row) {
	path := Path(row.Pattern)
	if d.paths[path] == nil {
		d.paths[path] = map[string]any{}
	}
	_, action, _ := strings.Cut(row.Pattern, "?action=")
	for _, method := range Methods(row) {
		old, known := d.paths[path][method].(map[string]any)
		switch {
		case !known:
			d.paths[path][method] = d.operation(row, method, action)
		case action != "":
			addAction(old, action, row.Access.String())
		case old["x-drover-actions"] != nil: // what is done without an action
			first := d.operation(row, method, "")
			first["x-drover-actions"] = old["x-drover-actions"]
			parameters, _ := first["parameters"].([]any)
			first["parameters"] = append(parameters, actionParameter(first["x-drover-actions"]))
			d.paths[path][method] = first
		}
	}
}

// operation describes a method of a path.
func (d *describer) operation(row route.Row, method, action string) map[string]any {
	o := map[string]any{"summary": summary(row, action), "tags": []string{family(row.Pattern)}, "x-drover-access": row.Access.String()}
	var parameters []any
	for segment := range strings.SplitSeq(Path(row.Pattern), "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parameters = append(parameters, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": text()})
		}
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	done := map[string]any{"description": "done"}
	if ref := d.answer(row); ref != nil {
		done["content"] = map[string]any{"application/json": map[string]any{"schema": ref}}
	}
	o["responses"] = map[string]any{"2XX": done, "default": map[string]string{"$ref": "#/components/responses/" + refusal(row.Pattern)}}
	if body := d.body(row, method, action); body != nil {
		o["requestBody"] = body
	}
	if action != "" {
		o["x-drover-actions"] = map[string]string{}
		addAction(o, action, row.Access.String())
	}
	return o
}

// addAction adds what ?action= can be.
func addAction(o map[string]any, action, access string) {
	actions, ok := o["x-drover-actions"].(map[string]string)
	if !ok {
		actions = map[string]string{}
		o["x-drover-actions"] = actions
	}
	actions[action] = access
	parameters, _ := o["parameters"].([]any)
	parameters = slices.DeleteFunc(slices.Clone(parameters), func(p any) bool { return p.(map[string]any)["name"] == "action" })
	o["parameters"] = append(parameters, actionParameter(actions))
}

func actionParameter(actions any) map[string]any {
	names, _ := actions.(map[string]string)
	return map[string]any{"name": "action", "in": "query", "schema": map[string]any{"type": "string", "enum": slices.Sorted(maps.Keys(names))}}
}

// family is the protocol that a route belongs to.
func family(pattern string) string {
	for _, f := range [][2]string{
		{"/v3/connect", "agents"}, {"/v3/import", "agents"}, {"/v3-public", "login"}, {"/v1-public", "login"}, {"/v1/logout", "login"},
		{"/v3", "management (Norman)"}, {"/v1-drover", "drover"}, {"/v1-", "releases"}, {"/v1", "Steve"}, {"/k8s/clusters", "clusters' own APIs"},
		{"/apis", "Kubernetes"}, {"/api", "Kubernetes"}, {"/openapi", "Kubernetes"}, {"/version", "Kubernetes"},
	} {
		if strings.HasPrefix(pattern, f[0]) {
			return f[1]
		}
	}
	return "server"
}

// refusal names the form of errors.
func refusal(pattern string) string {
	switch family(pattern) {
	case "Kubernetes", "clusters' own APIs":
		return "Status"
	case "agents", "server":
		return "Text"
	}
	return "Refused"
}

// summary is what a row does, in a few words.
func summary(row route.Row, action string) string {
	kind := string(row.Access.Kind)
	switch verb := string(row.Access.Verb); {
	case action != "":
		return "Actions of " + kind
	case kind != "":
		return strings.ToUpper(verb[:min(1, len(verb))]) + verb[min(1, len(verb)):] + " " + kind
	}
	return strings.TrimPrefix(Path(row.Pattern), "/")
}

// answer refers to what a row of /v3 answers with; nil where that is not described.
func (d *describer) answer(row route.Row) map[string]any {
	s, ok := d.of(row.Access.Kind)
	if !ok || family(row.Pattern) != "management (Norman)" {
		return nil
	}
	one := d.schema(s)
	switch row.Access.Verb {
	case auth.List:
		return map[string]any{"type": "object", "properties": map[string]any{"type": text(), "resourceType": text(), "data": map[string]any{"type": "array", "items": one}, "pagination": map[string]any{"type": "object"}}}
	case auth.Get, auth.Create, auth.Update:
		return one
	}
	return nil
}

func (d *describer) body(row route.Row, method, action string) map[string]any {
	if method != "post" && method != "put" && method != "patch" {
		return nil
	}
	schema := map[string]any{}
	if s, ok := d.of(row.Access.Kind); ok && family(row.Pattern) == "management (Norman)" && action == "" {
		schema = d.schema(s)
	}
	return map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": schema}}}
}

// schema refers to a type of /v3, which becomes a component.
func (d *describer) schema(s norman.Schema) map[string]any {
	name := "v3." + s.ID
	if d.schemas[name] == nil {
		properties := map[string]any{
			"id": text(), "type": text(), "links": texts(), "actions": texts(), "state": text(), "transitioning": map[string]any{"type": "string", "enum": []string{"yes", "no", "error"}}, "transitioningMessage": text(),
		}
		var required []string
		for field, f := range s.Fields {
			one := value(f.Type)
			if len(f.Options) > 0 {
				one["enum"] = f.Options
			}
			if f.WriteOnly || f.Type == "password" {
				one["writeOnly"] = true
			}
			if !f.Create && !f.Update {
				one["readOnly"] = true
			}
			if f.Required {
				required = append(required, field)
			}
			properties[field] = one
		}
		component := map[string]any{"type": "object", "properties": properties}
		if slices.Sort(required); required != nil {
			component["required"] = required
		}
		d.schemas[name] = component
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

func text() map[string]any { return map[string]any{"type": "string"} }

func texts() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": text()}
}

// value describes a type of a field of Norman.
func value(kind string) map[string]any {
	of, inner, _ := strings.Cut(strings.TrimSuffix(kind, "]"), "[")
	switch of {
	case "string", "enum", "password", "dnsLabel", "dnsLabelRestricted", "hostname", "base64", "reference":
		return text()
	case "date":
		return map[string]any{"type": "string", "format": "date-time"}
	case "int":
		return map[string]any{"type": "integer"}
	case "float":
		return map[string]any{"type": "number"}
	case "boolean":
		return map[string]any{"type": "boolean"}
	case "array":
		return map[string]any{"type": "array", "items": value(inner)}
	case "map":
		return map[string]any{"type": "object", "additionalProperties": value(inner)}
	case "json":
		return map[string]any{}
	}
	return map[string]any{"type": "object"}
}
