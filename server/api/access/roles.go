// The types globalRole and roleTemplate.

package access

import (
	"net/http"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/roles"
)

func (a *API) roleKind(kind roles.Kind) management.Kind {
	name := norman.Field{Type: "string", Create: true, Update: true, Required: true}
	text, flag := norman.Field{Type: "string", Create: true, Update: true}, norman.Field{Type: "boolean", Create: true, Update: true, Default: false}
	own := map[string]norman.Field{
		"name": name, "description": text, "rules": {Type: "array[policyRule]", Create: true, Update: true}, "builtin": {Type: "boolean", Default: false},
	}
	schema, collection := norman.Schema{ID: "globalRole", Plural: "globalRoles"}, subscribe.GlobalRoles
	if kind == roles.RoleTemplate {
		schema, collection = norman.Schema{ID: "roleTemplate", Plural: "roleTemplates"}, subscribe.RoleTemplates
		own["context"] = norman.Field{Type: "enum", Create: true, Options: []string{"cluster", "project"}}
		own["roleTemplateIds"] = norman.Field{Type: "array[reference[roleTemplate]]", Create: true, Update: true}
		own["locked"], own["clusterCreatorDefault"], own["projectCreatorDefault"] = flag, flag, flag
		own["hidden"], own["administrative"], own["external"] = norman.Field{Type: "boolean", Default: false}, norman.Field{Type: "boolean", Default: false}, norman.Field{Type: "boolean", Default: false}
	} else {
		own["newUserDefault"], own["inheritedClusterRoles"] = flag, norman.Field{Type: "array[string]"}
	}
	schema.Fields = norman.Fields(own)
	return management.Kind{
		Schema: schema,
		List:   func(*route.Call) []norman.Object { return norman.Objects(a.State.Roles(kind), roleObject) },
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			r, ok := a.State.Role(kind, id)
			return roleObject(r), ok
		},
		Changed: func(_ *route.Call, change subscribe.Change) (string, *norman.Object) {
			return management.ShownOf(change, collection, roleObject)
		},
	}
}

func roleObject(r roles.Role) norman.Object {
	rules := r.Rules
	if rules == nil {
		rules = []roles.Rule{}
	}
	o := norman.Object{ID: r.ID, Kept: r.Builtin, Fields: map[string]any{
		"name": r.Name, "description": r.Description, "rules": rules, "builtin": r.Builtin, "created": r.Created, "creatorId": norman.Reference(r.CreatorID),
		"labels": norman.Map(r.Labels), "annotations": norman.Map(r.Annotations),
	}}
	k8sobjects.Well().Into(o.Fields)
	if r.Context == roles.Global {
		o.Fields["newUserDefault"], o.Fields["inheritedClusterRoles"] = r.NewUserDefault, []string{}
		return o
	}
	o.Fields["context"], o.Fields["roleTemplateIds"] = string(r.Context), append([]string{}, r.Inherits...)
	o.Fields["locked"], o.Fields["clusterCreatorDefault"], o.Fields["projectCreatorDefault"] = r.Locked, r.ClusterCreatorDefault, r.ProjectCreatorDefault
	o.Fields["hidden"], o.Fields["administrative"], o.Fields["external"] = false, false, false
	return o
}

// read takes what the body has of a role into it; the rest stays.
func read(in norman.Input, r *roles.Role) error {
	for _, unsupported := range []string{"external", "administrative"} {
		if is, err := in.Bool(unsupported); err != nil || is {
			return norman.Invalid(norman.InvalidOption, unsupported, "roles that are kept elsewhere, or are for administrators only, are not supported: give the rules")
		}
	}
	var inherited []string
	if err := in.Decode("inheritedClusterRoles", &inherited); err != nil || len(inherited) > 0 {
		return norman.Invalid(norman.InvalidOption, "inheritedClusterRoles", "a global role gives nothing inside clusters: bind a role template in each")
	}
	for name, to := range map[string]*string{"name": &r.Name, "description": &r.Description} {
		if value, err := text(in, name); err != nil {
			return err
		} else if value != nil {
			*to = *value
		}
	}
	for name, to := range map[string]*bool{
		"locked": &r.Locked, "newUserDefault": &r.NewUserDefault, "clusterCreatorDefault": &r.ClusterCreatorDefault, "projectCreatorDefault": &r.ProjectCreatorDefault,
	} {
		if value, err := flag(in, name); err != nil {
			return err
		} else if value != nil {
			*to = *value
		}
	}
	if in.Has("roleTemplateIds") {
		r.Inherits = nil
		if err := in.Decode("roleTemplateIds", &r.Inherits); err != nil {
			return err
		}
	}
	return readRules(in, r)
}

func readRules(in norman.Input, r *roles.Role) (err error) {
	if in.Has("rules") {
		var given []struct {
			roles.Rule
			Type string `json:"type"` // which clients send back
		}
		if err := in.Decode("rules", &given); err != nil {
			return err
		}
		r.Rules = nil
		for _, one := range given {
			r.Rules = append(r.Rules, one.Rule)
		}
	}
	r.Labels, r.Annotations, err = in.Labelled(r.Labels, r.Annotations)
	return err
}

// CreateRole is POST of either type.
func (a *API) CreateRole(kind roles.Kind) management.Body {
	return func(c *management.Request, in norman.Input) (_ route.Answer, err error) {
		r := roles.Role{Context: roles.Global}
		if kind == roles.RoleTemplate {
			context, err := in.String("context")
			if err != nil {
				return route.Answer{}, err
			}
			if r.Context = roles.Context(context); context == "" {
				r.Context = roles.Cluster // as in Rancher
			}
			if r.Context != roles.Cluster && r.Context != roles.Project {
				return route.Answer{}, norman.Invalid(norman.InvalidOption, "context", "%.40q is neither cluster nor project", context)
			}
		}
		if err := read(in, &r); err != nil {
			return route.Answer{}, err
		}
		r, err = a.People.CreateRole(c.Ctx(), c.Who, r)
		if err != nil {
			return route.Answer{}, problem(err)
		}
		return c.Shown(http.StatusCreated, roleObject(r)), nil
	}
}

// UpdateRole is PUT of either type.
func (a *API) UpdateRole(kind roles.Kind) management.Body {
	return func(c *management.Request, in norman.Input) (route.Answer, error) {
		context, err := in.String("context")
		if err != nil {
			return route.Answer{}, err
		}
		r, err := a.People.UpdateRole(c.Ctx(), c.Who, kind, c.ID(), func(r *roles.Role) error {
			if context != "" && kind == roles.RoleTemplate {
				r.Context = roles.Context(context)
			}
			return read(in, r)
		})
		if err != nil {
			return route.Answer{}, problem(err)
		}
		return c.Shown(http.StatusOK, roleObject(r)), nil
	}
}

// RemoveRole is DELETE of either type.
func (a *API) RemoveRole(kind roles.Kind) management.Handler {
	return func(c *management.Request) (route.Answer, error) {
		return route.Answer{Status: http.StatusNoContent}, problem(a.People.RemoveRole(c.Ctx(), c.Who, kind, c.ID()))
	}
}
