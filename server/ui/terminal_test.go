package ui_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	lines "github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/test/apibed"
)

// TestMain is kubectl where the terminal has started the test as that.
func TestMain(m *testing.M) {
	if os.Args[0] == lines.Program {
		syscall.Exit(commands.Main(os.Stdin, os.Stdout, os.Stderr)) // os.Exit waits a second where the race detector is, and GORACE does not come here
	}
	os.Exit(m.Run())
}

// typeLine sends a line as a browser without scripts does.
func typeLine(b *apibed.Bed, token, line string, header ...string) apibed.Result {
	b.T.Helper()
	return b.Send(apibed.TerminalOfHarbour+"?CSRF="+b.FormToken(token), token, url.Values{"line": {line}, "key": {ui.NewFormKey()}}, header...)
}

func TestTerminal(t *testing.T) {
	b := terminalBed(t)
	b.Want(200, "PUT", "/v3/settings/audit-level", `{"value":"3"}`)
	id, member := b.Person("ann", "user")
	b.Bind("clusterroletemplatebindings", `{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-member","userId":"`+id+`"}`)

	const link = `href="/dashboard/clusters/fleet-default/harbour/terminal"`
	if r := b.Look("clusters/fleet-default/harbour", b.Admin); !strings.Contains(string(r.Raw), link) {
		t.Error("the cluster's page does not lead there")
	}
	r := b.Look(apibed.TerminalOfHarbour+"?line=get+%22%3E%3Cscript%3E", b.Admin)
	if text := string(r.Raw); r.Status != 200 || !strings.Contains(text, `value="get &#34;&gt;&lt;script&gt;"`) || !strings.Contains(text, "assets/terminal.js?v=") || strings.Contains(text, "kubectl get") {
		t.Errorf("status %d: %s", r.Status, text)
	}
	for _, c := range []struct {
		name, token, line string
		status            int
		says              []string
	}{
		{"what is printed is text", b.Admin, "get pods", 200, []string{"kubectl get pods</p>", "NAME", "&lt;img src=x onerror=alert(1)&gt;&lt;/pre&gt;"}},
		{"rights are those of the cluster", member, "get pods", 200, []string{"Error from server (Forbidden): pods is forbidden: User &#34;" + id + "&#34; cannot list"}},
		{"acting as another is for owners", member, "get pods --as admin", 200, []string{"only who owns the cluster may act as another user"}},
		{"a flag", b.Admin, "get -f /etc/passwd", 200, []string{"there are no files here"}},
		{"no shell", b.Admin, "get pods | grep a", 422, []string{"there is no shell here", `value="get pods | grep a"`}},
		{"no such command", b.Admin, "top pods", 422, []string{"a line begins with one of"}},
		{"nothing", b.Admin, "", 422, []string{"type a command"}},
		{"a long line", b.Admin, "get " + strings.Repeat("x", 5000), 422, []string{"longer than 4 KiB"}},
		{"a long form", b.Admin, strings.Repeat("x", 30000), 413, []string{"longer than"}},
		{"somebody who does not see the cluster", b.User, "get pods", 404, []string{"harbour"}},
		{"a secret in a line", b.Admin, "annotate pod web-1 password=hunter2", 200, []string{"pod/web-1 annotated"}},
		{"a secret as a command", b.Admin, "hunter2", 422, []string{"a line begins"}},
	} {
		r := typeLine(b, c.token, c.line)
		for _, says := range c.says {
			if r.Status != c.status || !strings.Contains(string(r.Raw), says) || strings.Contains(string(r.Raw), "<img src=x") {
				t.Errorf("%s: status %d, without %q: %s", c.name, r.Status, says, r.Raw)
			}
		}
		if r.Status < 400 {
			b.Tidy(apibed.TerminalOfHarbour, string(r.Raw))
		}
	}
	if r := b.Send(apibed.TerminalOfHarbour, b.Admin, url.Values{"line": {"get pods"}}); r.Status != 422 || strings.Contains(string(r.Raw), "NAME") {
		t.Errorf("a form of another page: status %d: %s", r.Status, r.Raw)
	}
	if r := typeLine(b, b.Admin, "get pods; id", "Accept", "text/plain"); r.Status != 422 || !strings.HasPrefix(string(r.Raw), "drover: there is no shell here") {
		t.Errorf("refused to a script: status %d: %s", r.Status, r.Raw)
	}
	found, err := b.Audit.Newest(t.Context(), audit.Query{Verb: "terminal"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	last := found.Entries[len(found.Entries)-1]
	if objects := b.AuditedLines(t); !strings.Contains(objects, `"object":"fleet-default/harbour annotate"`) || last.Kind != "cluster" || last.Stage != audit.End {
		t.Errorf("recorded: %+v of %s", last, objects)
	}
	if all := b.AuditedBytes(t) + b.Logs.String(); strings.Contains(all, "hunter2") {
		t.Error("what was typed is in a log")
	}
	if !strings.Contains(b.AuditedLines(t), `"path":"/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods"`) {
		t.Error("what was asked of the cluster is not recorded")
	}
}

// TestNoTerminalBeforeAPasswordOfOnesOwn: a user whose password an administrator chose reaches no cluster before the user has chosen
// another, neither by a form nor by a script.
func TestNoTerminalBeforeAPasswordOfOnesOwn(t *testing.T) {
	b := terminalBed(t)
	if r := typeLine(b, b.Admin, "get pods"); r.Status != 200 || !strings.Contains(string(r.Raw), "NAME") {
		t.Fatalf("status %d: %s", r.Status, r.Raw)
	}
	if _, err := b.State.Users.Modify(t.Context(), "user-admin", func(u records.User) (records.User, error) { u.MustChange = true; return u, nil }); err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"text/html", "text/plain"} {
		r := typeLine(b, b.Admin, "get pods", "Accept", accept)
		if text := string(r.Raw); r.Status != http.StatusForbidden || !strings.Contains(text, "choose a password of your own first") || strings.Contains(text, "NAME") {
			t.Errorf("%s: status %d: %s", accept, r.Status, text)
		}
	}
	if r := b.Look(apibed.TerminalOfHarbour, b.Admin); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/password" {
		t.Errorf("the page: status %d to %q", r.Status, r.Header.Get("Location"))
	}
}

// TestAPageIsLeftForAPassword: a page that is open when its user has to choose another password leads to where they do.
func TestAPageIsLeftForAPassword(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	f := b.Follow(b.Serve(), "clusters", b.Admin)
	f.Next("hello")
	f.Next("main")
	if _, err := b.State.Users.Modify(t.Context(), "user-admin", func(u records.User) (records.User, error) { u.MustChange = true; return u, nil }); err != nil {
		t.Fatal(err)
	}
	if to := f.Next("over"); to != "/dashboard/password" {
		t.Errorf("it leads to %q", to)
	}
}

func TestTerminalOfAClusterThatIsNotReached(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	r := typeLine(b, b.Admin, "get pods")
	if text := string(r.Raw); r.Status != 200 || !strings.Contains(text, "cluster c-m-h4rb0r55 (harbour) cannot be reached: the cluster is not there") {
		t.Errorf("status %d: %s", r.Status, text)
	}
}

// TestTerminalStreams: what a line prints comes as it is printed, to as many as may have one at once, for as long as their session is there.
func TestTerminalStreams(t *testing.T) {
	b := terminalBed(t)
	server := httptest.NewTLSServer(b.Handler)
	t.Cleanup(server.Close)
	session := b.Token("user-admin", records.Token{Name: "token-page", Session: true})
	open := func() (*http.Response, *bufio.Reader) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/dashboard/"+apibed.TerminalOfHarbour+"?CSRF="+b.FormToken(session), strings.NewReader(url.Values{"line": {"logs -f web-1"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/plain")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", auth.SessionCookie+"="+session+"; "+auth.ForgeryCookie+"="+b.FormToken(session))
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer, bufio.NewReader(answer.Body)
	}
	var first *http.Response
	var rest []*bufio.Reader
	for i := range 4 {
		answer, text := open()
		if line, err := text.ReadString('\n'); answer.StatusCode != 200 || line != "first line\n" || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("status %d: %q, %v", answer.StatusCode, line, err)
		}
		if i == 0 {
			first = answer
			continue
		}
		rest = append(rest, text)
	}
	answer, text := open()
	if line, _ := text.ReadString('\n'); answer.StatusCode != 429 || !strings.Contains(line, "4 of your commands run already") {
		t.Errorf("one more: status %d: %s", answer.StatusCode, line)
	}
	_ = first.Body.Close()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		answer, text := open()
		if answer.StatusCode == 200 {
			rest = append(rest, text)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of somebody who left is not free")
		}
	}
	if err := b.Auth.RevokeToken(t.Context(), "token-page"); err != nil {
		t.Fatal(err)
	}
	for _, text := range rest {
		if all, err := io.ReadAll(text); err != nil || !strings.Contains(string(all), "your session, or your right to the cluster, is over") {
			t.Errorf("after the session: %q, %v", all, err)
		}
	}
}

// clusterAPI stands for the API of a cluster behind the proxy: it knows who asks by the headers of impersonation.
func clusterAPI(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	who := r.Header.Get("Impersonate-User")
	switch r.URL.Path {
	case "/api":
		answer(200, `{"kind":"APIVersions","versions":["v1"]}`)
	case "/apis":
		answer(200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case "/api/v1":
		answer(200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}`)
	case "/api/v1/namespaces/default/pods":
		if who != "user-admin" {
			answer(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods is forbidden: User \"`+who+`\" cannot list resource \"pods\""}`)
			return
		}
		answer(200, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string"}],"rows":[{"cells":["<img src=x onerror=alert(1)></pre>"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-1"}}}]}`)
	case "/api/v1/namespaces/default/pods/web-1":
		answer(200, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}`)
	case "/api/v1/namespaces/default/pods/web-1/log":
		_, _ = io.WriteString(w, "first \x1b[31mline\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		answer(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"nothing"}`)
	}
}

// terminalBed is a bed whose cluster harbour has an API.
func terminalBed(t *testing.T) *apibed.Bed {
	t.Helper()
	cluster := httptest.NewServer(http.HandlerFunc(clusterAPI))
	t.Cleanup(cluster.Close)
	t.Cleanup(cluster.CloseClientConnections)
	var b *apibed.Bed
	proxy := &kubeproxy.Proxy{Logger: slog.New(slog.DiscardHandler)}
	b = apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Ping: time.Hour, Proxy: func(w http.ResponseWriter, r *http.Request) {
		who, err := b.Auth.Authenticate(r)
		if err != nil {
			t.Error(err)
		}
		proxy.Serve(w, r, who)
	}})
	proxy.State, proxy.Until = b.State, b.Auth.Until
	proxy.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper {
		return wayTo(strings.TrimPrefix(cluster.URL, "http://"))
	}
	proxy.Token = func(context.Context, records.ClusterKey, downstream.Person) (string, error) { return "account", nil }
	apibed.Administrated(b)
	apibed.Harbour(b)
	return b
}

// wayTo is a way to a cluster whose API is at an address.
type wayTo string

func (to wayTo) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", string(to)
	return http.DefaultTransport.RoundTrip(r)
}
