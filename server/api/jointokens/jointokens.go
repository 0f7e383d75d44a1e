// Package jointokens is where administrators see the tokens by which the machines of a cluster of k3s or RKE2 join it, and by which its
// snapshots are read, and where they bring one that another server had. What is a secret is answered to nobody else and never logged.
package jointokens

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// maxBody bounds the body of a request in bytes.
const maxBody = 4 << 10

// API answers for the tokens of clusters.
type API struct {
	State  *state.State
	Logger *slog.Logger
}

// Reveal is POST /v1-drover/clusters/{namespace}/{name}/token. It changes nothing; that it is no GET keeps
// the answer out of caches and has the request in the log.
func (a *API) Reveal(c *route.Call) (route.Answer, error) {
	tokens, err := a.find(c)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("join tokens revealed", "cluster", tokens.Key, "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	shown := views.JoinTokens{Type: "joinTokens", Cluster: tokens.Key, Server: tokens.Value.ServerToken, Agent: tokens.Value.AgentToken, Earlier: []views.EarlierToken{}}
	for _, one := range tokens.Value.Other {
		shown.Earlier = append(shown.Earlier, views.EarlierToken{Token: one.Token, Hash: ops.TokenHash(one.Token)})
	}
	return route.Answer{Status: http.StatusOK, Body: shown}, nil
}

// Add is POST /v1-drover/clusters/{namespace}/{name}/token/add with a views.AskedToken, which becomes one of those by which snapshots
// of the cluster are read.
func (a *API) Add(c *route.Call) (route.Answer, error) {
	tokens, err := a.find(c)
	if err != nil {
		return route.Answer{}, err
	}
	text, err := norman.ReadBody(c.W, c.R, maxBody)
	if err != nil {
		return route.Answer{}, err
	}
	var asked views.AskedToken
	read := json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields()
	if read.Decode(&asked) != nil || read.More() { // what is wrong might be a part of the token
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, `the body is not of the form {"token": "..."}`)
	}
	token, err := ops.ReadToken(asked.Token)
	if err != nil {
		return route.Answer{}, norman.Invalid(norman.InvalidFormat, "token", "token is not a server token: %v", err)
	}
	var known bool
	var full error
	_, err = a.State.ClusterSecrets.Modify(c.Ctx(), tokens.Key, func(s records.ClusterSecrets) (records.ClusterSecrets, error) {
		if s, known, full = ops.Bringing(s, token); known || full != nil {
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
	hash := ops.TokenHash(token)
	a.Logger.Info("server token brought", "cluster", tokens.Key, "hash", hash, "known", known, "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	return route.Answer{Status: http.StatusOK, Body: views.BroughtToken{Type: "broughtToken", Cluster: tokens.Key, Hash: hash, Known: known}}, nil
}

// find is what is stored of the tokens of the path's cluster, for those who may see them.
func (a *API) find(c *route.Call) (store.Document[records.ClusterSecrets], error) {
	key := c.Param("namespace") + "/" + c.Param("name")
	cluster, ok := a.State.Clusters.Get(key)
	if !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(cluster.Value.ID)) {
		return store.Document[records.ClusterSecrets]{}, norman.Missing("cluster", key)
	}
	if !auth.May(c.Who, c.Row.Access.Verb, auth.OfCluster(cluster.Value.ID)) {
		return store.Document[records.ClusterSecrets]{}, c.Denied()
	}
	if cluster.Value.Spec.Docker() {
		return store.Document[records.ClusterSecrets]{}, norman.Errorf(http.StatusConflict, norman.Conflict, "cluster %s has no join tokens: its hosts run Docker, and join by the node agent alone", key)
	}
	tokens, ok := a.State.ClusterSecrets.Get(key)
	if !ok {
		return tokens, norman.Missing("join tokens of cluster", key)
	}
	return tokens, nil
}
