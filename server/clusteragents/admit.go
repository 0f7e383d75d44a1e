// Who is let in: an agent with a cluster's token, of the Kubernetes that the cluster is.

package clusteragents

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

const (
	// answerWithin bounds what an agent waits for before its tunnel opens.
	answerWithin = 30 * time.Second
	// tries bounds how often an admission starts over because another replica of the agent was quicker.
	tries = 20
)

func no(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// Serve opens the tunnel of a cluster agent and serves it until it ends. It returns false for a request that is not a cluster
// agent's, to which nothing was answered.
func (a *Agents) Serve(w http.ResponseWriter, r *http.Request) bool {
	second, isSecond := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+connect.StevePrefix)
	header := r.Header.Get(connect.ParamsHeader)
	if !isSecond && !connect.OfCluster(header) {
		return false
	}
	limit, done := context.WithTimeout(r.Context(), answerWithin)
	defer done()
	if isSecond {
		cluster, err := a.cluster(second, r.RemoteAddr)
		if err != nil {
			a.refuse(w, r, err)
			return true
		}
		done()
		a.serve(w, r, cluster, tunnel.Peer{Subject: connect.StevePrefix + cluster.ID, Kind: hosts.Steve})
		return true
	}
	cluster, err := a.admit(limit, r.Header.Get(connect.TokenHeader), header, r.RemoteAddr)
	if err != nil {
		a.refuse(w, r, err)
		return true
	}
	done()
	a.serve(w, r, cluster, peer(cluster))
	return true
}

// cluster is the one that a token is for. Unknown tokens are distinguished from missing ones as the peers do.
func (a *Agents) cluster(token, remote string) (records.Cluster, error) {
	if token == "" {
		return records.Cluster{}, no(http.StatusUnauthorized, "failed authentication")
	}
	cluster, err := a.Tokens.ClusterByToken(token)
	if err != nil {
		a.Logger.Info("cluster agent without a valid token", "host", remote, "reason", err)
		if wait := a.Tokens.WrongToken(remote); wait > 0 {
			return records.Cluster{}, &refusal{status: http.StatusTooManyRequests, text: "too many wrong registration tokens from this address", wait: wait}
		}
		return records.Cluster{}, no(http.StatusBadRequest, "cluster not found")
	}
	return cluster, nil
}

// admit lets an agent in and keeps what it said of its cluster.
func (a *Agents) admit(ctx context.Context, token, header, remote string) (records.Cluster, error) {
	cluster, err := a.cluster(token, remote)
	if err != nil {
		return cluster, err
	}
	params, err := connect.Decode(header)
	if err != nil {
		return cluster, no(http.StatusBadRequest, "%v", err)
	}
	said := records.ClusterAgent{Address: params.Cluster.Address, CA: params.Cluster.CA(), Token: params.Cluster.Token, Seen: a.Now().UTC().Truncate(time.Second)}
	for try := range tries {
		if backoff.Wait(ctx, time.Duration(try)*5*time.Millisecond) != nil {
			break
		}
		err = a.store(ctx, cluster, said)
		_, exists := errors.AsType[*store.ExistsError](err)
		_, vanished := errors.AsType[*store.NotFoundError](err)
		if !exists && !vanished {
			break
		}
	}
	if err == nil {
		a.Logger.Info("cluster agent let in", "host", remote, "cluster", cluster.Key(), "api", said.Address)
	}
	return cluster, err
}

// store keeps what an agent said, or why it was not believed.
func (a *Agents) store(ctx context.Context, cluster records.Cluster, said records.ClusterAgent) error {
	if _, known := a.State.ClusterAgents.Get(cluster.Key()); !known {
		next, err := judge(cluster, nil, said)
		if err != nil {
			return err
		}
		// With the cluster unchanged: one that was removed meanwhile keeps no agent behind it.
		d, ok := a.State.Clusters.Get(cluster.Key())
		if !ok || d.Value.ID != cluster.ID {
			return no(http.StatusBadRequest, "cluster not found")
		}
		_, err = a.State.Store.Commit(ctx, a.State.Clusters.Updating(d), a.State.ClusterAgents.Creating(cluster.Key(), next))
		if _, changed := errors.AsType[*store.ConflictError](err); changed {
			return &store.ExistsError{} // once more, with the cluster as it is now
		}
		return err
	}
	var refused error
	_, err := a.State.ClusterAgents.Modify(ctx, cluster.Key(), func(is records.ClusterAgent) (records.ClusterAgent, error) {
		var next records.ClusterAgent
		if next, refused = judge(cluster, &is, said); next == is {
			return is, store.ErrUnchanged
		}
		return next, nil
	})
	if err == nil {
		err = refused
	}
	return err
}

// judge is what is kept after an agent said what its cluster is, and why the agent is not let in. There is no record before
// the first one has come. Whoever is let in is of the Kubernetes that the record is of, which the CA tells: two clusters by one
// manifest would take each other's place again and again.
func judge(cluster records.Cluster, is *records.ClusterAgent, said records.ClusterAgent) (records.ClusterAgent, error) {
	switch {
	case cluster.Spec.Docker() && !cluster.Spec.RKE1():
		return value(is), no(http.StatusConflict, "cluster %s has no Kubernetes: nothing is provisioned on its hosts", cluster.Name)
	case is == nil && !cluster.Spec.Imported():
		return value(is), no(http.StatusConflict, "cluster %s is provisioned by this server, which deploys the agent of such a cluster itself where the setting cluster-agent is all; nothing is to be applied by hand", cluster.Name)
	case is == nil:
		return said, nil
	case !shares(is.CA, said.CA):
		next := *is
		next.Refused = fmt.Sprintf("an agent of another Kubernetes came with the token of cluster %s and was refused, last on %s", cluster.Name, said.Seen.Format("2006-01-02"))
		return next, no(http.StatusConflict, "cluster %s is another Kubernetes than this one: the certificate authorities of their API servers differ, so that its manifest was applied to two clusters. "+
			"Remove the agent here (kubectl delete namespace cattle-system) and import this cluster under a name of its own (drover clusters import); "+
			"if this is the cluster, with a new authority, say so by drover clusters import %s --replace", cluster.Name, cluster.Name)
	case is.Address == said.Address && is.Token == said.Token && is.CA == said.CA:
		return *is, nil
	}
	said.Refused, said.Cleaned = is.Refused, is.Cleaned
	return said, nil
}

func value(is *records.ClusterAgent) records.ClusterAgent {
	if is == nil {
		return records.ClusterAgent{}
	}
	return *is
}

// shares says whether two bundles have an authority in common, by its key.
func shares(a, b string) bool {
	x, errX := connect.Certificates(a)
	y, errY := connect.Certificates(b)
	return errX == nil && errY == nil && slices.ContainsFunc(x, func(one *x509.Certificate) bool {
		return slices.ContainsFunc(y, func(other *x509.Certificate) bool {
			return slices.Equal(one.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
		})
	})
}
