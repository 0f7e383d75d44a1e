// The type user, and passwords.

package access

import (
	"net/http"
	"strconv"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
)

func (a *API) userKind() management.Kind {
	both := norman.Field{Type: "string", Create: true, Update: true}
	return management.Kind{
		Schema: norman.Schema{
			ID: "user", Plural: "users",
			Fields: norman.Fields(map[string]norman.Field{
				"username": {Type: "string", Create: true, Required: true}, "name": both, "description": both, "me": {Type: "boolean"},
				"enabled": {Type: "boolean", Default: true, Create: true, Update: true}, "mustChangePassword": {Type: "boolean", Default: false, Create: true, Update: true},
				"password": {Type: "password", Create: true, Required: true}, "principalIds": {Type: "array[string]", Update: true},
			}),
			ResourceActions:   map[string]norman.Action{"setpassword": {Input: "setPasswordInput", Output: "user"}, "refreshauthprovideraccess": {}},
			CollectionActions: map[string]norman.Action{"changepassword": {Input: "changePasswordInput"}},
		},
		Owner: func(o norman.Object) string { return o.ID },
		List: func(c *route.Call) []norman.Object {
			if !auth.May(c.Who, auth.Get, auth.Object{Kind: auth.User}) { // of thousands they see themselves
				d, _ := a.State.Users.Get(c.Who.UserID)
				return []norman.Object{userObject(c, d.Value)}
			}
			return norman.Objects(a.Auth.Users(), func(u records.User) norman.Object { return userObject(c, u) })
		},
		Get: func(c *route.Call, id string) (norman.Object, bool) {
			d, ok := a.State.Users.Get(id)
			return userObject(c, d.Value), ok
		},
		Changed: func(c *route.Call, change subscribe.Change) (string, *norman.Object) {
			return management.ShownOf(change, subscribe.Users, func(u records.User) norman.Object { return userObject(c, u) })
		},
	}
}

func userObject(c *route.Call, u records.User) norman.Object {
	principals := append([]string{u.Principal()}, u.Elsewhere...)
	o := norman.Object{ID: u.ID, Kept: u.ID == c.Who.UserID, Actions: []string{"setpassword"}, Fields: map[string]any{
		"username": u.Username, "name": u.DisplayName, "description": u.Description, "enabled": !u.Disabled, "mustChangePassword": u.MustChange,
		"principalIds": principals, "created": u.Created, "creatorId": norman.Reference(u.CreatorID),
		"labels": norman.Map(u.Labels), "annotations": norman.Map(u.Annotations),
	}}
	if len(u.Elsewhere) > 0 {
		o.Actions = append(o.Actions, "refreshauthprovideraccess")
	}
	if u.ID == c.Who.UserID {
		o.Fields["me"] = true
	}
	k8sobjects.Well().Into(o.Fields)
	return o
}

// passwordInput is the bodies of both actions.
func passwordInput() norman.Schema {
	return norman.Schema{Fields: norman.Fields(map[string]norman.Field{
		"currentPassword": {Type: "password"}, "newPassword": {Type: "password"},
	})}
}

func (a *API) passwordLength() int {
	n, err := strconv.Atoi(a.Settings.Get("password-min-length").Value)
	if err != nil { // checked when it was stored
		return 12
	}
	return n
}

// CreateUser is POST of the type. Global roles are bound by requests of their own.
func (a *API) CreateUser(c *management.Request, in norman.Input) (_ route.Answer, err error) {
	n := people.NewUser{MinLength: a.passwordLength()}
	if n.Username, err = in.Required("username"); err != nil {
		return route.Answer{}, err
	}
	if n.Password, err = in.Required("password"); err != nil {
		return route.Answer{}, err
	}
	for name, to := range map[string]*string{"name": &n.DisplayName, "description": &n.Description} {
		if *to, err = in.String(name); err != nil {
			return route.Answer{}, err
		}
	}
	if n.MustChange, err = in.Bool("mustChangePassword"); err != nil {
		return route.Answer{}, err
	}
	if n.Labels, n.Annotations, err = in.Labelled(nil, nil); err != nil {
		return route.Answer{}, err
	}
	enabled, err := flag(in, "enabled")
	if err != nil {
		return route.Answer{}, err
	}
	n.Disabled = enabled != nil && !*enabled
	u, err := a.People.CreateUser(c.Ctx(), c.Who, n)
	if err != nil {
		return route.Answer{}, problem(err)
	}
	return c.Shown(http.StatusCreated, userObject(c.Call, u)), nil
}

// UpdateUser is PUT: what the body does not have stays, and the login name cannot change.
func (a *API) UpdateUser(c *management.Request, in norman.Input) (_ route.Answer, err error) {
	var change people.UserChange
	for name, to := range map[string]**string{"name": &change.DisplayName, "description": &change.Description} {
		if *to, err = text(in, name); err != nil {
			return route.Answer{}, err
		}
	}
	for name, to := range map[string]**bool{"enabled": &change.Enabled, "mustChangePassword": &change.MustChange} {
		if *to, err = flag(in, name); err != nil {
			return route.Answer{}, err
		}
	}
	if in.Has("labels") || in.Has("annotations") {
		d, _ := a.State.Users.Get(c.ID())
		labels, annotations, err := in.Labelled(d.Value.Labels, d.Value.Annotations)
		if err != nil {
			return route.Answer{}, err
		}
		change.Labels, change.Annotations = &labels, &annotations
	}
	if in.Has("principalIds") {
		var principals []string
		if err := in.Decode("principalIds", &principals); err != nil {
			return route.Answer{}, err
		}
		change.Principals = &principals
	}
	u, err := a.People.UpdateUser(c.Ctx(), c.Who, c.ID(), change)
	if err != nil {
		return route.Answer{}, problem(err)
	}
	return c.Shown(http.StatusOK, userObject(c.Call, u)), nil
}

// RemoveUser is DELETE.
func (a *API) RemoveUser(c *management.Request) (route.Answer, error) {
	return route.Answer{Status: http.StatusNoContent}, problem(a.People.RemoveUser(c.Ctx(), c.Who, c.ID()))
}

// ChangePassword changes the caller's own.
func (a *API) ChangePassword(c *management.Request) (route.Answer, error) {
	in, err := c.Input(passwordInput())
	if err != nil {
		return route.Answer{}, err
	}
	current, err := in.Required("currentPassword")
	if err != nil {
		return route.Answer{}, err
	}
	changed, err := in.Required("newPassword")
	if err != nil {
		return route.Answer{}, err
	}
	err = a.Auth.ChangePassword(c.Ctx(), c.Who, current, changed, a.passwordLength())
	return route.Answer{Status: http.StatusOK}, problem(err)
}

// SetPassword gives a user another one.
func (a *API) SetPassword(c *management.Request) (route.Answer, error) {
	in, err := c.Input(passwordInput())
	if err != nil {
		return route.Answer{}, err
	}
	changed, err := in.Required("newPassword")
	if err != nil {
		return route.Answer{}, err
	}
	u, err := a.People.SetPassword(c.Ctx(), c.Who, c.ID(), changed, a.passwordLength())
	if err != nil {
		return route.Answer{}, problem(err)
	}
	return c.Shown(http.StatusOK, userObject(c.Call, u)), nil
}
