// The type user, and passwords.

package management

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

func (a *API) userKind() *kind {
	return &kind{
		schema: norman.Schema{
			ID: "user", Plural: "users",
			Fields: norman.Fields(map[string]norman.Field{
				"username": {Type: "string"}, "name": {Type: "string"}, "description": {Type: "string"}, "me": {Type: "boolean"},
				"enabled": {Type: "boolean", Default: true}, "mustChangePassword": {Type: "boolean", Default: false},
				"password": {Type: "password"}, "principalIds": {Type: "array[string]"},
			}),
			ResourceActions:   map[string]norman.Action{"setpassword": {Input: "setPasswordInput", Output: "user"}},
			CollectionActions: map[string]norman.Action{"changepassword": {Input: "changePasswordInput"}},
		},
		owner: func(o norman.Object) string { return o.ID },
		list: func(c *route.Call) []norman.Object {
			var objects []norman.Object
			for _, u := range a.Auth.Users() {
				objects = append(objects, userObject(c, u))
			}
			return objects
		},
		get: func(c *route.Call, id string) (norman.Object, bool) {
			d, ok := a.State.Users.Get(id)
			if !ok {
				return norman.Object{}, false
			}
			return userObject(c, d.Value), true
		},
	}
}

func userObject(c *route.Call, u records.User) norman.Object {
	o := norman.Object{ID: u.ID, Actions: []string{"setpassword"}, Fields: map[string]any{
		"username": u.Username, "name": u.DisplayName, "description": "", "enabled": !u.Disabled, "mustChangePassword": u.MustChange,
		"principalIds": []string{"local://" + u.ID}, "created": u.Created, "creatorId": nil,
		"labels": map[string]string{}, "annotations": map[string]string{},
	}}
	if u.ID == c.Who.UserID {
		o.Fields["me"] = true
	}
	conditions.New("active", "no", "").Into(o.Fields)
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

// ChangePassword changes the caller's own.
func (a *API) ChangePassword(c *Request) (route.Answer, error) {
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
	return route.Answer{Status: http.StatusOK}, passwordProblem(err)
}

// SetPassword gives a user another one.
func (a *API) SetPassword(c *Request) (route.Answer, error) {
	in, err := c.Input(passwordInput())
	if err != nil {
		return route.Answer{}, err
	}
	changed, err := in.Required("newPassword")
	if err != nil {
		return route.Answer{}, err
	}
	u, err := a.Auth.SetPassword(c.Ctx(), c.id, changed, a.passwordLength(), c.Who.TokenName)
	if err != nil {
		return route.Answer{}, passwordProblem(err)
	}
	object := userObject(c.Call, u)
	return a.shown(c, http.StatusOK, object, nil), nil
}

func passwordProblem(err error) error {
	if bad, ok := errors.AsType[*auth.PasswordError](err); ok {
		field := "newPassword"
		if bad.Current {
			field = "currentPassword"
		}
		return norman.Invalid(norman.InvalidBodyContent, field, "%s", bad.Reason)
	}
	return err
}
