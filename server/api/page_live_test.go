package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// touch changes what the pages of a cluster show.
func (b *bench) touch(key, message string) {
	b.t.Helper()
	if _, err := b.st.Clusters.Modify(b.t.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Status.State, c.Status.Message, c.Status.Ready = "updating", message, true
		return c, nil
	}); err != nil {
		b.t.Fatal(err)
	}
}

// until reads a stream up to a picture that holds a text, and returns all pictures up to then.
func (f *stream) until(text string) []string {
	f.t.Helper()
	var all []string
	for {
		all = append(all, f.next("main"))
		if strings.Contains(all[len(all)-1], text) {
			return all
		}
	}
}

// TestOpenPagesAndRights: many pages of people with different rights are open at the same address while all changes; no user
// gets what only others may see, before and after their rights change.
func TestOpenPagesAndRights(t *testing.T) {
	b := newBench(t)
	administrated(b)
	for i := range 3 {
		b.addCluster(fmt.Sprintf("secret-%d", i), fmt.Sprintf("c-m-secret%02d", i), active)
	}
	open := b.addCluster("open", "c-m-000000open", active)
	lent := b.addCluster("lent", "c-m-000000lent", active)
	annID, ann := b.person("ann", "user-base")
	benID, ben := b.person("ben", "user-base")
	bind := func(user, cluster string) string {
		return b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"roleTemplateId":"cluster-member","userId":%q,"clusterId":%q}`, user, cluster))
	}
	bind(annID, open.ID)
	bind(benID, open.ID)
	binding := bind(benID, lent.ID)
	s := b.serve()
	pages := map[string][]*stream{}
	for range 3 {
		for name, token := range map[string]string{"admin": b.admin, "ann": ann, "ben": ben} {
			f := b.follow(s, "clusters", token)
			f.next("hello")
			pages[name] = append(pages[name], f)
		}
	}
	check := func(word string, may map[string]string) {
		t.Helper()
		for _, key := range []string{"secret-0", "lent", "open"} {
			b.touch("fleet-default/"+key, key+" says "+word)
		}
		for name, all := range pages {
			for _, f := range all {
				for _, shown := range f.until("open says " + word) {
					for _, cluster := range []string{"secret-0", "lent"} {
						if strings.Contains(shown, cluster) && !strings.Contains(may[name], cluster) {
							t.Errorf("%s gets %s", name, cluster)
						}
					}
				}
			}
		}
	}
	check("one", map[string]string{"admin": "secret-0 lent", "ann": "", "ben": "lent"})
	b.want(204, "DELETE", "/v3/clusterroletemplatebindings/"+binding, "")
	for _, f := range pages["ben"] {
		for strings.Contains(f.next("main"), "lent") { // what was on its way
			continue
		}
	}
	check("two", map[string]string{"admin": "secret-0 lent", "ann": "", "ben": ""})
	bind(annID, lent.ID)
	for _, f := range pages["ann"] {
		f.until("lent says two")
	}
	check("three", map[string]string{"admin": "secret-0 lent", "ann": "lent", "ben": ""})
}

// TestEndedSessionsGetNothing: of two sessions at the same page one ends; it gets nothing that comes after, and the other all.
func TestEndedSessionsGetNothing(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	other := b.token("user-admin", records.Token{Name: "token-phone"})
	s := b.serve()
	stays, ends := b.follow(s, "clusters", b.admin), b.follow(s, "clusters", other)
	for _, f := range []*stream{stays, ends} {
		f.next("hello")
		f.next("main")
	}
	if err := b.auth.RevokeToken(t.Context(), "token-phone"); err != nil {
		t.Fatal(err)
	}
	b.touch("fleet-default/harbour", "after the end")
	stays.until("after the end")
	if to := ends.next("over"); !strings.HasPrefix(to, "/dashboard/login") {
		t.Errorf("the session that is over is led to %q", to)
	}
	if e, more := <-ends.events; more {
		t.Errorf("after the end of the session: %q", e)
	}
}

// TestSilentHostHoldsUpNoPage: the page of a Docker host that does not answer is open, and another page shows a change at once.
func TestSilentHostHoldsUpNoPage(t *testing.T) {
	b := newBench(t)
	_, machines := harbour(b)
	key := machines[0].Key()
	d, err := b.st.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Docker = &records.DockerHost{ServerVersion: "20.10"}
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	connection := records.Connection{Subject: string(d.Value.Subject()), Replica: "r1", Since: start}
	if _, err := b.st.Connections.Create(t.Context(), connection.Key(), connection); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	b.askAgent = func(ctx context.Context, _ records.Subject, _ string) (*http.Response, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := b.serve()
	var silent []*stream
	for range 4 {
		f := b.follow(s, "machines/"+key, b.admin)
		f.next("hello")
		silent = append(silent, f)
	}
	<-asked
	f := b.follow(s, "clusters", b.admin)
	f.next("hello")
	f.next("main")
	began := time.Now()
	b.touch("fleet-default/harbour", "beside a silent host")
	f.until("beside a silent host")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("beside a silent host a change is shown after %s", took)
	}
	for _, f := range silent {
		if shown := f.next("main"); !strings.Contains(shown, "does not say which containers it has") {
			t.Errorf("the page of the silent host: %s", shown)
		}
	}
	if n := len(asked); n > 0 {
		t.Errorf("four pages of one session asked the host %d times", n+1)
	}
}

// cutting is a proxy that ends each connection after a while.
type cutting struct {
	net.Listener
	after time.Duration
}

func (c cutting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		time.AfterFunc(c.after, func() { _ = conn.Close() })
	}
	return conn, err
}

// TestStreamsThatAreCut: a browser whose stream is cut again and again comes back with what it has, gets nothing that it has
// got before, and misses nothing.
func TestStreamsThatAreCut(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	s := httptest.NewUnstartedServer(b.handler)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are cut
	s.Listener = cutting{s.Listener, 300 * time.Millisecond}
	s.StartTLS()
	b.t.Cleanup(s.Close)
	seen := regexp.MustCompile(`data-seen="([0-9a-f]+)"`).FindStringSubmatch(string(b.look("clusters", b.admin).raw))[1]
	// The script says in the address what its page shows, a browser that comes back by itself in a header.
	for name, ask := range map[string]func(r *http.Request, id string){
		"script":  func(r *http.Request, id string) { r.URL.RawQuery = "seen=" + id },
		"browser": func(r *http.Request, id string) { r.URL.RawQuery = "seen=" + seen; r.Header.Set("Last-Event-ID", id) },
	} {
		c := &cutPage{t: t, url: s.URL + "/dashboard/clusters", token: b.admin, client: s.Client(), ask: ask, id: seen}
		c.client.Transport.(*http.Transport).DisableKeepAlives = true
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		reading.Go(func() {
			for ctx.Err() == nil {
				c.read(ctx)
			}
		})
		c.wait(5)
		if got := c.pictures(); len(got) != 0 {
			t.Errorf("%s: nothing changed, and after some cuts %d pictures have come", name, len(got))
		}
		for i := range 3 {
			word := fmt.Sprintf("%s change %d.", name, i)
			b.touch("fleet-default/harbour", word)
			c.wait(4)
			if got := c.pictures(); len(got) != 1 || !strings.Contains(got[0], word) {
				t.Errorf("%s: after one change and some cuts %d pictures have come", name, len(got))
			}
		}
		cancel()
		reading.Wait()
		if c.failures > 0 {
			t.Errorf("%s: %d times the page was told that something failed", name, c.failures)
		}
		seen = c.id
	}
}

// cutPage is a page in a browser whose stream is cut.
type cutPage struct {
	t          testing.TB
	url, token string
	client     *http.Client
	ask        func(r *http.Request, id string)

	mu       sync.Mutex
	id       string
	got      []string
	streams  int
	failures int
}

// wait waits until so many more streams have begun.
func (c *cutPage) wait(streams int) {
	c.t.Helper()
	now := func() int { c.mu.Lock(); defer c.mu.Unlock(); return c.streams }
	want, late := now()+streams, time.After(time.Minute)
	for now() < want {
		select {
		case <-late:
			c.t.Fatalf("%d streams in a minute", streams-(want-now()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pictures are those that have come since it was asked last.
func (c *cutPage) pictures() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// read reads one stream to its end. What was cut in the middle of an event was no event.
func (c *cutPage) read(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: c.token, Secure: true, HttpOnly: true})
	c.mu.Lock()
	c.ask(r, c.id)
	c.mu.Unlock()
	answer, err := c.client.Do(r)
	if err != nil {
		return // it was cut before the answer
	}
	defer answer.Body.Close()
	var name, id string
	var data []string
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		switch line = strings.TrimRight(line, "\n"); {
		case line == "":
			c.event(name, id, strings.Join(data, "\n"))
			name, id, data = "", "", nil
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data:"):
			data = append(data, strings.TrimPrefix(line[5:], " "))
		}
	}
}

func (c *cutPage) event(name, id, data string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch name {
	case "hello":
		c.streams++
	case "main":
		c.id, c.got = id, append(c.got, data)
	case "away", "over":
		c.failures++
	}
}
