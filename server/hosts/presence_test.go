package hosts

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

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/sharedetcd"
)

// replica is one server's presence, running.
type replica struct {
	*Presence
	stop func()

	mu    sync.Mutex
	heard []string
	news  chan struct{}
}

func start(t *testing.T, endpoint, keys, id string) *replica {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{Endpoints: []string{endpoint}, KeyFile: keys})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{news: make(chan struct{}, 1000)}
	r.Presence = NewPresence(PresenceOptions{
		State: s, Self: records.Replica{ID: id, URL: "https://" + id}, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Agent: func(subject string) string { return "release of " + subject + " at " + id },
	})
	r.Tunnels.OnChange(func(subject string, connected bool) {
		r.mu.Lock()
		r.heard = append(r.heard, fmt.Sprint(subject, " ", connected))
		r.mu.Unlock()
		r.news <- struct{}{}
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
		all := r.Tunnels.Holders(subject)
		return len(all) == 1 && all[0].URL == "https://"+by
	}
}

func TestServersKnowOfEachOther(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	b := start(t, endpoint, keys, "b")
	a.Tunnels.Set("c:m-1", true, time.Now())
	until(t, "b sees the tunnel to a", holds(b, "c:m-1", "a"))
	since, ok := b.Tunnels.Connected("c:m-1")
	if here, _ := a.Tunnels.Connected("c:m-1"); !ok || !here.Equal(since) {
		t.Errorf("b says connected %v since %s, a since %s", ok, since, here)
	}
	if _, ok := b.Tunnels.Connected("c:m-10"); ok || len(b.Tunnels.Holders("c:m")) > 0 {
		t.Error("a subject is taken for another whose name it begins")
	}

	for _, r := range []*replica{a, b} {
		if got := r.Tunnels.Links("c:m-1"); len(got) != 1 || got[0].Server.URL != "https://a" || got[0].Agent != "release of c:m-1 at a" || !got[0].Since.Equal(since) {
			t.Errorf("%s has the links %+v", r.Self.ID, got)
		}
		if got := r.Servers(); len(got) != 2 || got[0].ID != r.Self.ID {
			t.Errorf("%s knows the servers %+v", r.Self.ID, got)
		}
	}

	// A second tunnel of the same host, to the other server: nothing new for any reader.
	b.Tunnels.Set("c:m-1", true, time.Now())
	until(t, "a sees the tunnel to b", holds(a, "c:m-1", "b"))
	a.Tunnels.Set("c:m-1", false, time.Now())
	until(t, "b sees the first one end", func() bool { return len(b.Tunnels.Holders("c:m-1")) == 0 })
	if _, ok := a.Tunnels.Connected("c:m-1"); !ok {
		t.Error("a takes the host for gone while b has it")
	}
	b.Tunnels.Set("c:m-1", false, time.Now())
	until(t, "a sees the last one end", func() bool { _, ok := a.Tunnels.Connected("c:m-1"); return !ok })
	for _, r := range []*replica{a, b} {
		until(t, "both events are reported", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.heard) >= 2 })
		r.mu.Lock()
		if got := fmt.Sprint(r.heard); got != "[c:m-1 true c:m-1 false]" {
			t.Errorf("%s reported %s", r.Self.ID, got)
		}
		r.mu.Unlock()
	}
	if gone, ok := a.Tunnels.Connected("c:m-1"); ok || gone.IsZero() {
		t.Error("when the host went is not known")
	}
}

func TestAServerThatEndsTakesItsTunnelsWithIt(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	b := start(t, endpoint, keys, "b")
	for i := range 2*batch + 1 {
		a.Tunnels.Set(fmt.Sprintf("c:m-%d", i), true, time.Now())
	}
	until(t, "b sees all", func() bool { return len(b.State.Connections.List()) == 2*batch+1 })
	a.stop()
	until(t, "b sees none", func() bool { return len(b.State.Connections.List()) == 0 && len(b.State.Replicas.List()) == 1 })
	if _, ok := b.Tunnels.Connected("c:m-0"); ok {
		t.Error("a host is connected to a server that is gone")
	}
}

// TestAnAgentWentBeforeThatWasPublished: the server that it was connected to has waited for it to come back, unless that server
// ended itself.
func TestAnAgentWentBeforeThatWasPublished(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a, b := start(t, endpoint, keys, "a"), start(t, endpoint, keys, "b")
	until(t, "they know of each other", func() bool { return len(a.Others()) == 1 && len(b.Others()) == 1 })
	for _, subject := range []string{"ns/went", "ns/was-there"} {
		a.Watches.Set(subject, true, time.Now())
		until(t, "b sees the watch", func() bool { _, ok := b.Watches.Connected(subject); return ok })
	}
	before := time.Now()
	gone := func(subject string) (since time.Time) {
		until(t, "b sees that it went", func() bool {
			var there bool
			since, there = b.Watches.Connected(subject)
			return !there && !since.IsZero()
		})
		return since
	}
	a.Watches.Set("ns/went", false, before.Add(-observed.AgentGrace))
	if since := gone("ns/went"); time.Since(since) < observed.AgentGrace {
		t.Errorf("it went %s ago", time.Since(since))
	}
	a.stop()
	until(t, "b sees that a ended", func() bool { return len(b.Others()) == 0 })
	if since := gone("ns/was-there"); since.Before(before) {
		t.Errorf("of the server that ended it went %s before", before.Sub(since))
	}
}

func TestALostLeaseIsReplaced(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	b := start(t, endpoint, keys, "b")
	a.Tunnels.Set("c:m-1", true, time.Now())
	until(t, "b sees the tunnel", holds(b, "c:m-1", "a"))
	// As after a long pause of both machines: etcd has forgotten servers that still hold their tunnels.
	revokeLeases(t, endpoint)
	until(t, "the tunnel is forgotten", func() bool { return len(b.Tunnels.Holders("c:m-1")) == 0 })
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

// 5,000 agents that come at once are 50 writes, each one revision of etcd.
func TestACrowdComesInFewTransactions(t *testing.T) {
	t.Parallel()
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := start(t, endpoint, keys, "a")
	until(t, "a is announced", func() bool { return len(a.State.Replicas.List()) == 1 })
	before := a.State.Store.Revision()
	const crowd = 5000
	for i := range crowd {
		a.Watches.Set(fmt.Sprintf("fleet-default/custom-%d-machine-plan", i), true, time.Now())
	}
	until(t, "all are written", func() bool { return len(a.State.Watches.List()) == crowd })
	if writes := a.State.Store.Revision() - before; writes > crowd/batch+2 {
		t.Errorf("%d agents took %d transactions", crowd, writes)
	}
}

func TestAServerAlonePublishesNothing(t *testing.T) {
	t.Parallel()
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := NewPresence(PresenceOptions{State: s, Self: records.Replica{ID: "a"}, Alone: true, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	var heard []string
	p.Watches.OnChange(func(subject string, connected bool) { heard = append(heard, fmt.Sprint(subject, " ", connected)) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	before := s.Store.Revision()
	at := time.Now().Add(-time.Minute)
	p.Watches.Set("c/m-1", true, at)
	if since, ok := p.Watches.Connected("c/m-1"); !ok || !since.Equal(at) {
		t.Errorf("connected %t since %s", ok, since)
	}
	if got := p.Watches.Links("c/m-1"); len(got) != 1 || got[0].Server.ID != "a" || !got[0].Since.Equal(at) {
		t.Errorf("links %+v", got)
	}
	p.Watches.Set("c/m-1", false, at)
	if since, ok := p.Watches.Connected("c/m-1"); ok || !since.Equal(at) {
		t.Errorf("connected %t since %s", ok, since)
	}
	p.Watches.Forget("c/m-1")
	if since, ok := p.Watches.Connected("c/m-1"); ok || !since.IsZero() {
		t.Errorf("forgotten, and connected %t since %s", ok, since)
	}
	if got := fmt.Sprint(heard); got != "[c/m-1 true c/m-1 false]" {
		t.Errorf("reported %s", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.Store.Revision() != before {
		t.Error("something was written for other servers, of which there are none")
	}
}
