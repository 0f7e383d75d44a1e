// The way through a cluster's own agent: it is tried before the hosts' tunnels, which stay as the second way in.

package downstream

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// viaAgent is what ViaHeader says of a request that went through the cluster's agent.
const viaAgent = "cluster-agent"

// agentOf is the subject of a cluster's agent; empty while none has come.
func (c *Clusters) agentOf(key records.ClusterKey) records.Subject {
	if d, ok := c.State.ClusterAgents.Get(string(key)); !ok || !d.Value.Ready() {
		return ""
	}
	cluster, _ := c.State.Clusters.Get(string(key))
	return records.ClusterSubject(cluster.Value.ID)
}

// way is how a connection reaches an API: as whom, and where the other end of the tunnel dials.
func (w *watcher) way(ctx context.Context, subject records.Subject) (config *rest.Config, address string, err error) {
	if subject != w.clusters.agentOf(w.key) {
		config, err = w.credentials(ctx, subject)
		return config, apiAddress, err
	}
	d, _ := w.clusters.State.ClusterAgents.Get(string(w.key))
	return &rest.Config{
		BearerToken:     d.Value.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(d.Value.CA), ServerName: d.Value.ServerName()},
	}, d.Value.Address, nil
}

// settled is how long the tunnel of a cluster's agent has to be open before a connection through a host is left for it, so that one
// that comes and goes moves no request again and again.
const settled = 10 * time.Second

// better is the cluster's agent when it is connected and a connection leads through a host, and for how long that is still kept;
// empty when there is nothing better.
func (w *watcher) better(c *connection) (agent records.Subject, wait time.Duration) {
	agent = w.clusters.agentOf(w.key)
	if agent == "" || agent == c.subject {
		return "", 0
	}
	since, open := w.clusters.Hosts.Connected(agent)
	if !open {
		return "", 0
	}
	return agent, since.Add(settled).Sub(w.clusters.Now())
}

// first has the cluster's agent tried before all hosts.
func (w *watcher) first() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ways.Last = ""
}

// via is a host, or the cluster's agent, as people are told through what a request went.
func (c *Clusters) via(key records.ClusterKey, subject records.Subject) string {
	if subject == c.agentOf(key) {
		return viaAgent
	}
	return string(subject.Machine())
}

// place is where the API of a connection is, in the words of an error.
func (w *watcher) place(subject records.Subject) string {
	if subject == w.clusters.agentOf(w.key) {
		return "through the agent of cluster " + w.key.Name()
	}
	return "on " + string(subject)
}

// from is who answers over a connection, in the words of an error.
func (w *watcher) from(subject records.Subject) string {
	if subject == w.clusters.agentOf(w.key) {
		return fmt.Sprintf("the Kubernetes API of cluster %s over its agent", w.key.Name())
	}
	return fmt.Sprintf("the Kubernetes API of cluster %s over host %s", w.key.Name(), subject)
}

// watched says whether a cluster may have an API that can be reached: one with a control plane, or with an agent. That of an
// imported cluster that leaves is used until what the server had put there is removed.
func (c *Clusters) watched(d store.Document[records.Cluster]) bool {
	key := records.ClusterKey(d.Key)
	if d.Value.Deleting.IsZero() && len(c.State.ControlPlanes.Find(key)) > 0 && c.hasAPI(d) {
		return true
	}
	return c.agentOf(key) != "" && (d.Value.Deleting.IsZero() || d.Value.Spec.Imported() && d.Value.Leave.Uninstall)
}

// unreached is why a cluster has no watcher.
func (c *Clusters) unreached(key records.ClusterKey) error {
	if d, ok := c.State.Clusters.Get(string(key)); ok && d.Value.Spec.Imported() {
		return errNoAgent
	}
	return ErrNoControlPlane
}
