// The type token: everybody's own API tokens, and logging out.

package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

func (a *API) tokenKind() *kind {
	text := norman.Field{Type: "string"}
	return &kind{
		schema: norman.Schema{
			ID: "token", Plural: "tokens",
			Fields: norman.Fields(map[string]norman.Field{
				"name": text, "userId": {Type: "reference[user]"}, "userPrincipal": text, "authProvider": text, "expiresAt": text,
				"token":       {Type: "string", WriteOnly: true},
				"description": {Type: "string", Create: true, Update: true},
				"ttl":         {Type: "int", Create: true, Default: 0},
				"clusterId":   {Type: "reference[cluster]", Create: true, Nullable: true},
				"expired":     {Type: "boolean", Default: false}, "current": {Type: "boolean", Default: false},
				"enabled": {Type: "boolean", Default: true}, "isDerived": {Type: "boolean", Default: true},
			}),
			CollectionActions: map[string]norman.Action{"logout": {}, "logoutAll": {}},
		},
		list: func(c *call) []norman.Object {
			var objects []norman.Object
			for _, t := range a.Auth.Tokens() {
				if c.seesToken(t) {
					objects = append(objects, a.tokenObject(c, t))
				}
			}
			return objects
		},
		get: func(c *call, id string) (norman.Object, bool) {
			t, ok := a.Auth.Token(id)
			if !ok || !c.seesToken(t) {
				return norman.Object{}, false
			}
			return a.tokenObject(c, t), true
		},
	}
}

// seesToken: everybody sees their own, administrators all.
func (c *call) seesToken(t records.Token) bool { return c.who.Admin || t.UserID == c.who.UserID }

func (a *API) tokenObject(c *call, t records.Token) norman.Object {
	expires := ""
	if !t.Expires.IsZero() {
		expires = t.Expires.UTC().Format(time.RFC3339)
	}
	state := summary{"active", "no", ""}
	o := norman.Object{ID: t.Name, Fields: map[string]any{
		"name": t.Name, "description": t.Description, "userId": t.UserID, "userPrincipal": "local://" + t.UserID, "authProvider": "local",
		"ttl": t.TTLMillis, "expiresAt": expires, "expired": auth.Expired(t, a.Now()), "enabled": !t.Disabled,
		"current": t.Name == c.who.TokenName, "isDerived": !t.Session, "clusterId": orNull(t.ClusterID),
		"created": t.Created, "creatorId": orNull(t.UserID), "labels": map[string]string{}, "annotations": map[string]string{},
	}}
	state.into(o.Fields)
	return o
}

// maxTTL keeps ends of tokens within what a time can hold.
const maxTTL = 100 * 366 * 24 * time.Hour

// tokenTTL is how long a token lives that was asked for with a ttl in milliseconds; 0
// is for ever. Asked 0 takes the default; more than the maximum is cut, and cut says so.
func tokenTTL(asked int64, standard, most time.Duration) (ttl time.Duration, cut bool, err error) {
	if asked < 0 {
		return 0, false, norman.Invalid(norman.MinLimitExceeded, "ttl", "%d is less than 0, which is the default", asked)
	}
	if asked > maxTTL.Milliseconds() {
		return 0, false, norman.Invalid(norman.MaxLimitExceeded, "ttl", "%d milliseconds are more than a hundred years", asked)
	}
	ttl = time.Duration(asked) * time.Millisecond
	if ttl == 0 {
		ttl = standard
	}
	if most > 0 && (ttl == 0 || ttl > most) {
		return most, asked > 0, nil
	}
	return ttl, false, nil
}

// minutes is a setting that holds a number of minutes; 0 is no limit.
func (a *API) minutes(setting string) time.Duration {
	n, err := strconv.Atoi(a.Settings.Get(setting).Value)
	if err != nil { // checked when it was stored
		return 0
	}
	return time.Duration(n) * time.Minute
}

// createToken makes a token of the caller; the answer is the only one that shows its key.
func (a *API) createToken(c *call) (answer, error) {
	in, err := c.input(c.kind.schema)
	if err != nil {
		return answer{}, err
	}
	description, err := in.String("description")
	if err != nil {
		return answer{}, err
	}
	clusterID, err := in.String("clusterId")
	if err != nil {
		return answer{}, err
	}
	if _, ok := a.visibleCluster(c, clusterID); clusterID != "" && !ok {
		return answer{}, norman.Invalid(norman.InvalidReference, "clusterId", "there is no cluster %q", clusterID)
	}
	asked, err := in.Int("ttl")
	if err != nil {
		return answer{}, err
	}
	most := a.minutes("auth-token-max-ttl-minutes")
	ttl, cut, err := tokenTTL(asked, a.minutes("auth-token-default-ttl-minutes"), most)
	if err != nil {
		return answer{}, err
	}
	if cut {
		c.warn(fmt.Sprintf("the ttl was cut to the maximum of %d milliseconds (setting auth-token-max-ttl-minutes)", most.Milliseconds()))
	}
	return a.issue(c, records.Token{
		UserID: c.who.UserID, Description: description, ClusterID: clusterID, TTLMillis: ttl.Milliseconds(),
	})
}

func (a *API) issue(c *call, t records.Token) (answer, error) {
	text, t, err := a.Auth.IssueToken(c.ctx(), t)
	if err != nil {
		return answer{}, err
	}
	object := a.tokenObject(c, t)
	return answer{status: http.StatusCreated, object: &object, extra: map[string]any{"token": text}}, nil
}

// updateToken changes the description and nothing else.
func (a *API) updateToken(c *call) (answer, error) {
	in, err := c.input(c.kind.schema)
	if err != nil {
		return answer{}, err
	}
	description, err := in.String("description")
	if err != nil {
		return answer{}, err
	}
	if !in.Has("description") {
		return answer{status: http.StatusOK, object: &c.object}, nil
	}
	t, err := a.Auth.DescribeToken(c.ctx(), c.id, description)
	if err != nil {
		return answer{}, err
	}
	object := a.tokenObject(c, t)
	return answer{status: http.StatusOK, object: &object}, nil
}

// removeToken ends a token, but not the session that asks for it.
func (a *API) removeToken(c *call) (answer, error) {
	if c.id == c.who.TokenName && c.who.Session {
		return answer{}, norman.Invalid(norman.InvalidState, "", "this is the token of the session that asks: log out instead")
	}
	return answer{status: http.StatusNoContent}, a.Auth.RevokeToken(c.ctx(), c.id)
}

// logout ends the session; a token that was not made by a login stays.
func (a *API) logout(c *call) (answer, error) {
	auth.EndSession(c.w)
	if !c.who.Session {
		return answer{status: http.StatusOK}, nil
	}
	return answer{status: http.StatusOK}, a.Auth.RevokeToken(c.ctx(), c.who.TokenName)
}

// logoutAll ends all sessions of the caller.
func (a *API) logoutAll(c *call) (answer, error) {
	auth.EndSession(c.w)
	return answer{status: http.StatusOK}, a.Auth.RevokeSessions(c.ctx(), c.who.UserID, "")
}
