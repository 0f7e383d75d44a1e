package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/sharedetcd"
)

// note is what the workers of these tests write.
type note struct{ Text string }

// replica is one server of a store.
type replica struct {
	store *store.Store
	notes *store.Collection[note]
}

func open(t *testing.T, endpoint, keys string) replica {
	t.Helper()
	r := replica{notes: store.NewCollection[note]("notes", false)}
	var err error
	r.store, err = store.Open(t.Context(), store.Options{Endpoints: []string{endpoint}, KeyFile: keys, Logger: slog.New(slog.DiscardHandler)}, r.notes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.store.Close() })
	return r
}

func (r replica) runtime(t *testing.T, identity string, workers ...Worker) (runtime *Runtime, stop func()) {
	t.Helper()
	runtime = New(Options{Store: r.store, Identity: identity, Logger: slog.New(slog.DiscardHandler), Now: time.Now}, workers...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the workers of %s ended with %v", identity, err)
		}
	})
	t.Cleanup(stop)
	return runtime, stop
}

// TestTheLeaderAloneWrites takes the lead from a server whose worker is in the middle of its work: its write is refused, the
// workers of the next leader begin, and what runs everywhere is not disturbed.
func TestTheLeaderAloneWrites(t *testing.T) {
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	one, two := open(t, endpoint, keys), open(t, endpoint, keys)
	middle, goOn, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	everywhere := make(chan string, 10)
	beside := func(who string) Worker {
		return Worker{Name: "beside", Everywhere: true, Reconcile: func(context.Context, string) (Result, error) {
			everywhere <- who
			return Result{}, nil
		}}
	}
	first, _ := one.runtime(t, "one", beside("one"), Worker{Name: "writer", Reconcile: func(ctx context.Context, _ string) (Result, error) {
		select {
		case middle <- struct{}{}:
		case <-goOn: // it leads again
			return Result{}, nil
		}
		<-goOn
		_, err := one.notes.Create(context.WithoutCancel(ctx), "a", note{"of the deposed"})
		written <- err
		return Result{}, err
	}})
	<-middle
	began := make(chan struct{}, 10)
	second, _ := two.runtime(t, "two", beside("two"), Worker{Name: "writer", Reconcile: func(ctx context.Context, _ string) (Result, error) {
		began <- struct{}{}
		_, err := two.notes.Create(ctx, "b", note{"of the leader"})
		return Result{}, err
	}})
	for range 2 {
		<-everywhere
	}
	if !first.Status()[0].Running || !first.Status()[1].Running || !second.Status()[0].Running || second.Status()[1].Running {
		t.Errorf("before the change of the leader: %+v, %+v", first.Status(), second.Status())
	}
	depose(t, endpoint, "one")
	close(goOn)
	if err := <-written; !isDeposed(err) {
		t.Errorf("a write of a deposed leader: %v", err)
	}
	<-began
	if _, ok := one.notes.Get("a"); ok {
		t.Error("a deposed leader wrote")
	}
}

// depose ends the leadership of a server, as the end of its lease does, once another one waits for it: otherwise it might lead again.
func depose(t *testing.T, endpoint, identity string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	found := &clientv3.GetResponse{}
	for len(found.Kvs) < 2 {
		if found, err = client.Get(t.Context(), "/drover/leaders/clusters/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	}
	for _, kv := range found.Kvs {
		if string(kv.Value) == identity {
			if _, err := client.Delete(t.Context(), string(kv.Key)); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s does not lead", identity)
}

func isDeposed(err error) bool {
	_, deposed := errors.AsType[*store.DeposedError](err)
	return deposed
}

// TestWorkersBeginInOrder has each begin before any gets a key, and end after all keys.
func TestWorkersBeginInOrder(t *testing.T) {
	r := open(t, sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys"))
	var mu sync.Mutex
	var log []string
	say := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, what)
	}
	looked := make(chan struct{}, 4)
	tunnels := Signal{Of: "tunnels"}
	worker := func(name string) Worker {
		return Worker{
			Name: name,
			Start: func(context.Context) func() {
				say(name + " begins")
				return func() { say(name + " ends") }
			},
			Watches: []Watch{
				Documents(r.notes, func(e store.Event[note], q Queue) { q.Add(e.Key) }),
				tunnels.Watch(),
			},
			Reconcile: func(ctx context.Context, key string) (Result, error) {
				if key == "" {
					return Result{}, nil
				}
				say("key " + key)
				looked <- struct{}{}
				<-ctx.Done()
				time.Sleep(50 * time.Millisecond) // the end of its work
				say("through")
				return Result{}, nil
			},
		}
	}
	runtime, stop := r.runtime(t, "one", worker("first"), worker("second"))
	for !slices.ContainsFunc(runtime.Status(), func(s Status) bool { return s.Name == "second" && s.Succeeded > 0 }) {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.notes.Create(t.Context(), "a", note{}); err != nil {
		t.Fatal(err)
	}
	<-looked
	<-looked
	tunnels.Add("b")
	<-looked
	<-looked
	stop()
	tunnels.Add("c") // no worker watches any more
	want := []string{"first begins", "second begins", "key a", "key a", "key b", "key b", "through", "through", "through", "through", "second ends", "first ends"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
	if s := runtime.Status(); !slices.Equal(s[0].Watches, []string{"notes", "tunnels"}) {
		t.Errorf("it watches %q", s[0].Watches)
	}
}
