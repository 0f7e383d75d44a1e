// Package certificates asks hosts of k3s and RKE2 when their certificates end, so that people are warned before they do.
// What it hears is kept with each machine; what is made of it is the planner's.
package certificates

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

const (
	// every is how often each host is asked: certificates live for months.
	every = 6 * time.Hour
	// first is how long after the beginning of its work the reader asks for the first time, when tunnels have come back.
	first = time.Minute
	// askLimit bounds the questions to one host, and atOnce is how many hosts are asked at a time.
	askLimit = 10 * time.Second
	atOnce   = 8
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
	// apiAddress is where a control plane serves the Kubernetes API to itself.
	apiAddress = "127.0.0.1:6443"
)

// Controller asks hosts.
type Controller struct {
	State *state.State
	// Ask sends GET path to the agent on a machine's host, and Dial opens a connection there; see server/hosts.
	Ask    func(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	Dial   func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	Logger *slog.Logger
}

// Worker asks the hosts of each cluster again and again, and at once when its certificates were rotated.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "certificates", Title: "asks hosts when their certificates end", First: first, Resync: every, AtOnce: 1,
		Keys: reconcile.Keys(c.State.Clusters),
		Watches: []reconcile.Watch{reconcile.Documents(c.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
			if e.Type == store.Put && (e.Value.Kind == operations.KindRotateCertificates || e.Value.Kind == operations.KindRotateCA) && e.Value.State.Ended() {
				q.Add(e.Value.Subject)
			}
		}), reconcile.Documents(c.State.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Put && e.Old == nil {
				q.Add(e.Key)
			}
		})},
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return reconcile.Result{Gone: !c.Read(ctx, records.ClusterKey(key))}, nil
		},
	}
}
