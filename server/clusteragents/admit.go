// Who is let in: an agent with a token of a cluster, behind whose tunnel is the Kubernetes that the cluster is.

package clusteragents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

const (
	// answerWithin bounds what an agent waits for before its tunnel opens, proveWithin how long a tunnel may take to prove itself.
	answerWithin = 30 * time.Second
	proveWithin  = 30 * time.Second
	// tries bounds how often an admission starts over because another replica of the agent was quicker.
	tries = 20
)

func no(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// Serve opens the tunnel of a cluster agent and serves it until it ends. It returns false for a request that is not a cluster
// agent's, to which nothing was answered. The tunnel is the cluster's when what is behind it has proved to be the cluster's API,
// and leads nowhere before.
func (a *Agents) Serve(w http.ResponseWriter, r *http.Request) bool {
	second, isSecond := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+connect.StevePrefix)
	header := r.Header.Get(connect.ParamsHeader)
	if !isSecond && !connect.OfCluster(header) {
		return false
	}
	if isSecond {
		cluster, err := a.cluster(second, r.RemoteAddr)
		if d, ok := a.State.ClusterAgents.Get(cluster.Key()); err == nil && (!ok || !d.Value.Ready()) {
			err = no(http.StatusConflict, "no agent of cluster %s was let in yet, or it was taken off the server a moment ago", cluster.Name)
		}
		if err != nil {
			a.refuse(w, r, err)
			return true
		}
		a.serve(w, r, cluster, tunnel.Peer{Subject: connect.StevePrefix + cluster.ID, Kind: hosts.Steve})
		return true
	}
	limit, done := context.WithTimeout(r.Context(), answerWithin)
	cluster, said, err := a.said(limit, r.Header.Get(connect.TokenHeader), header, r.RemoteAddr)
	done()
	if err != nil {
		a.refuse(w, r, err)
		return true
	}
	peer := peer(cluster)
	peer.Prove = func(ctx context.Context, dial dialer) error { return a.prove(ctx, cluster, said, r.RemoteAddr, dial) }
	a.serve(w, r, cluster, peer)
	return true
}

// cluster is the one that a token is for: that of the agent that this server deployed, or a registration token of an imported
// cluster. The tokens by which hosts join let no agent in. Unknown tokens are distinguished from missing ones as the peers do.
func (a *Agents) cluster(token, remote string) (records.Cluster, error) {
	if token == "" {
		return records.Cluster{}, no(http.StatusUnauthorized, "failed authentication")
	}
	if d, ok := a.State.ClusterAgentsBySecret.First(randomid.Hash(token)); ok {
		if c, ok := a.State.Clusters.Get(d.Key); ok && c.Value.Deleting.IsZero() {
			return c.Value, nil
		}
		return records.Cluster{}, no(http.StatusConflict, "the cluster of this agent is being removed")
	}
	cluster, err := a.Tokens.ClusterByToken(token)
	switch {
	case err != nil:
		a.Logger.Info("cluster agent without a valid token", "host", remote, "reason", err)
		if wait := a.Tokens.WrongToken(remote); wait > 0 {
			return records.Cluster{}, &refusal{status: http.StatusTooManyRequests, text: "too many wrong registration tokens from this address", wait: wait}
		}
		return records.Cluster{}, no(http.StatusBadRequest, "cluster not found")
	case cluster.Spec.Docker() && !cluster.Spec.RKE1():
		return records.Cluster{}, no(http.StatusConflict, "cluster %s has no Kubernetes: nothing is provisioned on its hosts", cluster.Name)
	case !cluster.Spec.Imported():
		return records.Cluster{}, no(http.StatusConflict, "cluster %s is provisioned by this server, which deploys the agent of such a cluster itself where the setting cluster-agent is all, "+
			"with a token of the agent's own; a token by which hosts join is none, and nothing is to be applied by hand", cluster.Name)
	}
	return cluster, nil
}

// said is what an agent says of its cluster, unless that alone is a reason to refuse it.
func (a *Agents) said(ctx context.Context, token, header, remote string) (records.Cluster, records.ClusterAgent, error) {
	cluster, err := a.cluster(token, remote)
	if err != nil {
		return cluster, records.ClusterAgent{}, err
	}
	params, err := connect.Decode(header)
	if err != nil {
		return cluster, records.ClusterAgent{}, no(http.StatusBadRequest, "%v", err)
	}
	said := records.ClusterAgent{Address: params.Cluster.Address, CA: params.Cluster.CA(), Token: params.Cluster.Token, Seen: a.Now().UTC().Truncate(time.Second)}
	return cluster, said, a.judged(ctx, cluster, said, func(records.ClusterAgent) *seen { return nil })
}

// prove asks the API behind a tunnel, and keeps what the agent said when it is the cluster's.
func (a *Agents) prove(ctx context.Context, cluster records.Cluster, said records.ClusterAgent, remote string, dial dialer) error {
	ctx, done := context.WithTimeout(ctx, proveWithin)
	defer done()
	err := a.judged(ctx, cluster, said, func(is records.ClusterAgent) *seen { return ask(ctx, dial, is, said) })
	if err != nil {
		a.Logger.Info("the tunnel of a cluster agent is closed", "host", remote, "cluster", cluster.Key(), "reason", err)
		return err
	}
	a.Logger.Info("cluster agent let in", "host", remote, "cluster", cluster.Key(), "api", said.Address)
	return nil
}

// judged keeps what becomes of the record of a cluster's agent by what an agent said and what look saw by the record, and returns
// why the agent is not let in. It starts over when the record has changed meanwhile.
func (a *Agents) judged(ctx context.Context, cluster records.Cluster, said records.ClusterAgent, look func(is records.ClusterAgent) *seen) (err error) {
	for try := range tries {
		if backoff.Wait(ctx, time.Duration(try)*5*time.Millisecond) != nil {
			break
		}
		d, known := a.State.ClusterAgents.Get(cluster.Key())
		next, refused := judge(cluster, d.Value, said, look(d.Value))
		if next == d.Value {
			return refused
		}
		if err = a.keep(ctx, cluster, d, known, next); err == nil {
			return refused
		}
		_, exists := errors.AsType[*store.ExistsError](err)
		_, changed := errors.AsType[*store.ConflictError](err)
		_, vanished := errors.AsType[*store.NotFoundError](err)
		if !exists && !changed && !vanished {
			break
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// keep stores the record of a cluster's agent in place of the one that was read.
func (a *Agents) keep(ctx context.Context, cluster records.Cluster, d store.Document[records.ClusterAgent], known bool, next records.ClusterAgent) error {
	if known {
		d.Value = next
		_, err := a.State.ClusterAgents.Update(ctx, d)
		return err
	}
	// With the cluster unchanged: one that was removed meanwhile keeps no agent behind it.
	c, ok := a.State.Clusters.Get(cluster.Key())
	if !ok || c.Value.ID != cluster.ID {
		return no(http.StatusBadRequest, "cluster not found")
	}
	_, err := a.State.Store.Commit(ctx, a.State.Clusters.Updating(c), a.State.ClusterAgents.Creating(cluster.Key(), next))
	return err
}

// judge decides on an agent that comes with a token of a cluster: what the record of the cluster's agent is from then on, and why the
// agent is not let in; nil for one that is. Api is what was seen of the API behind its tunnel, nil before the tunnel is open. What the
// first agent that is let in shows is pinned: the authorities of its API server, the name that the certificate is for, and the
// identity of the cluster. Another authority is added only when a pinned one has signed it, or when the API that has proved to be
// the pinned one says so itself.
func judge(cluster records.Cluster, is, said records.ClusterAgent, api *seen) (records.ClusterAgent, error) {
	pinned := is.CA != ""
	refuse := func(why string, err error) (records.ClusterAgent, error) {
		is.Refused = why + ", last on " + said.Seen.Format(time.DateOnly)
		return is, err
	}
	another := no(http.StatusConflict, "cluster %s is another Kubernetes than this one: its registration token was spent by the first, whose API server or identity differs from what is here, so that its manifest was applied to two clusters. "+
		"Remove the agent here (kubectl delete namespace cattle-system) and import this cluster under a name of its own (drover clusters import); "+
		"if this is the cluster, with a new authority, say so by drover clusters import %s --replace", cluster.Name, cluster.Name)
	switch {
	case !pinned && !cluster.Spec.Imported():
		return is, no(http.StatusConflict, "the authority of cluster %s is not known yet; the agent tries again", cluster.Name)
	case pinned && len(trusted(is.CA, said.CA)) == 0, pinned && api != nil && api.fault == foreign,
		pinned && api != nil && api.fault == "" && is.UID != "" && is.UID != api.uid:
		return refuse("an agent of another Kubernetes came with the token of cluster "+cluster.Name+" and was refused", another)
	case api == nil:
		return is, nil
	case api.fault != "":
		return refuse("an agent came with the token of cluster "+cluster.Name+" and was refused: "+string(api.fault),
			no(http.StatusConflict, "the API server of cluster %s is not proven: %s%s", cluster.Name, api.fault, api.detail))
	}
	next := said
	next.CA, next.Name, next.UID, next.Admitted = is.CA, is.ServerName(), api.uid, is.Spent()
	next.Secret, next.Cleaned = is.Secret, is.Cleaned
	switch {
	case !pinned:
		next.CA, next.Admitted = said.CA, said.Seen
	case next.Admitted.IsZero():
		next.Admitted = said.Seen
	}
	switch {
	case pinned && !cluster.Spec.Imported(): // whose authorities the server knows by itself
	case api.ca != "":
		next.CA = api.ca
	case pinned:
		next.CA = encode(trusted(is.CA, said.CA), is.CA)
	}
	if next.Name == "" {
		next.Name, _, _ = net.SplitHostPort(said.Address) // connect has read it
	}
	if seen := next.Seen; is.Ready() {
		if next.Seen = is.Seen; next != is {
			next.Seen = seen
		}
	}
	return next, nil
}
