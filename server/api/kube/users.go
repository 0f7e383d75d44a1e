package kube

import (
	"strings"

	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// user is a User that was sent.
type user struct {
	Metadata           metadata  `json:"metadata"`
	Username           string    `json:"username"`
	DisplayName        string    `json:"displayName"`
	Description        string    `json:"description"`
	PrincipalIDs       *[]string `json:"principalIds"`
	Enabled            *bool     `json:"enabled"`
	MustChangePassword bool      `json:"mustChangePassword"`
}

func (a People) users() PersonKind {
	k := PersonKind{Definition: define("users"), Collection: subscribe.Users}
	k.List = func() []PersonObject {
		var all []PersonObject
		for _, d := range a.State.Users.List() {
			all = append(all, showUser(k, d))
		}
		return sorted(all)
	}
	k.Get = func(key string) (PersonObject, bool) {
		d, ok := a.State.Users.Get(key)
		return showUser(k, d), ok
	}
	k.Changed = subscribe.Shown(func(d store.Document[records.User]) PersonObject { return showUser(k, d) })
	k.Within = func(string) auth.Object { return auth.Object{Kind: auth.User} }
	k.Create = func(q personRequest, content map[string]any) (PersonObject, error) {
		var sent user
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return PersonObject{}, err
		}
		n := people.NewUser{
			ID: sent.Metadata.Name, Username: sent.Username, DisplayName: sent.DisplayName, Description: sent.Description, NoPassword: true,
			Labels: sent.Metadata.Labels, Annotations: sent.Metadata.Annotations, MustChange: sent.MustChangePassword, Disabled: sent.Enabled != nil && !*sent.Enabled,
		}
		if sent.PrincipalIDs != nil {
			n.Principals = *sent.PrincipalIDs
		}
		u, err := a.People.Under(q.Terms).CreateUser(q.Ctx, q.Who, n)
		if err != nil {
			return PersonObject{}, err
		}
		return a.userNow(k, u), nil
	}
	k.Update = func(q personRequest, o PersonObject, content map[string]any) (PersonObject, error) {
		var sent user
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return o, err
		}
		is, _ := o.Content["username"].(string)
		if err := fixed("username", is, sent.Username); err != nil {
			return o, err
		}
		enabled := sent.Enabled == nil || *sent.Enabled
		u, err := a.People.Under(q.Terms).UpdateUser(q.Ctx, q.Who, o.Key, people.UserChange{
			DisplayName: &sent.DisplayName, Description: &sent.Description, Enabled: &enabled, MustChange: &sent.MustChangePassword,
			Labels: &sent.Metadata.Labels, Annotations: &sent.Metadata.Annotations, Principals: sent.PrincipalIDs,
		})
		if err != nil {
			return o, err
		}
		return a.userNow(k, u), nil
	}
	k.Remove = func(q personRequest, o PersonObject) error {
		return a.People.Under(q.Terms).RemoveUser(q.Ctx, q.Who, o.Key)
	}
	return k
}

// userNow shows a user that was made or changed, with the revision that it has; one of a dry run is not there.
func (a People) userNow(k PersonKind, u records.User) PersonObject {
	d, _ := a.State.Users.Get(u.ID)
	return showUser(k, store.Document[records.User]{Key: u.ID, Revision: d.Revision, Value: u})
}

func showUser(k PersonKind, d store.Document[records.User]) PersonObject {
	u := d.Value
	principals := append([]string{u.Principal()}, u.Elsewhere...)
	fields := map[string]any{"username": u.Username, "principalIds": principals, "enabled": !u.Disabled}
	for name, text := range map[string]string{"displayName": u.DisplayName, "description": u.Description} {
		if text != "" {
			fields[name] = text
		}
	}
	if u.MustChange {
		fields["mustChangePassword"] = true
	}
	return PersonObject{
		Key: u.ID, May: auth.Object{Kind: auth.User, Key: u.ID, Owner: u.ID}, Revision: max(1, d.Revision),
		Content: personObject(k.Definition, about{name: u.ID, created: u.Created, labels: u.Labels, annotations: u.Annotations, revision: d.Revision}, fields),
		Cells:   []any{u.ID, u.Username, u.DisplayName, !u.Disabled, u.Created, strings.Join(principals, ",")},
	}
}
