// How hosts join: the command with the registration token of a cluster or a fleet, and a new token for it.

package native

import (
	"net/http"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/store"
)

// Joining serves how hosts join clusters, and the clusters' own join tokens.
type Joining struct {
	*Common
	Registration *registration.Registration
}

// Command is GET /v1-drover/clusters/{namespace}/{name}/join: the command of the cluster's
// default registration token.
func (a Joining) Command(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	answer, err := a.join(c, d.Value.ID, d.Value.Name, false)
	return route.Answer{Status: http.StatusOK, Body: answer}, err
}

// Rotate is POST /v1-drover/clusters/{namespace}/{name}/join/rotate: a new default registration token in place of the one
// before, and its command.
func (a Joining) Rotate(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	answer, err := a.join(c, d.Value.ID, d.Value.Name, true)
	return route.Answer{Status: http.StatusOK, Body: answer}, err
}

// ForgetAgent is POST /v1-drover/clusters/{namespace}/{name}/agent/forget: what is known of the cluster's agent goes, its tunnels
// end, and the next agent with the cluster's token is believed, from any Kubernetes.
func (a Joining) ForgetAgent(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	if !d.Value.Spec.Imported() {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "cluster", "cluster %s is provisioned by this server, which knows its agent by itself", d.Value.Name)
	}
	if _, known := a.State.ClusterAgents.Get(d.Key); known {
		if err := a.State.ClusterAgents.Delete(c.Ctx(), d.Key, 0); err != nil {
			return route.Answer{}, err
		}
		a.Logger.Info("agent of an imported cluster forgotten", "cluster", d.Key, "user", c.Who.UserID)
	}
	answer, err := a.join(c, d.Value.ID, d.Value.Name, false)
	return route.Answer{Status: http.StatusOK, Body: answer}, err
}

// join is the command of the default registration token of a cluster or a fleet, which is made anew before if rotate
// is set.
func (a Joining) join(c *route.Call, id, name string, rotate bool) (apitypes.Join, error) {
	key := id + "/" + registration.DefaultToken
	token, ok := a.State.RegistrationTokens.Get(key)
	if !ok {
		return apitypes.Join{}, norman.Missing("registration token", key)
	}
	if rotate {
		var err error
		if token, err = a.State.RegistrationTokens.Modify(c.Ctx(), key, func(t records.RegistrationToken) (records.RegistrationToken, error) {
			return registration.Rotated(t, a.Now()), nil
		}); err != nil {
			return apitypes.Join{}, err
		}
		a.Logger.Info("registration token rotated", "of", name, "user", c.Who.UserID)
	}
	answer := apitypes.Join{Type: "join", Cluster: name, Expires: token.Value.Expires}
	command, err := a.Registration.JoinCommandFor(token.Value)
	switch {
	case err != nil:
		answer.Problem = err.Error()
	case !token.Value.Expires.IsZero() && !a.Now().Before(token.Value.Expires):
		answer.Problem = "the token expired at " + token.Value.Expires.UTC().Format(time.RFC3339)
	default:
		answer.Command = command.Line
	}
	if i := command.Import; answer.Command != "" && i.Command != "" {
		answer.Command = i.Pinned
		answer.Import = &apitypes.Import{Command: i.Command, InsecureCommand: i.Insecure, ManifestURL: i.ManifestURL, CleanupURL: i.CleanupURL, Spent: i.Spent}
	}
	return answer, nil
}

// Reveal is POST /v1-drover/clusters/{namespace}/{name}/token. It changes nothing; that it is no GET keeps
// the answer out of caches and has the request in the log.
func (a Joining) Reveal(c *route.Call, cluster store.Document[records.Cluster]) (route.Answer, error) {
	tokens, err := a.tokens(cluster)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("join tokens revealed", "cluster", tokens.Key, "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	shown := apitypes.JoinTokens{Type: "joinTokens", Cluster: tokens.Key, Server: tokens.Value.ServerToken, Agent: tokens.Value.AgentToken, Earlier: []apitypes.EarlierToken{}}
	for _, one := range tokens.Value.Other {
		shown.Earlier = append(shown.Earlier, apitypes.EarlierToken{Token: one.Token, Hash: one.Hash()})
	}
	return route.Answer{Status: http.StatusOK, Body: shown}, nil
}

// AddToken is POST /v1-drover/clusters/{namespace}/{name}/token/add with a views.AskedToken, which becomes one of those by which snapshots
// of the cluster are read.
func (a Joining) AddToken(c *route.Call, cluster store.Document[records.Cluster]) (route.Answer, error) {
	tokens, err := a.tokens(cluster)
	if err != nil {
		return route.Answer{}, err
	}
	var asked apitypes.AskedToken
	text, err := norman.ReadBody(c.W, c.R, 4<<10)
	if err != nil {
		return route.Answer{}, err
	}
	if decode(text, &asked) != nil { // what is wrong might be a part of the token
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, `the body is not of the form {"token": "..."}`)
	}
	token, err := installers.ReadServerToken(asked.Token)
	if err != nil {
		return route.Answer{}, norman.Invalid(norman.InvalidFormat, "token", "token is not a server token: %v", err)
	}
	var known bool
	var full error
	_, err = a.State.ClusterSecrets.Modify(c.Ctx(), tokens.Key, func(s records.ClusterSecrets) (records.ClusterSecrets, error) {
		if s, known, full = s.Bringing(token); known || full != nil {
			return s, store.ErrUnchanged
		}
		return s, nil
	})
	switch {
	case err != nil:
		return route.Answer{}, err
	case full != nil:
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.Conflict, "the token is not kept for cluster %s: %v", tokens.Key, full)
	}
	hash := installers.HashServerToken(token)
	a.Logger.Info("server token brought", "cluster", tokens.Key, "hash", hash, "known", known, "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	return route.Answer{Status: http.StatusOK, Body: apitypes.BroughtToken{Type: "broughtToken", Cluster: tokens.Key, Hash: hash, Known: known}}, nil
}

// tokens is what is stored of the tokens of a cluster.
func (a Joining) tokens(cluster store.Document[records.Cluster]) (store.Document[records.ClusterSecrets], error) {
	if cluster.Value.Spec.Docker() {
		return store.Document[records.ClusterSecrets]{}, norman.Errorf(http.StatusConflict, norman.Conflict, "cluster %s has no join tokens: its hosts run Docker, and join by the node agent alone", cluster.Key)
	}
	tokens, ok := a.State.ClusterSecrets.Get(cluster.Key)
	if !ok {
		return tokens, norman.Missing("join tokens of cluster", cluster.Key)
	}
	return tokens, nil
}
