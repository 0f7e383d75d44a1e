package kube

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// binding is a binding of any of the three kinds that was sent.
type binding struct {
	Metadata           metadata `json:"metadata"`
	GlobalRoleName     string   `json:"globalRoleName"`
	RoleTemplateName   string   `json:"roleTemplateName"`
	ClusterName        string   `json:"clusterName"`
	ProjectName        string   `json:"projectName"`
	UserName           string   `json:"userName"`
	UserPrincipalName  string   `json:"userPrincipalName"`
	GroupName          string   `json:"groupName"`
	GroupPrincipalName string   `json:"groupPrincipalName"`
}

// subject is whom it is for: one field says it, or several that say the same.
func (b binding) subject() (roles.Subject, error) {
	s := roles.Subject{User: b.UserPrincipalName, Group: b.GroupPrincipalName}
	if b.UserName != "" {
		if s.User = roles.LocalUser(b.UserName); b.UserPrincipalName != "" && b.UserPrincipalName != s.User {
			return s, &roles.InvalidError{Field: "userPrincipalName", Reason: "names another user than userName"}
		}
	}
	if b.GroupName != "" {
		if s.Group = b.GroupName; b.GroupPrincipalName != "" && b.GroupPrincipalName != s.Group {
			return s, &roles.InvalidError{Field: "groupPrincipalName", Reason: "names another group than groupName"}
		}
	}
	return s, nil
}

func readBinding(content map[string]any, context roles.Context) (roles.Binding, error) {
	var sent binding
	if err := read(content, &sent, &sent.Metadata); err != nil {
		return roles.Binding{}, err
	}
	return sent.asked(context)
}

// asked is what package people is asked for.
func (b binding) asked(context roles.Context) (w roles.Binding, err error) {
	w = roles.Binding{ID: b.Metadata.Name, Role: b.RoleTemplateName, Labels: b.Metadata.Labels, Annotations: b.Metadata.Annotations}
	if w.Subject, err = b.subject(); err != nil {
		return w, err
	}
	field := "roleTemplateName"
	switch context {
	case roles.Global:
		w.Role, field = b.GlobalRoleName, "globalRoleName"
	case roles.Cluster:
		if w.ClusterID = b.Metadata.Namespace; b.ClusterName != "" && b.ClusterName != w.ClusterID {
			return w, &roles.InvalidError{Field: "clusterName", Reason: fmt.Sprintf("is %.80q, and the namespace is %.80q: a binding is in the namespace of its cluster", b.ClusterName, w.ClusterID)}
		}
	case roles.Project:
		if w.ProjectID = b.ProjectName; people.ProjectNamespace(b.ProjectName) != b.Metadata.Namespace {
			return w, &roles.InvalidError{Field: "projectName", Reason: fmt.Sprintf("is %.80q, and the namespace is %.80q: a binding is in the namespace of its project, which is the id of that with a dash", b.ProjectName, b.Metadata.Namespace)}
		}
		w.ClusterID = roles.ClusterOf(w.ProjectID)
	}
	if w.Role == "" {
		return w, &roles.InvalidError{Field: field, Reason: "is empty; a binding gives a role"}
	}
	return w, nil
}

// keeps refuses to change what a binding gives to whom.
func (b binding) keeps(o PersonObject) error {
	for name, wanted := range map[string]string{
		"globalRoleName": b.GlobalRoleName, "roleTemplateName": b.RoleTemplateName, "clusterName": b.ClusterName, "projectName": b.ProjectName, "userName": b.UserName,
		"userPrincipalName": b.UserPrincipalName, "groupName": b.GroupName, "groupPrincipalName": b.GroupPrincipalName,
	} {
		is, _ := o.Content[name].(string)
		if err := fixed(name, is, wanted); err != nil {
			return err
		}
	}
	return nil
}

// bindingsOf are the resources of bindings.
var bindingsOf = map[roles.Context]string{roles.Global: "globalrolebindings", roles.Cluster: "clusterroletemplatebindings", roles.Project: "projectroletemplatebindings"}

// idOf is the ID of a binding by its key.
func idOf(key string) string { return strings.Replace(key, "/", ":", 1) }

// anyBindingIn stands for any binding of a namespace: that of a cluster, or of a project, whose name is behind the last "-p-".
func anyBindingIn(kind auth.Kind, context roles.Context, namespace string) auth.Object {
	o := auth.Object{Kind: kind}
	switch context {
	case roles.Cluster:
		o.Cluster = namespace
	case roles.Project:
		if i := strings.LastIndex(namespace, "-p-"); i >= 0 {
			o.Cluster, o.Project = namespace[:i], namespace[:i]+":"+namespace[i+1:]
		}
	case roles.Global:
	}
	return o
}

func (a People) bindings(context roles.Context) PersonKind {
	k := PersonKind{Definition: define(bindingsOf[context]), Collection: subscribe.Bindings}
	k.List = func() []PersonObject {
		var all []PersonObject
		for _, d := range a.State.Bindings.List() {
			if d.Value.Context() == context {
				all = append(all, showBinding(k, d))
			}
		}
		return sorted(all)
	}
	k.Get = func(key string) (PersonObject, bool) {
		d, ok := a.State.Bindings.Get(idOf(key))
		if !ok || d.Value.Context() != context {
			return PersonObject{}, false
		}
		return showBinding(k, d), true
	}
	k.Changed = func(c subscribe.Change) (string, *PersonObject, bool) {
		d, gone, ok := subscribe.Of(c, a.State.Bindings)
		if gone {
			last := showBinding(k, d)
			return last.Key, &last, d.Value.Context() == context
		}
		return strings.Replace(c.Key, ":", "/", 1), nil, ok && d.Value.Context() == context
	}
	k.Within = func(namespace string) auth.Object { return anyBindingIn(k.Of, context, namespace) }
	k.Create = func(q personRequest, content map[string]any) (PersonObject, error) {
		w, err := readBinding(content, context)
		if err == nil {
			err = a.exists(q.Who, w)
		}
		if err != nil {
			return PersonObject{}, err
		}
		made, err := a.People.Under(q.Terms).Bind(q.Ctx, q.Who, w)
		if err != nil {
			return PersonObject{}, err
		}
		return a.bindingNow(k, made), nil
	}
	k.Update = func(q personRequest, o PersonObject, content map[string]any) (PersonObject, error) {
		var sent binding
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return o, err
		}
		if err := sent.keeps(o); err != nil {
			return o, err
		}
		made, err := a.People.Under(q.Terms).Rebind(q.Ctx, q.Who, idOf(o.Key), sent.Metadata.Labels, sent.Metadata.Annotations)
		if err != nil {
			return o, err
		}
		return a.bindingNow(k, made), nil
	}
	k.Remove = func(q personRequest, o PersonObject) error {
		return a.People.Under(q.Terms).Unbind(q.Ctx, q.Who, idOf(o.Key))
	}
	return k
}

// exists refuses a cluster or a project that the caller does not see.
func (a People) exists(who auth.Identity, b roles.Binding) error {
	switch b.Context() {
	case roles.Cluster:
		if _, ok := a.State.ClustersByID.First(b.ClusterID); !ok || !auth.May(who, auth.Get, auth.OfCluster(b.ClusterID)) {
			return &roles.InvalidError{Field: "clusterName", Reason: fmt.Sprintf("there is no cluster %.80q", b.ClusterID)}
		}
	case roles.Project:
		if _, _, ok := a.State.Project(b.ProjectID); !ok || !auth.May(who, auth.Get, auth.Object{Kind: auth.Project, Key: b.ProjectID}) {
			return &roles.InvalidError{Field: "projectName", Reason: fmt.Sprintf("there is no project %.80q", b.ProjectID)}
		}
	case roles.Global:
	}
	return nil
}

func (a People) bindingNow(k PersonKind, b roles.Binding) PersonObject {
	d, _ := a.State.Bindings.Get(b.ID)
	return showBinding(k, store.Document[roles.Binding]{Key: b.ID, Revision: d.Revision, Value: b})
}

func showBinding(k PersonKind, d store.Document[roles.Binding]) PersonObject {
	b := d.Value
	namespace, name, within := strings.Cut(b.ID, ":")
	if !within {
		namespace, name = "", b.ID
	}
	fields := map[string]any{}
	cells := []any{name, b.Role, b.Principal(), b.Created}
	switch b.Context() {
	case roles.Global:
		fields["globalRoleName"] = b.Role
	case roles.Cluster:
		fields["roleTemplateName"], fields["clusterName"] = b.Role, b.ClusterID
	case roles.Project:
		fields["roleTemplateName"], fields["projectName"] = b.Role, b.ProjectID
		cells = []any{name, b.ProjectID, b.Role, b.Principal(), b.Created}
	}
	if b.User != "" {
		fields["userPrincipalName"] = b.User
	}
	if id, local := roles.LocalUserID(b.User); local {
		fields["userName"] = id
	}
	if b.Group != "" {
		fields["groupPrincipalName"] = b.Group
	}
	return PersonObject{
		Key: strings.Replace(b.ID, ":", "/", 1), May: auth.Object{Kind: k.Of, Key: b.ID, Cluster: b.ClusterID, Project: b.ProjectID}, Revision: max(1, d.Revision), Cells: cells,
		Content: personObject(k.Definition, about{name: name, namespace: namespace, created: b.Created, labels: b.Labels, annotations: b.Annotations, revision: d.Revision}, fields),
	}
}
