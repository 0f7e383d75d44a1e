// The type user, and passwords.

package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

func (a *API) userKind() *kind {
	return &kind{
		schema: norman.Schema{
			ID: "user", Plural: "users",
			Fields: norman.Fields(map[string]norman.Field{
				"username": {Type: "string"}, "name": {Type: "string"}, "description": {Type: "string"}, "me": {Type: "string"},
				"enabled": {Type: "boolean", Default: true}, "mustChangePassword": {Type: "boolean", Default: false},
				"password": {Type: "password"}, "principalIds": {Type: "array[string]"},
			}),
			ResourceActions:   map[string]norman.Action{"setpassword": {Input: "setPasswordInput", Output: "user"}},
			CollectionActions: map[string]norman.Action{"changepassword": {Input: "changePasswordInput"}},
		},
		list: func(c *call) []norman.Object {
			var objects []norman.Object
			for _, u := range a.Auth.Users() {
				if c.seesUser(u.ID) {
					objects = append(objects, userObject(c, u))
				}
			}
			return objects
		},
		get: func(c *call, id string) (norman.Object, bool) {
			d, ok := a.State.Users.Get(id)
			if !ok || !c.seesUser(id) {
				return norman.Object{}, false
			}
			return userObject(c, d.Value), true
		},
	}
}

// seesUser: everybody sees themselves, administrators all.
func (c *call) seesUser(id string) bool { return c.who.Admin || id == c.who.UserID }

func userObject(c *call, u records.User) norman.Object {
	o := norman.Object{ID: u.ID, Actions: []string{"setpassword"}, Fields: map[string]any{
		"username": u.Username, "name": u.DisplayName, "description": "", "enabled": !u.Disabled, "mustChangePassword": u.MustChange,
		"principalIds": []string{"local://" + u.ID}, "created": u.Created, "creatorId": nil,
		"labels": map[string]string{}, "annotations": map[string]string{},
	}}
	if u.ID == c.who.UserID {
		o.Fields["me"] = "true"
	}
	summary{"active", "no", ""}.into(o.Fields)
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

// changePassword changes the caller's own.
func (a *API) changePassword(c *call) (answer, error) {
	in, err := c.input(passwordInput())
	if err != nil {
		return answer{}, err
	}
	current, err := in.Required("currentPassword")
	if err != nil {
		return answer{}, err
	}
	changed, err := in.Required("newPassword")
	if err != nil {
		return answer{}, err
	}
	err = a.Auth.ChangePassword(c.ctx(), c.who, current, changed, a.passwordLength())
	return answer{status: http.StatusOK}, passwordProblem(err)
}

// setPassword gives a user another one.
func (a *API) setPassword(c *call) (answer, error) {
	in, err := c.input(passwordInput())
	if err != nil {
		return answer{}, err
	}
	changed, err := in.Required("newPassword")
	if err != nil {
		return answer{}, err
	}
	u, err := a.Auth.SetPassword(c.ctx(), c.id, changed, a.passwordLength(), c.who.TokenName)
	if err != nil {
		return answer{}, passwordProblem(err)
	}
	object := userObject(c, u)
	return answer{status: http.StatusOK, object: &object}, nil
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
