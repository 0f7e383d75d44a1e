// The types globalRoleBinding, clusterRoleTemplateBinding and projectRoleTemplateBinding.

package access

import (
	"cmp"
	"net/http"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/roles"
)

// roleField is the field that names the role of a binding, and kindOf the type that the binding is of.
func roleField(context roles.Context) string {
	if context == roles.Global {
		return "globalRoleId"
	}
	return "roleTemplateId"
}

func kindOf(context roles.Context) auth.Kind {
	switch context {
	case roles.Cluster:
		return auth.ClusterBinding
	case roles.Project:
		return auth.ProjectBinding
	case roles.Global:
	}
	return auth.GlobalRoleBinding
}

func (a *API) bindingKind(context roles.Context) management.Kind {
	given := norman.Field{Type: "string", Create: true, Nullable: true}
	reference := func(to string, required bool) norman.Field {
		return norman.Field{Type: "reference[" + to + "]", Create: true, Required: required, Nullable: !required}
	}
	own := map[string]norman.Field{"name": given, "userId": reference("user", false), "userPrincipalId": given, "groupPrincipalId": given}
	switch context {
	case roles.Global:
		own["globalRoleId"] = reference("globalRole", true)
	case roles.Cluster:
		own["roleTemplateId"], own["clusterId"], own["groupId"] = reference("roleTemplate", true), reference("cluster", true), given
	case roles.Project:
		own["roleTemplateId"], own["projectId"], own["groupId"] = reference("roleTemplate", true), reference("project", true), given
	}
	id := string(kindOf(context))
	return management.Kind{
		Schema: norman.Schema{ID: id, Plural: id + "s", Fields: norman.Fields(own)},
		List: func(*route.Call) []norman.Object {
			var objects []norman.Object
			for _, d := range a.State.Bindings.List() {
				if d.Value.Context() == context {
					objects = append(objects, bindingObject(d.Value))
				}
			}
			return objects
		},
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			d, ok := a.State.Bindings.Get(id)
			return bindingObject(d.Value), ok && d.Value.Context() == context
		},
		Changed: func(_ *route.Call, change subscribe.Change) (string, *norman.Object) {
			if d, _, ok := subscribe.Of(change, a.State.Bindings); !ok || d.Value.Context() != context {
				return "", nil
			}
			return management.ShownOf(change, subscribe.Bindings, bindingObject)
		},
	}
}

func bindingObject(b roles.Binding) norman.Object {
	userID, _ := roles.LocalUserID(b.User)
	o := norman.Object{ID: b.ID, Fixed: b.Context() == roles.Global, Fields: map[string]any{
		"name": cmp.Or(b.Name, b.ID), "userId": norman.Reference(userID), "userPrincipalId": norman.Reference(b.User), "groupPrincipalId": norman.Reference(b.Group),
		roleField(b.Context()): b.Role, "created": b.Created, "creatorId": norman.Reference(b.CreatorID),
		"labels": norman.Map(b.Labels), "annotations": norman.Map(b.Annotations),
	}}
	switch b.Context() {
	case roles.Cluster:
		o.Fields["clusterId"], o.Fields["groupId"] = b.ClusterID, nil
	case roles.Project:
		o.Fields["projectId"], o.Fields["groupId"] = b.ProjectID, nil
	case roles.Global:
	}
	k8sobjects.Well().Into(o.Fields)
	return o
}

// subject is whom the binding of a body is for: one field says it, or several that say the same.
func subject(in norman.Input) (roles.Subject, error) {
	var given [4]string
	for i, name := range []string{"userId", "userPrincipalId", "groupId", "groupPrincipalId"} {
		var err error
		if given[i], err = in.String(name); err != nil {
			return roles.Subject{}, err
		}
	}
	s := roles.Subject{User: given[1], Group: given[3]}
	if given[0] != "" {
		if s.User = roles.LocalUser(given[0]); given[1] != "" && given[1] != s.User {
			return s, norman.Invalid(norman.InvalidBodyContent, "userPrincipalId", "userId and userPrincipalId name different users")
		}
	}
	if given[2] != "" {
		if s.Group = given[2]; given[3] != "" && given[3] != s.Group {
			return s, norman.Invalid(norman.InvalidBodyContent, "groupPrincipalId", "groupId and groupPrincipalId name different groups")
		}
	}
	return s, nil
}

// CreateBinding is POST of a type of bindings.
func (a *API) CreateBinding(context roles.Context) management.Body {
	return func(c *management.Request, in norman.Input) (_ route.Answer, err error) {
		b := roles.Binding{}
		if b.Role, err = in.Required(roleField(context)); err != nil {
			return route.Answer{}, err
		}
		if b.Name, err = in.String("name"); err != nil {
			return route.Answer{}, err
		}
		if b.Subject, err = subject(in); err != nil {
			return route.Answer{}, err
		}
		if b.Labels, b.Annotations, err = in.Labelled(nil, nil); err != nil {
			return route.Answer{}, err
		}
		if err := a.place(c.Call, in, context, &b); err != nil {
			return route.Answer{}, err
		}
		b, err = a.People.Bind(c.Ctx(), c.Who, b)
		if err != nil {
			return route.Answer{}, problem(err)
		}
		c.Concern(b.ID, "role "+b.Role, "for "+b.Principal())
		return c.Shown(http.StatusCreated, bindingObject(b)), nil
	}
}

// place is the cluster or the project of a body, which the caller has to see, and to be allowed to give roles in.
func (a *API) place(c *route.Call, in norman.Input, context roles.Context, b *roles.Binding) error {
	var err error
	about := auth.Object{Kind: kindOf(context)}
	switch context {
	case roles.Global:
		return nil // the table has asked
	case roles.Cluster:
		if b.ClusterID, err = in.Required("clusterId"); err != nil {
			return err
		}
		if _, ok := a.State.ClustersByID.First(b.ClusterID); !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(b.ClusterID)) {
			return norman.Invalid(norman.InvalidReference, "clusterId", "there is no cluster %.80q", b.ClusterID)
		}
		about.Cluster = b.ClusterID
	case roles.Project:
		if b.ProjectID, err = in.Required("projectId"); err != nil {
			return err
		}
		b.ClusterID = roles.ClusterOf(b.ProjectID)
		project := auth.Object{Kind: auth.Project, Key: b.ProjectID}
		if _, _, ok := a.State.Project(b.ProjectID); !ok || !auth.May(c.Who, auth.Get, project) {
			return norman.Invalid(norman.InvalidReference, "projectId", "there is no project %.80q", b.ProjectID)
		}
		about.Project = b.ProjectID
	}
	if !auth.May(c.Who, auth.Create, about) {
		return c.Denied()
	}
	return nil
}

// UpdateBinding is PUT: labels and annotations can change, and nothing else of a binding.
func (a *API) UpdateBinding(c *management.Request, in norman.Input) (route.Answer, error) {
	is := c.Object().Fields
	for _, name := range []string{"name", "roleTemplateId", "clusterId", "projectId", "userId", "userPrincipalId", "groupPrincipalId"} {
		value, err := in.String(name)
		if err != nil {
			return route.Answer{}, err
		}
		if value != "" && is[name] != value {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, name, "cannot be changed: remove the binding and make another one")
		}
	}
	d, err := a.State.Bindings.Modify(c.Ctx(), c.ID(), func(b roles.Binding) (roles.Binding, error) {
		var err error
		b.Labels, b.Annotations, err = in.Labelled(b.Labels, b.Annotations)
		return b, err
	})
	if err != nil {
		return route.Answer{}, err
	}
	return c.Shown(http.StatusOK, bindingObject(d.Value)), nil
}

// RemoveBinding is DELETE of a type of bindings.
func (a *API) RemoveBinding(c *management.Request) (route.Answer, error) {
	return route.Answer{Status: http.StatusNoContent}, problem(a.People.Unbind(c.Ctx(), c.Who, c.ID()))
}
