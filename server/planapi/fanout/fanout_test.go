package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// fixture is a hub over a real store.
type fixture struct {
	*Hub
	state   *state.State
	encoded atomic.Int32 // how often a Secret was encoded
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{state: st}
	f.Hub = New(Options{
		Store: st.Store, Secrets: st.PlanSecrets, Grace: time.Millisecond,
		Encode: func(b []byte, d Document) []byte {
			f.encoded.Add(1)
			return fmt.Appendf(b, `{"metadata":{"name":%q,"resourceVersion":"%d"},"data":%q}`, d.Key, d.Revision, d.Value.Data["v"])
		},
	})
	t.Cleanup(func() {
		f.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) create(t *testing.T, key string) {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	s := records.PlanSecret{Object: records.Object{Namespace: namespace, Name: name, UID: "uid"}}
	if _, err := f.state.PlanSecrets.Create(t.Context(), key, s); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) set(t *testing.T, key, value string) {
	t.Helper()
	_, err := f.state.PlanSecrets.Modify(t.Context(), key, func(s records.PlanSecret) (records.PlanSecret, error) {
		s.Data = map[string][]byte{"v": []byte(value)}
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// gatedSink is a client that takes events only when the test lets it.
type gatedSink struct {
	entered chan string   // an event is about to be taken
	gate    chan struct{} // one token lets one event through
	ended   chan bool     // how it ended: true in order
	silent  atomic.Int64  // of the client's host, a time.Duration
	once    sync.Once
}

func newGatedSink() *gatedSink {
	return &gatedSink{entered: make(chan string, 100_000), gate: make(chan struct{}, 100_000), ended: make(chan bool, 1)}
}

func (s *gatedSink) begin() error { return nil }

func (s *gatedSink) send(kind string, object []byte) error {
	s.entered <- kind + " " + string(object)
	<-s.gate
	return nil
}

func (s *gatedSink) end()                   { s.once.Do(func() { s.ended <- true }) }
func (s *gatedSink) cut()                   { s.once.Do(func() { s.ended <- false }) }
func (s *gatedSink) silence() time.Duration { return time.Duration(s.silent.Load()) }

// open opens a stream from now on.
func (f *fixture) open(t *testing.T, scope Scope, sink sink) *stream {
	t.Helper()
	s := &stream{hub: f.Hub, scope: &scope, sink: sink, until: time.Now().Add(time.Hour), done: make(chan struct{})}
	if !f.attach(s, Start{Since: f.state.Store.Revision()}) {
		t.Fatal("the hub is closed")
	}
	t.Cleanup(func() {
		s.abort()
		<-s.done
		f.running.Done()
	})
	return s
}

func value(t *testing.T, event string) string {
	t.Helper()
	_, object, _ := strings.Cut(event, " ")
	var o struct{ Data string }
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	return o.Data
}

func TestOneEncodingForAll(t *testing.T) {
	f := setUp(t)
	f.create(t, "ns/a")
	var sinks []*gatedSink
	for _, scope := range []Scope{{Key: "ns/a"}, {Key: "ns/a"}, {Prefix: "ns/"}, {}} {
		s := newGatedSink()
		s.gate <- struct{}{}
		sinks = append(sinks, s)
		f.open(t, scope, s)
	}
	f.set(t, "ns/a", "1")
	for i, s := range sinks {
		if event := <-s.entered; !strings.HasPrefix(event, "MODIFIED ") || value(t, event) != "1" {
			t.Errorf("stream %d got %s", i, event)
		}
	}
	if n := f.encoded.Load(); n != 1 {
		t.Errorf("encoded %d times, want once", n)
	}
}

// TestSlowClientSkips: who is slow gets the newest state and not each one.
func TestSlowClientSkips(t *testing.T) {
	f := setUp(t)
	f.create(t, "ns/a")
	s := newGatedSink()
	f.open(t, Scope{Key: "ns/a"}, s)
	f.set(t, "ns/a", "first")
	if event := <-s.entered; value(t, event) != "first" {
		t.Fatal(event)
	}
	for i := range 100 {
		f.set(t, "ns/a", strconv.Itoa(i))
	}
	s.gate <- struct{}{}
	s.gate <- struct{}{}
	if event := <-s.entered; value(t, event) != "99" {
		t.Errorf("then it got %s, want the newest", event)
	}
}

// TestRemovalIsNeverSkipped: a Secret that was made anew is another one.
func TestRemovalIsNeverSkipped(t *testing.T) {
	f := setUp(t)
	f.create(t, "ns/a")
	s := newGatedSink()
	f.open(t, Scope{Key: "ns/a"}, s)
	f.set(t, "ns/a", "first")
	<-s.entered
	f.set(t, "ns/a", "second")
	if err := f.state.PlanSecrets.Delete(t.Context(), "ns/a", 0); err != nil {
		t.Fatal(err)
	}
	f.create(t, "ns/a")
	f.set(t, "ns/a", "anew")
	var kinds []string
	for range 4 {
		s.gate <- struct{}{}
	}
	for range 3 {
		kind, _, _ := strings.Cut(<-s.entered, " ")
		kinds = append(kinds, kind)
	}
	if diff := cmp.Diff([]string{"MODIFIED", "DELETED", "ADDED"}, kinds); diff != "" {
		t.Error(diff)
	}
}

// TestFarBehind: a client that is too far behind is asked to list again.
func TestFarBehind(t *testing.T) {
	f := setUp(t)
	s := newGatedSink()
	st := f.open(t, Scope{}, s)
	st.offer(&change{Document: Document{Key: "ns/first", Revision: 1 << 40}}, nil, false)
	<-s.entered
	for i := range maxQueue + 1 { // different Secrets, so that none replaces another
		st.offer(&change{Document: Document{Key: "ns/" + strconv.Itoa(i), Revision: 1<<40 + int64(i) + 1}}, nil, false)
	}
	st.offer(&change{Document: Document{Key: "ns/late", Revision: 1 << 41}}, nil, false)
	s.gate <- struct{}{}
	s.gate <- struct{}{}
	if event := <-s.entered; !strings.HasPrefix(event, "ERROR ") || !strings.Contains(event, `"code":410`) || !strings.Contains(event, `"reason":"Expired"`) {
		t.Errorf("then it got %s", event)
	}
	if !<-s.ended {
		t.Error("it was cut off and not ended in order")
	}
}

// TestOldTombstonesAreForgotten: then a resumed watch has to list again.
func TestOldTombstonesAreForgotten(t *testing.T) {
	f := setUp(t)
	start := f.state.Store.Revision()
	for i := range maxTombstones + 2 {
		f.observe(store.Event[records.PlanSecret]{Type: store.Deleted, Key: "ns/x", Revision: start + int64(i) + 1})
	}
	for _, c := range []struct {
		since int64
		want  bool
	}{{start, false}, {start + 1, false}, {start + 2, true}, {start + 100, true}} {
		if got := f.Remembers(c.since); got != c.want {
			t.Errorf("remembers since start+%d: %v, want %v", c.since-start, got, c.want)
		}
	}
	s := newGatedSink()
	s.gate <- struct{}{}
	st := &stream{hub: f.Hub, scope: &Scope{Key: "ns/y"}, sink: s, until: time.Now().Add(time.Hour), done: make(chan struct{})}
	if !f.attach(st, Start{Since: start}) {
		t.Fatal("closed")
	}
	if event := <-s.entered; !strings.HasPrefix(event, "ERROR ") || !strings.Contains(event, `"code":410`) {
		t.Errorf("a stream from before them got %s", event)
	}
	<-st.done
	f.running.Done()
}

// TestRecall: what was removed, and what changed together, before the hub began stands before what it has seen itself, each once. A hub that has
// forgotten removals already takes nothing.
func TestRecall(t *testing.T) {
	f := setUp(t)
	began := f.state.Store.Revision()
	gone := func(key string, revision int64) store.Event[records.PlanSecret] {
		return store.Event[records.PlanSecret]{Type: store.Deleted, Key: key, Revision: revision}
	}
	for _, e := range []store.Event[records.PlanSecret]{gone("ns/twice", began), gone("ns/too", began), gone("ns/later", began+2), gone("ns/beside", began+2)} {
		f.observe(e)
	}
	past := func(key string, revision int64) store.PastChange {
		return store.PastChange{Collection: f.options.Secrets.Name(), Key: key, Revision: revision, Removed: records.PlanSecret{}}
	}
	all := []store.PastChange{past("ns/old", began-1), past("ns/twice", began), past("ns/too", began), past("ns/later", began+2), {Collection: "clusters", Key: "ns/c", Revision: began - 1}}
	f.Recall(all, began-2)
	f.Recall(all, began-1) // once is enough
	var got []string
	for _, one := range f.tombstones {
		got = append(got, fmt.Sprint(one.key, " ", one.revision-began))
	}
	if diff := cmp.Diff([]string{"ns/old -1", "ns/twice 0", "ns/too 0", "ns/later 2", "ns/beside 2"}, got); diff != "" {
		t.Errorf("removals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{began, began + 2}, f.shared); diff != "" || f.newest != began+2 {
		t.Errorf("revisions of several Secrets, the newest %d (-want +got):\n%s", f.newest, diff)
	}
	if f.Remembers(began-3) || !f.Remembers(began-2) {
		t.Error("what is remembered begins elsewhere")
	}
	late := setUp(t)
	for i := range int64(maxTombstones + 1) {
		late.observe(gone("ns/x", late.began+i+1))
	}
	if late.Recall(all, 0); late.Remembers(late.began) || len(late.tombstones) != maxTombstones {
		t.Error("a hub that has forgotten removals remembers older ones")
	}
}

// serve gives the hub an HTTP server.
func (f *fixture) serve(t *testing.T, q Watch) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.Serve(w, r, q) }))
	t.Cleanup(server.Close)
	return server
}

// TestStuckClientIsCut: a client that does not read holds nothing for long.
func TestStuckClientIsCut(t *testing.T) {
	f := setUp(t)
	f.sendTimeout = 50 * time.Millisecond
	f.create(t, "ns/a")
	notified := make(chan bool, 10)
	f.OnPresence(func(_ string, there bool) { notified <- there })
	server := f.serve(t, Watch{Scope: Scope{Key: "ns/a"}, Machine: true, Start: Start{Initial: true}, Duration: time.Hour})
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if !<-notified {
		t.Fatal("not there")
	}
	big := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		f.set(t, "ns/a", strconv.Itoa(i)+big) // fills what the kernel holds for the client
		select {
		case there := <-notified:
			if there {
				t.Fatal("notified twice that it is there")
			}
			return
		default:
		}
	}
}

// TestClientThatLeaves is noticed without anything being sent.
func TestClientThatLeaves(t *testing.T) {
	f := setUp(t)
	notified := make(chan bool, 10)
	f.OnPresence(func(_ string, there bool) { notified <- there })
	server := f.serve(t, Watch{Scope: Scope{Key: "ns/a"}, Machine: true, Start: Start{Initial: true}, Duration: time.Hour})
	for _, how := range []string{"closes", "sends more"} {
		t.Run(how, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if !<-notified {
				t.Fatal("not there")
			}
			if _, connected := f.Watching("ns/a"); !connected {
				t.Error("Presence does not know")
			}
			if how == "closes" {
				_ = conn.Close()
			} else {
				fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			}
			if <-notified {
				t.Error("notified again that it is there")
			}
			if since, connected := f.Watching("ns/a"); connected || since.IsZero() {
				t.Errorf("Presence says %v %v", since, connected)
			}
		})
	}
}

func TestPresenceGrace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPresence(func() time.Time { return now }, time.Hour)
	var notified []bool
	p.subscribe(func(_ string, there bool) { notified = append(notified, there) })
	p.opened("a")
	now = now.Add(time.Minute)
	p.opened("a")
	p.closed("a", 0)
	p.closed("a", 0)
	now = now.Add(time.Minute)
	p.opened("a") // a new watch within the grace
	if since, there := p.of("a"); !there || !since.Equal(time.Unix(1000, 0)) {
		t.Errorf("after reopening: %v %v", since, there)
	}
	p.left("a") // a timer that was too late to be stopped
	p.closed("a", 0)
	ended := now
	now = now.Add(time.Minute)
	p.left("a")
	if since, there := p.of("a"); there || !since.Equal(ended) {
		t.Errorf("after the grace: %v %v, want since %v", since, there, ended)
	}
	p.opened("a")
	p.closed("a", 0)
	p.forget("a")
	if since, there := p.of("a"); there || !since.IsZero() {
		t.Errorf("after its Secret was removed: %v %v", since, there)
	}
	p.opened("a")
	p.closed("a", time.Minute)
	p.left("a")
	if since, there := p.of("a"); there || !since.Equal(now.Add(-time.Minute)) {
		t.Errorf("of a silent host: %v %v, want since a minute before %v", since, there, now)
	}
	if diff := cmp.Diff([]bool{true, false, true, true, false}, notified); diff != "" {
		t.Error(diff)
	}
	p.stop()
	p.opened("b")
	if len(notified) != 5 {
		t.Error("notified after stop")
	}
}

// TestNothingIsMissed opens watches in the middle of changes: each ends with the newest
// state, and no state is older than the one before.
func TestNothingIsMissed(t *testing.T) {
	f := setUp(t)
	const keys, changes, watches = 3, 300, 40
	for i := range keys {
		f.create(t, "ns/"+strconv.Itoa(i))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := Watch{Scope: Scope{Key: r.URL.Query().Get("key"), Prefix: "ns/"}, Duration: time.Hour, Start: Start{Initial: true, Mark: true}}
		if since := r.URL.Query().Get("since"); since != "" {
			n, _ := strconv.ParseInt(since, 10, 64)
			q.Start = Start{Since: n}
		}
		f.Serve(w, r, q)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var wg sync.WaitGroup
	asked := make(chan struct{}) // all watches know where they begin
	wg.Go(func() {
		<-asked
		for n := range changes {
			f.set(t, "ns/"+strconv.Itoa(n%keys), strconv.Itoa(n))
		}
		for i := range keys {
			f.set(t, "ns/"+strconv.Itoa(i), "last")
		}
	})
	for i := range watches {
		query := "?key="
		wanted := keys
		if i%2 == 0 {
			query, wanted = "?key=ns/"+strconv.Itoa(i%keys), 1
		}
		if i%4 < 2 {
			query += "&since=" + strconv.FormatInt(f.state.Store.Revision(), 10)
		}
		wg.Go(func() {
			if err := follow(ctx, server.URL+query, wanted); err != nil {
				t.Errorf("watch %s: %v", query, err)
			}
		})
	}
	close(asked)
	wg.Wait()
}

// follow reads a watch until so many Secrets are at their last state.
func follow(ctx context.Context, url string, wanted int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	last, version := map[string]bool{}, map[string]int64{}
	decoder := json.NewDecoder(res.Body)
	for len(last) < wanted {
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Name, ResourceVersion string }
				Data     string
			}
		}
		if err := decoder.Decode(&e); err != nil {
			return err
		}
		if e.Type == "BOOKMARK" {
			continue
		}
		at, err := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64)
		if name := e.Object.Metadata.Name; err != nil || at <= version[name] {
			return fmt.Errorf("%s at %s after %d", name, e.Object.Metadata.ResourceVersion, version[name])
		} else {
			version[name] = at
		}
		if e.Object.Data == "last" {
			last[e.Object.Metadata.Name] = true
		}
	}
	return nil
}

// TestWaitSeesWhatCameBefore: data that arrived before the wait began must end it.
func TestWaitSeesWhatCameBefore(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := io.WriteString(client, "xy"); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := server.Read(b[:]); err != nil { // the system has notified us of "xy"; "y" is still there
		t.Fatal(err)
	}
	awaitReadable(server)
	if _, err := server.Read(b[:]); err != nil || b[0] != 'y' {
		t.Errorf("then %q, %v", b, err)
	}
	_ = client.Close()
	awaitReadable(server)
}
