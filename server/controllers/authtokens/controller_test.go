package authtokens

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
)

const harbour = records.ClusterKey("fleet-default/harbour")

// bed is one cluster that a keeper keeps.
type bed struct {
	*apiServer
	keeper *Keeper
	queue  reconcile.Queue

	mu       sync.Mutex
	snapshot Snapshot
	endpoint bool
	away     bool
}

func newBed(t *testing.T) *bed {
	b := &bed{apiServer: newAPIServer(t), snapshot: snapshot(), endpoint: true}
	b.keeper = NewKeeper(Options{
		Clusters: func() []records.ClusterKey { return []records.ClusterKey{harbour} },
		Cluster: func(records.ClusterKey) (Cluster, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return Cluster{ID: harbourID, Endpoint: b.endpoint}, true
		},
		Tokens: func() []records.Token { b.mu.Lock(); defer b.mu.Unlock(); return b.snapshot.Tokens },
		User:   b.snapshot.User, Uses: func(userID, _ string) bool { return b.snapshot.Uses(userID) },
		Image: func() string { return "drover/rancher-agent:v1" }, Registry: func() string { return "" },
		Client: func(records.ClusterKey) (kubernetes.Interface, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.away {
				return nil, errors.New("no tunnel is open")
			}
			return b.client, nil
		},
		Now: func() time.Time { return noon }, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	var wait func()
	b.queue, wait = reconcile.Begin(ctx, b.keeper.Worker(), slog.New(slog.DiscardHandler))
	t.Cleanup(func() { stop(); wait() })
	return b
}

func (b *bed) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// until waits for changes of the cluster until something is so.
func (b *bed) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for !so() {
		select {
		case <-b.changed:
		case <-limit:
			t.Fatalf("still not so: %s", what)
		}
	}
}

// comesBack has the API of the cluster reached again.
func (b *bed) comesBack() {
	b.keeper.CameBack(harbour)
	b.queue.Add(string(harbour))
}

func (b *bed) has(path string) bool { return b.object(path) != nil }

func TestKeeper(t *testing.T) {
	b := newBed(t)
	b.until(t, "kube-api-auth and ann's token are there", func() bool { return b.has(daemonSet) && b.has(annsToken) })

	// A token that is disabled while the cluster is away goes when it comes back.
	b.change(func() { b.away = true })
	b.change(func() {
		tokens := append([]records.Token{}, b.snapshot.Tokens...)
		tokens[0].Disabled = true
		b.snapshot.Tokens = tokens
	})
	b.queue.Add(string(harbour))
	b.change(func() { b.away = false })
	began := time.Now()
	b.comesBack()
	b.until(t, "the token is gone", func() bool { return !b.has(annsToken) })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it went after %s", took)
	}

	// A cluster that comes back has kube-api-auth again, whatever it was made of.
	b.apiServer.mu.Lock()
	delete(b.objects, daemonSet)
	b.apiServer.mu.Unlock()
	b.comesBack()
	b.until(t, "kube-api-auth is there again", func() bool { return b.has(daemonSet) })

	// Switched off, nothing of it is left, and it is not asked any more.
	b.change(func() { b.endpoint = false })
	b.queue.Add(string(harbour))
	b.until(t, "all of it is gone", func() bool { return !b.has(daemonSet) && !b.has(annsUser) })
}
