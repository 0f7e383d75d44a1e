package ui_test

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
	"github.com/drover-project/drover/test/apibed"
)

// touch changes what the pages of a cluster show.
func touch(b *apibed.Bed, key, message string) {
	b.T.Helper()
	if _, err := b.State.Clusters.Modify(b.T.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Status.State, c.Status.Message, c.Status.Ready = "updating", message, true
		return c, nil
	}); err != nil {
		b.T.Fatal(err)
	}
}

// TestOpenPagesAndRights: many pages of people with different rights are open at the same address while all changes; no user
// gets what only others may see, before and after their rights change.
func TestOpenPagesAndRights(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	for i := range 3 {
		b.AddCluster(fmt.Sprintf("secret-%d", i), fmt.Sprintf("c-m-secret%02d", i), apibed.Active)
	}
	open := b.AddCluster("open", "c-m-000000open", apibed.Active)
	lent := b.AddCluster("lent", "c-m-000000lent", apibed.Active)
	annID, ann := b.Person("ann", "user-base")
	benID, ben := b.Person("ben", "user-base")
	bind := func(user, cluster string) string {
		return b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"roleTemplateId":"cluster-member","userId":%q,"clusterId":%q}`, user, cluster))
	}
	bind(annID, open.ID)
	bind(benID, open.ID)
	binding := bind(benID, lent.ID)
	s := b.Serve()
	pages := map[string][]*apibed.Stream{}
	for range 3 {
		for name, token := range map[string]string{"admin": b.Admin, "ann": ann, "ben": ben} {
			f := b.Follow(s, "clusters", token)
			f.Next("hello")
			pages[name] = append(pages[name], f)
		}
	}
	check := func(word string, may map[string]string) {
		t.Helper()
		for _, key := range []string{"secret-0", "lent", "open"} {
			touch(b, "fleet-default/"+key, key+" says "+word)
		}
		for name, all := range pages {
			for _, f := range all {
				for _, shown := range f.Until("open says " + word) {
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
	b.Want(204, "DELETE", "/v3/clusterroletemplatebindings/"+binding, "")
	for _, f := range pages["ben"] {
		for strings.Contains(f.Next("main"), "lent") { // what was on its way
			continue
		}
	}
	check("two", map[string]string{"admin": "secret-0 lent", "ann": "", "ben": ""})
	bind(annID, lent.ID)
	for _, f := range pages["ann"] {
		f.Until("lent says two")
	}
	check("three", map[string]string{"admin": "secret-0 lent", "ann": "lent", "ben": ""})
}

// TestEndedSessionsGetNothing: of two sessions at the same page one ends; it gets nothing that comes after, and the other all.
func TestEndedSessionsGetNothing(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	other := b.Token("user-admin", records.Token{Name: "token-phone"})
	s := b.Serve()
	stays, ends := b.Follow(s, "clusters", b.Admin), b.Follow(s, "clusters", other)
	for _, f := range []*apibed.Stream{stays, ends} {
		f.Next("hello")
		f.Next("main")
	}
	if err := b.Auth.RevokeToken(t.Context(), "token-phone"); err != nil {
		t.Fatal(err)
	}
	touch(b, "fleet-default/harbour", "after the end")
	stays.Until("after the end")
	if to := ends.Next("over"); !strings.HasPrefix(to, "/dashboard/login") {
		t.Errorf("the session that is over is led to %q", to)
	}
	if e, more := <-ends.Events; more {
		t.Errorf("after the end of the session: %q", e)
	}
}

// TestSilentHostHoldsUpNoPage: the page of a Docker host that does not answer is open, and another page shows a change at once.
func TestSilentHostHoldsUpNoPage(t *testing.T) {
	b := apibed.New(t)
	_, machines := apibed.Harbour(b)
	key := machines[0].Key()
	d, err := b.State.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Docker = &records.DockerHost{ServerVersion: "20.10"}
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	connection := records.Connection{Subject: string(d.Value.Subject()), Replica: "r1", Since: apibed.Start}
	if _, err := b.State.Connections.Create(t.Context(), connection.Key(), connection); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	b.AskAgent = func(ctx context.Context, _ records.Subject, _ string) (*http.Response, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := b.Serve()
	var silent []*apibed.Stream
	for range 4 {
		f := b.Follow(s, "machines/"+key, b.Admin)
		f.Next("hello")
		silent = append(silent, f)
	}
	<-asked
	f := b.Follow(s, "clusters", b.Admin)
	f.Next("hello")
	f.Next("main")
	began := time.Now()
	touch(b, "fleet-default/harbour", "beside a silent host")
	f.Until("beside a silent host")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("beside a silent host a change is shown after %s", took)
	}
	for _, f := range silent {
		if shown := f.Next("main"); !strings.Contains(shown, "does not say which containers it has") {
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
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	s := httptest.NewUnstartedServer(b.Handler)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are cut
	s.Listener = cutting{s.Listener, 300 * time.Millisecond}
	s.StartTLS()
	b.T.Cleanup(s.Close)
	seen := regexp.MustCompile(`data-seen="([0-9a-f]+)"`).FindStringSubmatch(string(b.Look("clusters", b.Admin).Raw))[1]
	// The script says in the address what its page shows, a browser that comes back by itself in a header.
	for name, ask := range map[string]func(r *http.Request, id string){
		"script":  func(r *http.Request, id string) { r.URL.RawQuery = "seen=" + id },
		"browser": func(r *http.Request, id string) { r.URL.RawQuery = "seen=" + seen; r.Header.Set("Last-Event-ID", id) },
	} {
		c := &cutPage{t: t, url: s.URL + "/dashboard/clusters", token: b.Admin, client: s.Client(), ask: ask, id: seen}
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
			touch(b, "fleet-default/harbour", word)
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
