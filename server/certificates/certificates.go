// Package certificates asks hosts of k3s and RKE2 when their certificates end, so that people are warned before they do.
// What it hears is kept with each machine; what is made of it is the planner's.
package certificates

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/planner/render"
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
	// maxYear is the last one that a time is stored with.
	maxYear = 9999
	// apiAddress is where a control plane serves the Kubernetes API to itself.
	apiAddress = "127.0.0.1:6443"
)

// Reader asks hosts.
type Reader struct {
	State *state.State
	// Ask sends GET path to the agent on a machine's host, and Dial opens a connection there; see server/hosts.
	Ask    func(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	Dial   func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	Logger *slog.Logger
}

// Worker asks the hosts of each cluster again and again, and at once when its certificates were rotated.
func (r *Reader) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "certificates", Title: "asks hosts when their certificates end", First: first, Resync: every, AtOnce: 1,
		Keys: reconcile.Keys(r.State.Clusters),
		Watches: []reconcile.Watch{reconcile.Documents(r.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
			if e.Type == store.Put && (e.Value.Kind == ops.KindCertificates || e.Value.Kind == ops.KindCA) && e.Value.State.Ended() {
				q.Add(e.Value.Subject)
			}
		}), reconcile.Documents(r.State.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Put && e.Old == nil {
				q.Add(e.Key)
			}
		})},
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return reconcile.Result{Gone: !r.Read(ctx, records.ClusterKey(key))}, nil
		},
	}
}

// Read asks the hosts of a cluster; there is false when the cluster has none that can be asked. What is known of a host that does not
// answer stays.
func (r *Reader) Read(ctx context.Context, key records.ClusterKey) (there bool) {
	cluster, ok := r.State.Clusters.Get(string(key))
	if !ok || cluster.Value.Spec.Docker() {
		return false
	}
	dir := render.DataDir(cluster.Value)
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, m := range r.State.MachinesByCluster.Find(key) {
		if ctx.Err() != nil {
			break
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := r.machine(ctx, *m, dir); err != nil && ctx.Err() == nil {
				r.Logger.Debug("certificates not read", "machine", m.Key, "error", err)
			}
		})
	}
	all.Wait()
	return true
}

// machine asks one host, and keeps what it says.
func (r *Reader) machine(ctx context.Context, d store.Document[records.Machine], dir string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ending, err := r.ask(ctx, d.Value.Subject(), dir)
	if err != nil && d.Value.Roles.ControlPlane {
		ending, err = r.served(ctx, d.Value.Subject()) // an agent that cannot say it
	}
	if err != nil {
		return err
	}
	_, err = r.State.Machines.Modify(ctx, d.Key, func(m records.Machine) (records.Machine, error) {
		if m.Certificate.Name == ending.Name && m.Certificate.End.Equal(ending.End) {
			return m, store.ErrUnchanged
		}
		m.Certificate = ending
		return m, nil
	})
	if err != nil {
		return fmt.Errorf("keep when the certificates of %s end: %w", d.Key, err)
	}
	return nil
}

// ask is the first certificate that ends on a host, by its agent. CAs live for ten years, and are not renewed with others.
func (r *Reader) ask(ctx context.Context, subject records.Subject, dir string) (first records.CertificateEnd, err error) {
	answer, err := r.Ask(ctx, subject, "/v1/certificates?dir="+url.QueryEscape(dir))
	if err != nil {
		return first, fmt.Errorf("ask the agent: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return first, fmt.Errorf("the agent answers %s", answer.Status)
	}
	var said struct {
		Certificates []struct {
			Name string    `json:"name"`
			End  time.Time `json:"end"`
			CA   bool      `json:"ca"`
		} `json:"certificates"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&said); err != nil {
		return first, fmt.Errorf("read the agent's answer: %w", err)
	}
	for _, c := range said.Certificates {
		if end := c.End.UTC(); !c.CA && !end.IsZero() && end.Year() >= 0 && end.Year() <= maxYear && (first.Name == "" || end.Before(first.End)) {
			first = records.CertificateEnd{Name: fmt.Sprintf("%.100s", strings.ToValidUTF8(c.Name, "")), End: end}
		}
	}
	return first, nil
}

// served is the certificate that the API server on a host shows. It is looked at and not trusted: nothing is said to it.
func (r *Reader) served(ctx context.Context, subject records.Subject) (records.CertificateEnd, error) {
	conn, err := r.Dial(ctx, subject, tunnel.Target{Network: "tcp", Address: apiAddress})
	if err != nil {
		return records.CertificateEnd{}, fmt.Errorf("reach the API server: %w", err)
	}
	defer conn.Close()
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- one that has ended is what is looked for
	if err := client.HandshakeContext(ctx); err != nil {
		return records.CertificateEnd{}, fmt.Errorf("look at the certificate of the API server: %w", err)
	}
	shown := client.ConnectionState().PeerCertificates[0]
	return records.CertificateEnd{Name: "of the Kubernetes API", End: shown.NotAfter.UTC()}, nil
}
