// Package access is what the API has of users, roles, bindings, principals, outside directories and preferences: their
// types in /v3, some of them in the form of Kubernetes, and who the caller is. The rules of what may be changed are those of package people.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3, pkg/api/norman/customization/roletemplatebinding.
package access

import (
	"errors"
	"net/http"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// API serves users, roles, bindings and principals.
type API struct {
	State    *state.State
	Auth     *auth.Auth
	Settings *settings.Settings
	People   *people.People
	// Directories are searched for people and groups; nil for none.
	Directories *logins.Desk
}

// Kinds are the types of /v3.
func (a *API) Kinds() []management.Kind {
	return []management.Kind{
		a.userKind(), a.roleKind(roles.GlobalRole), a.bindingKind(roles.Global), a.roleKind(roles.RoleTemplate),
		a.bindingKind(roles.Cluster), a.bindingKind(roles.Project), a.principalKind(),
	}
}

// problem is an error of package people as clients see it.
func problem(err error) error {
	if bad, ok := errors.AsType[*auth.PasswordError](err); ok {
		field := "newPassword"
		if bad.Current {
			field = "currentPassword"
		}
		return norman.Invalid(norman.InvalidBodyContent, field, "%s", bad.Reason)
	}
	if bad, ok := errors.AsType[*roles.InvalidError](err); ok {
		return norman.Invalid(norman.InvalidBodyContent, bad.Field, "%s", bad.Reason)
	}
	refused, ok := errors.AsType[*people.RefusedError](err)
	if !ok {
		return err
	}
	if refused.Why == people.Escalation {
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%s", refused.Reason)
	}
	code := map[people.Why]string{
		people.LastAdmin: norman.InvalidState, people.Oneself: norman.InvalidAction, people.Taken: norman.NotUnique, people.Unknown: norman.InvalidReference,
		people.Unfit: norman.InvalidOption, people.Locked: norman.InvalidState, people.InUse: norman.InvalidState, people.Fixed: norman.InvalidState, people.TooMany: norman.MaxLimitExceeded,
	}[refused.Why]
	return norman.Invalid(code, refused.Field, "%s", refused.Reason)
}

// text is a field of text, nil where the body does not have it.
func text(in norman.Input, name string) (*string, error) {
	value, err := in.String(name)
	if err != nil || !in.Has(name) {
		return nil, err
	}
	return &value, nil
}

// flag is a field that is true or false, nil where the body does not have it.
func flag(in norman.Input, name string) (*bool, error) {
	value, err := in.Bool(name)
	if err != nil || !in.Has(name) {
		return nil, err
	}
	return &value, nil
}
