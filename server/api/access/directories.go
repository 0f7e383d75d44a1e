// Where administrators configure outside directories: drover's own API, in which a directory is a document,
// and the type authConfig of /v3, as which Terraform configures them. Secrets go in and never come out.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3 (AuthConfig and the types that extend it).

package access

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

// maxBody bounds a body, in bytes.
const maxBody = 256 << 10

// DirectoryAPI serves directories.
type DirectoryAPI struct {
	// Desk has them; nil answers 503.
	Desk *logins.Desk
	// Groups asks directories about people; nil answers 503.
	Groups Groups
}

// Groups asks the directories that know a user which groups they are in now.
type Groups interface {
	Refresh(ctx context.Context, userID string) (records.User, error)
}

// Kind is the type authConfig.
func (a *DirectoryAPI) Kind() management.Kind {
	text := norman.Field{Type: "string"}
	return management.Kind{
		Schema: norman.Schema{
			ID: "authConfig", Plural: "authConfigs",
			Fields: norman.Fields(map[string]norman.Field{
				"name": text, "enabled": {Type: "boolean", Default: false}, "accessMode": {Type: "enum", Options: []string{"unrestricted", "restricted", "required"}},
				"allowedPrincipalIds": {Type: "array[string]"}, "displayName": text,
			}),
		},
		List: func(c *route.Call) []norman.Object {
			objects := []norman.Object{config(records.Directory{Kind: "local", Access: records.Unrestricted})}
			for _, kind := range directories.Kinds() {
				objects = append(objects, a.shown(a.one(kind), c.URLs.Base))
			}
			return objects
		},
		Get: func(c *route.Call, id string) (norman.Object, bool) {
			if id == "local" {
				return config(records.Directory{Kind: id, Access: records.Unrestricted}), true
			}
			d := a.one(id)
			return a.shown(d, c.URLs.Base), d.Kind != ""
		},
	}
}

// one is a directory, or one of a kind that is not configured, which lets no user in; without a kind for what is none.
func (a *DirectoryAPI) one(kind string) records.Directory {
	if a.Desk != nil {
		if d, ok := a.Desk.Get(kind); ok {
			return d
		}
	}
	if slices.Contains(directories.Kinds(), kind) {
		return records.Directory{Kind: kind, Disabled: true, Access: records.Unrestricted}
	}
	return records.Directory{}
}

func config(d records.Directory) norman.Object {
	allowed := append([]string{}, d.Allowed...)
	return norman.Object{ID: d.Kind, Fixed: true, Kept: true, Fields: map[string]any{
		"name": d.Kind, "enabled": !d.Disabled, "accessMode": string(d.Access), "allowedPrincipalIds": allowed, "displayName": d.DisplayName,
		"created": nil, "creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
}

// List is GET /v1-drover/directories.
func (a *DirectoryAPI) List(c *route.Call) (route.Answer, error) {
	if a.Desk == nil {
		return route.Answer{}, none()
	}
	return route.Page(c, a.Desk.All(), func(d records.Directory) string { return d.Kind }, views.OfDirectory)
}

// Get is GET /v1-drover/directories/{kind}.
func (a *DirectoryAPI) Get(c *route.Call, d records.Directory) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: views.OfDirectory(d)}, nil
}

// Set is POST /v1-drover/directories/set with a document; see directories.Read.
func (a *DirectoryAPI) Set(c *route.Call) (route.Answer, error) {
	if a.Desk == nil {
		return route.Answer{}, none()
	}
	text, err := norman.ReadBody(c.W, c.R, maxBody)
	if err != nil {
		return route.Answer{}, err
	}
	d, err := a.set(c, text)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfDirectory(d)}, nil
}

// set configures a directory by a document.
func (a *DirectoryAPI) set(c *route.Call, text []byte) (records.Directory, error) {
	d, err := a.Desk.Set(c.Ctx(), c.Who, text)
	if bad, ok := errors.AsType[*logins.ConfigError](err); ok {
		return d, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "%s", reasons(bad.Err))
	}
	if err == nil {
		c.Concern(d.Kind)
	}
	return d, err
}

func reasons(err error) string {
	if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
		return bad.Error()
	}
	return strings.TrimSpace(err.Error())
}

// Remove is POST /v1-drover/directories/{kind}/remove.
func (a *DirectoryAPI) Remove(c *route.Call, d records.Directory) (route.Answer, error) {
	return route.Answer{Status: http.StatusNoContent}, a.Desk.Remove(c.Ctx(), c.Who, d.Kind)
}

// Test is POST /v1-drover/directories/{kind}/test with {} or a name and a password: it changes nothing.
func (a *DirectoryAPI) Test(c *route.Call, d records.Directory) (route.Answer, error) {
	in, err := c.JSON(norman.Schema{Fields: norman.Fields(map[string]norman.Field{"username": {Type: "string"}, "password": {Type: "password"}})})
	if err != nil {
		return route.Answer{}, err
	}
	var text [2]string
	for i, name := range []string{"username", "password"} {
		if text[i], err = in.String(name); err != nil {
			return route.Answer{}, err
		}
	}
	who, err := a.Desk.Test(c.Ctx(), d, text[0], text[1])
	if err != nil {
		return route.Answer{}, directoryProblem(err)
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfTested(d.Kind, who)}, nil
}

// Refresh is the action refreshauthprovideraccess of a user: their directories are asked about them now.
func (a *DirectoryAPI) Refresh(c *management.Request) (route.Answer, error) {
	if a.Groups == nil {
		return route.Answer{}, none()
	}
	_, err := a.Groups.Refresh(c.Ctx(), c.ID())
	return route.Answer{Status: http.StatusOK}, directoryProblem(err)
}

// directoryProblem is an error of a directory as administrators see it.
func directoryProblem(err error) error {
	if _, away := errors.AsType[*directories.UnavailableError](err); away {
		return norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "%v", err)
	}
	if denied, ok := errors.AsType[*directories.DeniedError](err); ok {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidFormat, "%s", denied.Reason)
	}
	if errors.Is(err, directories.ErrWrongPassword) || errors.Is(err, directories.ErrNothingToAsk) {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidState, "%v", err)
	}
	return err
}

// Directory is the directory of the path; a *norman.Error of 404 or 403 where there is none for the caller.
func (a *DirectoryAPI) Directory(c *route.Call) (records.Directory, error) {
	if a.Desk == nil {
		return records.Directory{}, none()
	}
	d, ok := a.Desk.Get(c.Param("kind"))
	if !ok || !auth.May(c.Who, auth.Get, auth.Object{Kind: auth.Directory, Key: d.Kind}) {
		return d, norman.Missing("directory", c.Param("kind"))
	}
	if !auth.May(c.Who, c.Row.Access.Verb, auth.Object{Kind: auth.Directory, Key: d.Kind}) {
		return d, c.Denied()
	}
	return d, nil
}

func none() error {
	return norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server has no outside directories")
}
