package persons

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

// wish is what package people is asked for.
func (b binding) wish(context roles.Context) (w roles.Binding, err error) {
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

func (a API) bindings(context roles.Context) Kind {
	plural := map[roles.Context]string{roles.Global: "globalrolebindings", roles.Cluster: "clusterroletemplatebindings", roles.Project: "projectroletemplatebindings"}[context]
	k := Kind{Definition: define(plural), Collection: subscribe.Bindings}
	k.List = func() []Object {
		var all []Object
		for _, d := range a.State.Bindings.List() {
			if d.Value.Context() == context {
				all = append(all, showBinding(k, d))
			}
		}
		return sorted(all)
	}
	k.Get = func(key string) (Object, bool) {
		d, ok := a.State.Bindings.Get(idOf(key))
		if !ok || d.Value.Context() != context {
			return Object{}, false
		}
		return showBinding(k, d), true
	}
	k.Changed = func(c subscribe.Change) (string, *Object, bool) {
		d, gone, ok := subscribe.Of(c, a.State.Bindings)
		if gone {
			last := showBinding(k, d)
			return last.Key, &last, d.Value.Context() == context
		}
		return strings.Replace(c.Key, ":", "/", 1), nil, ok && d.Value.Context() == context
	}
	k.Within = func(namespace string) auth.Object { return anyBindingIn(k.Of, context, namespace) }
	k.Create = func(q Request, content map[string]any) (Object, error) {
		var sent binding
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return Object{}, err
		}
		w, err := sent.wish(context)
		if err != nil {
			return Object{}, err
		}
		if err := a.exists(q.Who, w); err != nil {
			return Object{}, err
		}
		made, err := a.People.Under(q.Terms).Bind(q.Ctx, q.Who, w)
		if err != nil {
			return Object{}, err
		}
		return a.bindingNow(k, made), nil
	}
	k.Update = func(q Request, o Object, content map[string]any) (Object, error) {
		var sent binding
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return o, err
		}
		for name, wanted := range map[string]string{
			"globalRoleName": sent.GlobalRoleName, "roleTemplateName": sent.RoleTemplateName, "clusterName": sent.ClusterName, "projectName": sent.ProjectName, "userName": sent.UserName,
			"userPrincipalName": sent.UserPrincipalName, "groupName": sent.GroupName, "groupPrincipalName": sent.GroupPrincipalName,
		} {
			is, _ := o.Content[name].(string)
			if err := fixed(name, is, wanted); err != nil {
				return o, err
			}
		}
		made, err := a.People.Under(q.Terms).Rebind(q.Ctx, q.Who, idOf(o.Key), sent.Metadata.Labels, sent.Metadata.Annotations)
		if err != nil {
			return o, err
		}
		return a.bindingNow(k, made), nil
	}
	k.Remove = func(q Request, o Object) error { return a.People.Under(q.Terms).Unbind(q.Ctx, q.Who, idOf(o.Key)) }
	return k
}

// exists refuses a cluster or a project that the caller does not see.
func (a API) exists(who auth.Identity, b roles.Binding) error {
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

func (a API) bindingNow(k Kind, b roles.Binding) Object {
	d, _ := a.State.Bindings.Get(b.ID)
	return showBinding(k, store.Document[roles.Binding]{Key: b.ID, Revision: d.Revision, Value: b})
}

func showBinding(k Kind, d store.Document[roles.Binding]) Object {
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
	return Object{
		Key: strings.Replace(b.ID, ":", "/", 1), May: auth.Object{Kind: k.Of, Key: b.ID, Cluster: b.ClusterID, Project: b.ProjectID}, Revision: max(1, d.Revision), Cells: cells,
		Content: object(k.Definition, about{name: name, namespace: namespace, created: b.Created, labels: b.Labels, annotations: b.Annotations, revision: d.Revision}, fields),
	}
}
