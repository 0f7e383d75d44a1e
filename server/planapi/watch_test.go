package planapi_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// streamed is how agents with a newer client-go begin.
const streamed = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=6m2s&timeoutSeconds=362"

// brief is what a test compares of an event.
func brief(e event) string {
	s := e.Type + " " + strings.TrimSuffix(strings.TrimPrefix(e.Object.Metadata.Name, "custom-00000000000"), suffix)
	if plan := e.Object.Data["plan"]; plan != nil {
		s += " " + *plan
	}
	if e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
		s += "END"
	}
	if e.Object.Code != 0 {
		s += strconv.Itoa(e.Object.Code)
	}
	return s
}

func (w *watcher) briefs(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		all = append(all, brief(w.next(t)))
	}
	return all
}

func rv(revision int64) string { return "resourceVersion=" + strconv.FormatInt(revision, 10) }

// protocols runs a test over both ways that a watch is served.
func protocols(t *testing.T, f func(t *testing.T, options ...option)) {
	t.Run("HTTP/1.1", func(t *testing.T) { t.Parallel(); f(t) })
	t.Run("HTTP/2", func(t *testing.T) { t.Parallel(); f(t, http2) })
}

func TestStreamedList(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, options ...option) {
		f := setUp(t, options...)
		current := f.set(t, oneKey, "plan", "a")
		w := f.watch(t, secrets, one, nameQuery(one)+"&"+streamed)
		first, mark := w.next(t), w.next(t)
		if brief(first) != "ADDED 1 "+*b64("a") || first.Object.Kind != "Secret" || first.Object.APIVersion != "v1" {
			t.Errorf("first event %+v", first)
		}
		if brief(mark) != "BOOKMARK END" || mark.Object.Metadata.ResourceVersion != strconv.FormatInt(current, 10) || mark.Object.Kind != "Secret" {
			t.Errorf("second event %+v, want the marked bookmark at %d", mark, current)
		}
		f.set(t, namespace+"/"+two+suffix, "plan", "other")
		f.set(t, oneKey, "plan", "b")
		if diff := cmp.Diff([]string{"MODIFIED 1 " + *b64("b")}, w.briefs(t, 1)); diff != "" {
			t.Error(diff)
		}
		f.remove(t, oneKey)
		f.create(t, one)
		if diff := cmp.Diff([]string{"DELETED 1 " + *b64("b"), "ADDED 1"}, w.briefs(t, 2)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestStreamedListOfNothing: without the mark the agent would hang for ever.
func TestStreamedListOfNothing(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	w := f.watch(t, secrets, "custom-none", nameQuery("custom-none")+"&"+streamed)
	if diff := cmp.Diff([]string{"BOOKMARK END"}, w.briefs(t, 1)); diff != "" {
		t.Error(diff)
	}
	f.create(t, "custom-none")
	if e := w.next(t); e.Type != "ADDED" {
		t.Errorf("then %+v", e)
	}
}

// TestWatchStarts is how a watch can begin, as a table.
func TestWatchStarts(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	first := f.state.Store.Revision()
	old := f.set(t, oneKey, "plan", "a")
	newest := f.set(t, oneKey, "plan", "b")
	b := *b64("b")
	type beginning struct {
		name, query string
		want        []string
		watcher     *watcher
	}
	var cases []beginning
	for _, c := range []beginning{
		{name: "from nowhere", query: "", want: []string{"ADDED 1 " + b}},
		{name: "from 0", query: "resourceVersion=0", want: []string{"ADDED 1 " + b}},
		{name: "from an old version", query: rv(old), want: []string{"MODIFIED 1 " + b}},
		{name: "from before the first plan", query: rv(first), want: []string{"MODIFIED 1 " + b}},
		{name: "from long ago", query: rv(1), want: []string{"MODIFIED 1 " + b}},
		{name: "from the newest version", query: rv(newest), want: nil},
		{name: "without initial events", query: "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", want: nil},
		{name: "streamed from a version", query: "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" + rv(old), want: []string{"ADDED 1 " + b, "BOOKMARK END"}},
		{name: "with a label that matches", query: "labelSelector=rke.cattle.io/machine-name%3D" + one, want: []string{"ADDED 1 " + b}},
		{name: "with a label that does not", query: "labelSelector=rke.cattle.io/machine-name%3D" + two, want: nil},
	} {
		c.watcher = f.watch(t, secrets, "admin", nameQuery(one)+"&"+c.query) // a machine may have four watches only
		cases = append(cases, c)
	}
	f.Close() // sends what is queued, and ends them in order
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, e := range c.watcher.end(t) {
				got = append(got, brief(e))
			}
			if diff := cmp.Diff(c.want, got); diff != "" || c.watcher.status != http.StatusOK || c.watcher.err != nil {
				t.Errorf("%d %v %s", c.watcher.status, c.watcher.err, diff)
			}
		})
	}
}

// TestWatchEndsInTime: agents ask for 5 to 10 minutes and open a new watch then.
func TestWatchEndsInTime(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, options ...option) {
		f := setUp(t, options...)
		w := f.watch(t, secrets, one, nameQuery(one)+"&timeoutSeconds=1&"+rv(f.state.Store.Revision()))
		if events := w.end(t); len(events) != 0 || w.err != nil {
			t.Errorf("%v, %v", events, w.err)
		}
	})
}

func TestWatchRefusals(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	for _, c := range []struct {
		name, query string
		code        int
	}{
		{"streamed without match", "sendInitialEvents=true", 422},
		{"match without streamed", "resourceVersionMatch=NotOlderThan", 422},
		{"streamed with another match", "sendInitialEvents=true&resourceVersionMatch=Exact", 422},
		{"version that is not a number", "resourceVersion=x", 400},
		{"negative timeout", "timeoutSeconds=-1", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.get(t, secrets+"?watch=true&"+nameQuery(one)+"&"+c.query, one)
			if a.HTTP != c.code || a.Kind != "Status" || a.Message == "" {
				t.Errorf("%d %s, want %d", a.HTTP, a.Text, c.code)
			}
		})
	}
}

// TestTooOld: what was removed before the server started is not known; who may have
// missed such a removal has to list again.
func TestTooOld(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	gone := nameQuery("custom-gone")
	if a := f.get(t, secrets+"?watch=true&"+gone+"&resourceVersion=1", "custom-gone"); a.HTTP != http.StatusGone || a.Reason != "Expired" || a.Code != 410 {
		t.Errorf("one that is not there, from 1: %d %s", a.HTTP, a.Text)
	}
	if a := f.get(t, secrets+"?watch=true&resourceVersion=1", "admin"); a.HTTP != http.StatusGone || a.Reason != "Expired" {
		t.Errorf("all, from 1: %d %s", a.HTTP, a.Text)
	}
}

// TestResumeReportsRemovals: an agent that was away while its Secret was made anew.
func TestResumeReportsRemovals(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.create(t, "custom-000000000003")
	since := f.set(t, oneKey, "plan", "a")
	f.remove(t, oneKey)
	f.remove(t, namespace+"/custom-000000000003"+suffix)
	f.create(t, "custom-000000000003")
	f.set(t, namespace+"/"+two+suffix, "plan", "b")

	w := f.watch(t, secrets, one, nameQuery(one)+"&"+rv(since))
	if e := w.next(t); brief(e) != "DELETED 1" || e.Object.Metadata.UID != "uid-"+one {
		t.Errorf("one: %+v", e)
	}
	all := f.watch(t, secrets, "admin", rv(since))
	if diff := cmp.Diff([]string{"DELETED 1", "MODIFIED 3", "MODIFIED 2 " + *b64("b")}, all.briefs(t, 3)); diff != "" {
		t.Errorf("all: %s", diff)
	}
	f.Close()
	if events := append(w.end(t), all.end(t)...); len(events) != 0 {
		t.Errorf("more: %+v", events)
	}
}

// TestResumeAfterARestart: watches go on where an earlier server left them, with what was removed and without what they have; what changed in
// one transaction that they may have seen in part comes again.
func TestResumeAfterARestart(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.create(t, "custom-000000000003")
	f.create(t, "custom-000000000004")
	early := f.state.Store.Revision()
	since, err := f.state.Store.Commit(t.Context(), f.state.PlanSecrets.Deleting(oneKey, 0), f.state.PlanSecrets.Deleting(namespace+"/"+two+suffix, 0))
	if err != nil {
		t.Fatal(err)
	}
	f.remove(t, namespace+"/custom-000000000003"+suffix)

	again := serve(t, f.state)
	known := make(chan struct{})
	again.Hub().AwaitPast(known)
	go func() {
		defer close(known)
		past, after, err := f.state.Store.Past(t.Context(), f.state.Store.Revision())
		if err != nil {
			t.Error(err)
		}
		again.Hub().Recall(past, after)
	}()
	for revision, want := range map[int64][]string{early: {"DELETED 1", "DELETED 2", "DELETED 3"}, since: {"DELETED 1", "DELETED 2", "DELETED 3"}, since + 1: {}} {
		w := again.watch(t, secrets, "admin", rv(revision))
		if diff := cmp.Diff(want, w.briefs(t, len(want)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("from %d: %s", revision, diff)
		}
		defer func() {
			if diff := cmp.Diff([]string{"DELETED 4"}, w.briefs(t, 1)); diff != "" {
				t.Errorf("from %d, what comes next: %s", revision, diff)
			}
		}()
	}
	f.remove(t, namespace+"/custom-000000000004"+suffix)
}

// TestSelectorsFollowLabels: an object that begins or ceases to match comes and goes.
func TestSelectorsFollowLabels(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	label := func(value string) {
		t.Helper()
		if a := f.do(t, http.MethodPatch, onePath, "admin", "application/merge-patch+json", `{"metadata":{"labels":{"x":"`+value+`"}}}`); a.HTTP != http.StatusOK {
			t.Fatal(a.Text)
		}
	}
	before := f.state.Store.Revision()
	w := f.watch(t, secrets, "admin", "labelSelector=x%3Dyes&"+rv(before))
	for _, c := range []struct {
		change func()
		want   string // each is read at once, as a reader who is late gets fewer
	}{
		{func() { label("yes") }, "ADDED 1"},
		{func() { f.set(t, oneKey, "plan", "a") }, "MODIFIED 1 YQ=="},
		{func() { label("no") }, "DELETED 1 YQ=="},
		{func() { f.set(t, oneKey, "plan", "b"); label("yes") }, "ADDED 1 Yg=="},
	} {
		c.change()
		if got := brief(w.next(t)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	label("no")
	resumed := f.watch(t, secrets, "admin", "labelSelector=x%3Dyes&"+rv(before))
	if diff := cmp.Diff([]string{"DELETED 1 Yg=="}, resumed.briefs(t, 1)); diff != "" {
		t.Error(diff)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, options ...option) {
		f := setUp(t, append(options, heartbeat(30*time.Millisecond))...)
		w := f.watch(t, secrets, one, nameQuery(one)+"&allowWatchBookmarks=true&"+rv(f.state.Store.Revision()))
		other := f.set(t, namespace+"/"+two+suffix, "plan", "x")
		for {
			e := w.next(t)
			if e.Type != "BOOKMARK" || e.Object.Metadata.Annotations != nil {
				t.Fatalf("event %+v, want a plain bookmark", e)
			}
			if at, _ := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64); at >= other {
				break // bookmarks move on with changes of others
			}
		}
		f.set(t, oneKey, "plan", "a")
		for e := w.next(t); e.Type != "MODIFIED"; e = w.next(t) {
			if e.Type != "BOOKMARK" {
				t.Fatalf("event %+v", e)
			}
		}
		plain := f.watch(t, secrets, two, nameQuery(two)+"&"+rv(f.state.Store.Revision()))
		for range 3 {
			w.next(t)
		}
		f.Close()
		if events := plain.end(t); len(events) != 0 {
			t.Errorf("a client that asked for no bookmarks got %+v", events)
		}
	})
}

// TestHeaderComesAtOnce: a client waits for it before it reads events.
func TestHeaderComesAtOnce(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	conn, err := tls.Dial("tcp", f.server.Listener.Addr().String(), &tls.Config{RootCAs: f.client.Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s?watch=true&%s&%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", secrets, nameQuery(one), rv(f.state.Store.Revision()), one)
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Date") == "" || !cmp.Equal(res.TransferEncoding, []string{"chunked"}) {
		t.Errorf("%d %v %v", res.StatusCode, res.Header, res.TransferEncoding)
	}
}

// TestOldHTTP: HTTP/1.0 has no chunks.
func TestOldHTTP(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	conn, err := tls.Dial("tcp", f.server.Listener.Addr().String(), &tls.Config{RootCAs: f.client.Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s?watch=true&%s HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n", secrets, nameQuery(one), one)
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `{"type":"ADDED","object":{`) {
		t.Errorf("%q, %v", line, err)
	}
}

// presenceLog collects what OnPresence reports.
type presenceLog chan string

func (l presenceLog) want(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		select {
		case got := <-l:
			if got != text {
				t.Errorf("reported %q, want %q", got, text)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("nothing was reported, want %q", text)
		}
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	reported := make(presenceLog, 100)
	f.Hub().OnPresence(func(key string, connected bool) {
		reported <- fmt.Sprintf("%s %v", strings.TrimPrefix(key, namespace+"/"), connected)
	})
	if since, connected := f.Hub().Watching(oneKey); connected || !since.IsZero() {
		t.Errorf("before the first watch: %v %v", since, connected)
	}
	current := rv(f.state.Store.Revision())
	f.watch(t, secrets, "admin", nameQuery(one)+"&"+current)
	first := f.watch(t, secrets, one, nameQuery(one)+"&"+current)
	reported.want(t, one+suffix+" true")
	if since, connected := f.Hub().Watching(oneKey); !connected || !since.Equal(noon) {
		t.Errorf("with a watch: %v %v", since, connected)
	}
	first.cancel()
	first.end(t)
	second := f.watch(t, secrets, one, nameQuery(one)+"&"+current+"&timeoutSeconds=1")
	second.end(t) // about a second later
	if _, connected := f.Hub().Watching(oneKey); !connected {
		t.Error("gone right after its watch ended in order, although agents open a new one then")
	}
	f.watch(t, secrets, two, nameQuery(two)+"&"+current)
	reported.want(t, two+suffix+" true")
}

// TestManyWatchesOfOneMachine: the oldest gives way, so that a lost connection cannot
// keep a machine out.
func TestManyWatchesOfOneMachine(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	query := nameQuery(one) + "&" + rv(f.state.Store.Revision())
	var watches []*watcher
	for range 5 {
		watches = append(watches, f.watch(t, secrets, one, query))
	}
	if events := watches[0].end(t); len(events) != 0 || watches[0].err != nil {
		t.Errorf("the oldest got %v and ended with %v", events, watches[0].err)
	}
	f.set(t, oneKey, "plan", "a")
	for i, w := range watches[1:] {
		if e := w.next(t); e.Type != "MODIFIED" {
			t.Errorf("watch %d got %+v", i+1, e)
		}
	}
}

// TestClose ends watches in order, so that agents come back at once and to another server.
func TestClose(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, options ...option) {
		f := setUp(t, options...)
		w := f.watch(t, secrets, one, nameQuery(one)+"&"+rv(f.state.Store.Revision()))
		all := f.watch(t, secrets, "admin", rv(f.state.Store.Revision()))
		f.Close()
		for _, w := range []*watcher{w, all} {
			if events := w.end(t); len(events) != 0 || w.err != nil {
				t.Errorf("%v, %v", events, w.err)
			}
		}
	})
}

// TestEverySecretOfAll: an informer of an administrator's tool.
func TestEverySecretOfAll(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	w := f.watch(t, "/api/v1/secrets", "admin", streamed)
	if diff := cmp.Diff([]string{"ADDED 1", "ADDED 2", "BOOKMARK END"}, w.briefs(t, 3)); diff != "" {
		t.Error(diff)
	}
	for i := range 50 {
		f.set(t, oneKey, "plan", strconv.Itoa(i))
		f.set(t, namespace+"/"+two+suffix, "plan", strconv.Itoa(i))
	}
	last := map[string]string{}
	for last[one+suffix] != *b64("49") || last[two+suffix] != *b64("49") {
		e := w.next(t)
		last[e.Object.Metadata.Name] = *e.Object.Data["plan"]
	}
}
