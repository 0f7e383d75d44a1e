// The type token: everybody's own API tokens, and logging out.

package management

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// Tokens serves the type token.
type Tokens struct {
	State    *state.State
	Auth     *auth.Auth
	Settings *settings.Settings
	Now      func() time.Time
}

func (a Tokens) kind() *Kind {
	text := norman.Field{Type: "string"}
	return &Kind{
		Schema: norman.Schema{
			ID: "token", Plural: "tokens",
			Fields: norman.Fields(map[string]norman.Field{
				"name": text, "userId": {Type: "reference[user]"}, "userPrincipal": text, "authProvider": text, "expiresAt": text,
				"labels": {Type: "map[string]"}, "annotations": {Type: "map[string]"}, // which are not kept
				"token": {Type: "string", WriteOnly: true}, "lastUsedAt": {Type: "date", Nullable: true},
				"description": {Type: "string", Create: true, Update: true},
				"ttl":         {Type: "int", Create: true, Default: 0},
				"clusterId":   {Type: "reference[cluster]", Create: true, Nullable: true},
				"expired":     {Type: "boolean", Default: false}, "current": {Type: "boolean", Default: false},
				"enabled": {Type: "boolean", Default: true}, "isDerived": {Type: "boolean", Default: true},
			}),
			CollectionActions: map[string]norman.Action{"logout": {}, "logoutAll": {}},
		},
		Owner: func(o norman.Object) string { userID, _ := o.Fields["userId"].(string); return userID },
		List: func(c *route.Call) []norman.Object {
			return norman.Objects(a.Auth.Tokens(), func(t records.Token) norman.Object { return a.object(c, t) })
		},
		Get: func(c *route.Call, id string) (norman.Object, bool) {
			t, ok := a.Auth.Token(id)
			if !ok {
				return norman.Object{}, false
			}
			return a.object(c, t), true
		},
	}
}

func (a Tokens) object(c *route.Call, t records.Token) norman.Object {
	expires := ""
	if !t.Expires.IsZero() {
		expires = t.Expires.UTC().Format(time.RFC3339)
	}
	var used any
	if last := a.Auth.Uses.Last(t.Name); !last.IsZero() {
		used = last.UTC().Format(time.RFC3339)
	}
	summary := k8sobjects.Well()
	o := norman.Object{ID: t.Name, Fields: map[string]any{
		"name": t.Name, "description": t.Description, "userId": t.UserID, "userPrincipal": "local://" + t.UserID, "authProvider": cmp.Or(t.Directory, "local"),
		"ttl": t.TTLMillis, "expiresAt": expires, "expired": auth.Expired(t, a.Now()), "enabled": !t.Disabled,
		"current": t.Name == c.Who.TokenName, "isDerived": !t.Session, "clusterId": norman.Reference(t.ClusterID), "lastUsedAt": used,
		"created": t.Created, "creatorId": norman.Reference(t.UserID), "labels": map[string]string{}, "annotations": map[string]string{},
	}}
	summary.Into(o.Fields)
	return o
}

// TTL is how long a token lives that was asked for with a ttl in milliseconds, by the settings, and whether that is cut. It refuses a negative one.
func (a Tokens) TTL(asked int64) (ttl time.Duration, cut bool, err error) {
	return tokenTTL(asked, a.Settings.Minutes("auth-token-default-ttl-minutes"), a.Settings.Minutes("auth-token-max-ttl-minutes"))
}

// maxTTL keeps ends of tokens within what a time can hold.
const maxTTL = 100 * 366 * 24 * time.Hour

// tokenTTL is how long a token lives that was asked for with a ttl in milliseconds; 0
// is for ever. Asked 0 takes the default; more than the maximum is cut, and cut says so.
func tokenTTL(asked int64, standard, most time.Duration) (ttl time.Duration, cut bool, err error) {
	if asked < 0 {
		return 0, false, norman.Invalid(norman.MinLimitExceeded, "ttl", "%d milliseconds are no time to live; 0 takes the default", asked)
	}
	if asked > maxTTL.Milliseconds() {
		return 0, false, norman.Invalid(norman.MaxLimitExceeded, "ttl", "%d milliseconds are more than a hundred years", asked)
	}
	ttl = time.Duration(asked) * time.Millisecond
	ttl = cmp.Or(ttl, standard)
	if most > 0 && (ttl == 0 || ttl > most) {
		return most, asked > 0, nil
	}
	return ttl, false, nil
}

// Create makes a token of the caller; the answer is the only one that shows its key.
func (a Tokens) Create(c *Request, in norman.Input) (route.Answer, error) {
	description, err := describe(in)
	if err != nil {
		return route.Answer{}, err
	}
	clusterID, err := in.String("clusterId")
	if err != nil {
		return route.Answer{}, err
	}
	if _, ok := visibleCluster(a.State, c.Call, clusterID); clusterID != "" && !ok {
		return route.Answer{}, norman.Invalid(norman.InvalidReference, "clusterId", "there is no cluster %q", clusterID)
	}
	asked, err := in.Int("ttl")
	if err != nil {
		return route.Answer{}, err
	}
	most := a.Settings.Minutes("auth-token-max-ttl-minutes")
	ttl, cut, err := tokenTTL(asked, a.Settings.Minutes("auth-token-default-ttl-minutes"), most)
	if err != nil {
		return route.Answer{}, err
	}
	if cut {
		c.Warn(fmt.Sprintf("the ttl was cut to the maximum of %d milliseconds (setting auth-token-max-ttl-minutes)", most.Milliseconds()))
	}
	return a.issue(c, records.Token{
		UserID: c.Who.UserID, Description: description, ClusterID: clusterID, TTLMillis: ttl.Milliseconds(),
	})
}

func (a Tokens) issue(c *Request, t records.Token) (route.Answer, error) {
	text, t, err := a.Auth.IssueToken(c.Ctx(), t)
	if err != nil {
		return route.Answer{}, err
	}
	return c.api.Issued(c.Call, t, text), nil
}

// Update changes the description and nothing else.
func (a Tokens) Update(c *Request, in norman.Input) (route.Answer, error) {
	description, err := describe(in)
	if err != nil {
		return route.Answer{}, err
	}
	if !in.Has("description") {
		return c.Shown(http.StatusOK, c.object), nil
	}
	t, err := a.Auth.DescribeToken(c.Ctx(), c.id, description)
	if err != nil {
		return route.Answer{}, err
	}
	object := a.object(c.Call, t)
	return c.Shown(http.StatusOK, object), nil
}

// Remove ends a token, but not the session that asks for it.
func (a Tokens) Remove(c *Request) (route.Answer, error) {
	if c.id == c.Who.TokenName && c.Who.Session {
		return route.Answer{}, norman.Invalid(norman.InvalidState, "", "this is the token of the session that asks: log out instead")
	}
	return route.Answer{Status: http.StatusNoContent}, a.Auth.RevokeToken(c.Ctx(), c.id)
}

// Logout ends the session; a token that was not made by a login stays.
func (a Tokens) Logout(c *Request) (route.Answer, error) {
	auth.EndSession(c.W)
	if !c.Who.Session {
		return route.Answer{Status: http.StatusOK}, nil
	}
	return route.Answer{Status: http.StatusOK}, a.Auth.RevokeToken(c.Ctx(), c.Who.TokenName)
}

// LogoutAll ends all sessions of the caller.
func (a Tokens) LogoutAll(c *Request) (route.Answer, error) {
	auth.EndSession(c.W)
	return route.Answer{Status: http.StatusOK}, a.Auth.RevokeSessions(c.Ctx(), c.Who.UserID, "")
}

// describe is the description in a body.
func describe(in norman.Input) (string, error) {
	text, err := in.String("description")
	if err != nil {
		return "", err
	}
	return text, norman.CheckDescription(text)
}
