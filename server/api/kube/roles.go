package kube

import (
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// role is a GlobalRole or a RoleTemplate that was sent.
type role struct {
	Metadata              metadata      `json:"metadata"`
	DisplayName           string        `json:"displayName"`
	Description           string        `json:"description"`
	Rules                 []roles.Rule  `json:"rules"`
	NewUserDefault        bool          `json:"newUserDefault"`
	InheritedClusterRoles []string      `json:"inheritedClusterRoles"`
	Context               roles.Context `json:"context"`
	RoleTemplateNames     []string      `json:"roleTemplateNames"`
	Locked                bool          `json:"locked"`
	ClusterCreatorDefault bool          `json:"clusterCreatorDefault"`
	ProjectCreatorDefault bool          `json:"projectCreatorDefault"`
	Administrative        bool          `json:"administrative"`
	External              bool          `json:"external"`
}

// refused are the fields that are not supported and were given a value.
func (r role) refused() error {
	switch {
	case r.External:
		return &roles.InvalidError{Field: "external", Reason: "roles that are kept elsewhere are not supported: give the rules"}
	case r.Administrative:
		return &roles.InvalidError{Field: "administrative", Reason: "roles for administrators only are not supported"}
	case len(r.InheritedClusterRoles) > 0:
		return &roles.InvalidError{Field: "inheritedClusterRoles", Reason: "a global role gives nothing inside clusters: bind a role template in each"}
	}
	return nil
}

// into puts what was sent in place of what a role is.
func (r role) into(to *roles.Role) {
	to.Name, to.Description, to.Rules, to.Inherits = r.DisplayName, r.Description, r.Rules, r.RoleTemplateNames
	to.Labels, to.Annotations = r.Metadata.Labels, r.Metadata.Annotations
	to.NewUserDefault, to.Locked, to.ClusterCreatorDefault, to.ProjectCreatorDefault = r.NewUserDefault, r.Locked, r.ClusterCreatorDefault, r.ProjectCreatorDefault
}

func (a People) roleKind(kind roles.Kind) PersonKind {
	k := PersonKind{Definition: define("globalroles"), Collection: subscribe.GlobalRoles}
	if kind == roles.RoleTemplate {
		k = PersonKind{Definition: define("roletemplates"), Collection: subscribe.RoleTemplates}
	}
	show := func(r roles.Role) PersonObject {
		d, _ := a.State.RolesOf(kind).Get(r.ID)
		return showRole(k, r, d.Revision)
	}
	k.List = func() []PersonObject {
		var all []PersonObject
		for _, r := range a.State.Roles(kind) {
			all = append(all, show(r))
		}
		return sorted(all)
	}
	k.Get = func(key string) (PersonObject, bool) {
		r, ok := a.State.Role(kind, key)
		return show(r), ok
	}
	k.Changed = subscribe.Shown(func(d store.Document[roles.Role]) PersonObject { return showRole(k, d.Value, d.Revision) })
	k.Within = func(string) auth.Object { return auth.Object{Kind: k.Of} }
	k.Create = func(q personRequest, content map[string]any) (PersonObject, error) {
		sent, err := readRole(content)
		if err != nil {
			return PersonObject{}, err
		}
		made, err := sent.made(kind)
		if err != nil {
			return PersonObject{}, err
		}
		made, err = a.People.Under(q.Terms).CreateRole(q.Ctx, q.Who, made)
		if err != nil {
			return PersonObject{}, err
		}
		return show(made), nil
	}
	k.Update = func(q personRequest, o PersonObject, content map[string]any) (PersonObject, error) {
		sent, err := readRole(content)
		if err != nil {
			return o, err
		}
		made, err := a.People.Under(q.Terms).UpdateRole(q.Ctx, q.Who, kind, o.Key, func(r *roles.Role) error {
			sent.into(r)
			if sent.Context != "" && kind == roles.RoleTemplate {
				r.Context = sent.Context
			}
			return nil
		})
		if err != nil {
			return o, err
		}
		return show(made), nil
	}
	k.Remove = func(q personRequest, o PersonObject) error {
		return a.People.Under(q.Terms).RemoveRole(q.Ctx, q.Who, kind, o.Key)
	}
	return k
}

func readRole(content map[string]any) (sent role, err error) {
	if err = read(content, &sent, &sent.Metadata); err == nil {
		err = sent.refused()
	}
	return sent, err
}

// made is the new role of a kind.
func (r role) made(kind roles.Kind) (roles.Role, error) {
	made := roles.Role{ID: r.Metadata.Name, Context: roles.Global}
	if kind == roles.RoleTemplate {
		if made.Context = r.Context; r.Context == "" {
			made.Context = roles.Cluster // as in Rancher
		}
		if made.Context == roles.Global {
			return made, &roles.InvalidError{Field: "context", Reason: "is cluster or project; a role at the server is a GlobalRole"}
		}
	}
	r.into(&made)
	return made, nil
}

func showRole(k PersonKind, r roles.Role, revision int64) PersonObject {
	rules := r.Rules
	if rules == nil {
		rules = []roles.Rule{}
	}
	fields := map[string]any{"displayName": r.Name, "rules": rules, "builtin": r.Builtin}
	if r.Description != "" {
		fields["description"] = r.Description
	}
	cells := []any{r.ID, r.Name, r.Builtin, r.NewUserDefault, r.Created}
	if r.Context == roles.Global {
		fields["newUserDefault"] = r.NewUserDefault
	} else {
		fields["context"], fields["locked"] = string(r.Context), r.Locked
		fields["clusterCreatorDefault"], fields["projectCreatorDefault"] = r.ClusterCreatorDefault, r.ProjectCreatorDefault
		if len(r.Inherits) > 0 {
			fields["roleTemplateNames"] = r.Inherits
		}
		cells = []any{r.ID, r.Name, string(r.Context), r.Builtin, r.Locked, r.Created}
	}
	return PersonObject{
		Key: r.ID, May: auth.Object{Kind: k.Of, Key: r.ID}, Revision: max(1, revision), Cells: cells,
		Content: personObject(k.Definition, about{name: r.ID, created: r.Created, labels: r.Labels, annotations: r.Annotations, revision: revision}, fields),
	}
}
