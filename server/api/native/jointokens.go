// The tokens by which the machines of a cluster of k3s or RKE2 join it, and by which its snapshots are read: administrators see them, and
// bring the token that a cluster had under another server. No other user gets a token in an answer, and none is logged.

package native

import (
	"net/http"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

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
