package presence

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/sharedetcd"
)

// replica is one server's presence, running.
type replica struct {
	*Presence
	stop func()

	mu   sync.Mutex
	told []string
	news chan struct{}
}

func start(t *testing.T, endpoint, keys, id string) *replica {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{Endpoints: []string{endpoint}, KeyFile: keys})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{news: make(chan struct{}, 1000)}
	r.Presence = New(Options{
		State: s, Self: records.Replica{ID: id, URL: "https://" + id}, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Changed: func(subject string, connected bool) {
			r.mu.Lock()
			r.told = append(r.told, fmt.Sprint(subject, " ", connected))
			r.mu.Unlock()
			r.news <- struct{}{}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// until waits for a condition that some event makes true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for !holds() {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func holds(r *replica, subject, by string) func() bool {
	return func() bool {
		all := r.Holders(subject)
		return len(all) == 1 && all[0].URL == "https://"+by
	}
}

func TestServersKnowOfEachOther(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	b := start(t, endpoint, keys, "b")
	a.Local("c:m-1", true)
	until(t, "b sees the tunnel to a", holds(b, "c:m-1", "a"))
	since, ok := b.Connected("c:m-1")
	if here, _ := a.Connected("c:m-1"); !ok || !here.Equal(since) {
		t.Errorf("b says connected %v since %s, a since %s", ok, since, here)
	}
	if _, ok := b.Connected("c:m-10"); ok || len(b.Holders("c:m")) > 0 {
		t.Error("a subject is taken for another whose name it begins")
	}

	// A second tunnel of the same host, to the other server: nothing new for anybody.
	b.Local("c:m-1", true)
	until(t, "a sees the tunnel to b", holds(a, "c:m-1", "b"))
	a.Local("c:m-1", false)
	until(t, "b sees the first one end", func() bool { return len(b.Holders("c:m-1")) == 0 })
	if _, ok := a.Connected("c:m-1"); !ok {
		t.Error("a takes the host for gone while b has it")
	}
	b.Local("c:m-1", false)
	until(t, "a sees the last one end", func() bool { _, ok := a.Connected("c:m-1"); return !ok })
	for _, r := range []*replica{a, b} {
		until(t, "both events are told", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.told) >= 2 })
		r.mu.Lock()
		if got := fmt.Sprint(r.told); got != "[c:m-1 true c:m-1 false]" {
			t.Errorf("%s was told %s", r.Self.ID, got)
		}
		r.mu.Unlock()
	}
	if gone, ok := a.Connected("c:m-1"); ok || gone.IsZero() {
		t.Error("when the host went is not known")
	}
}

func TestAServerThatEndsTakesItsTunnelsWithIt(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	b := start(t, endpoint, keys, "b")
	for i := range 2*batch + 1 {
		a.Local(fmt.Sprintf("c:m-%d", i), true)
	}
	until(t, "b sees all", func() bool { return len(b.State.Connections.List()) == 2*batch+1 })
	a.stop()
	until(t, "b sees none", func() bool { return len(b.State.Connections.List()) == 0 && len(b.State.Replicas.List()) == 1 })
	if _, ok := b.Connected("c:m-0"); ok {
		t.Error("a host is connected to a server that is gone")
	}
}

func TestALostLeaseIsReplaced(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	b := start(t, endpoint, keys, "b")
	a.Local("c:m-1", true)
	until(t, "b sees the tunnel", holds(b, "c:m-1", "a"))
	// As after a long pause of both machines: etcd has forgotten servers that still hold their tunnels.
	revokeLeases(t, endpoint)
	until(t, "the tunnel is forgotten", func() bool { return len(b.Holders("c:m-1")) == 0 })
	until(t, "b sees the tunnel again", holds(b, "c:m-1", "a"))
	until(t, "a sees b again", func() bool { _, ok := a.State.Replicas.Get("b"); return ok })
}

func revokeLeases(t *testing.T, endpoint string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	all, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range all.Leases {
		if _, err := client.Revoke(t.Context(), lease.ID); err != nil {
			t.Fatal(err)
		}
	}
}
