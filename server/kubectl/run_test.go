package kubectl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"

	"github.com/drover-project/drover/server/kubectl"
)

// cluster stands for the server's own handler, and the API of a cluster behind it.
type cluster struct {
	t  *testing.T
	mu sync.Mutex
	// seen are the requests, as "METHOD path".
	seen  []string
	heads []http.Header
	// sources are where they come from; address that of the listener.
	sources []string
	// endless is what a log that goes on repeats, and gone is closed when it is not read any more.
	endless string
	gone    chan struct{}
	// elsewhere is where pods called moved lead to.
	elsewhere string
}

func (a *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.seen, a.heads, a.sources = append(a.seen, r.Method+" "+r.URL.RequestURI()), append(a.heads, r.Header.Clone()), append(a.sources, r.RemoteAddr)
	a.mu.Unlock()
	path, below := strings.CutPrefix(r.URL.Path, "/k8s/clusters/c-1")
	if !below {
		http.NotFound(w, r)
		return
	}
	answer := func(text string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
	switch path {
	case "/api":
		answer(`{"kind":"APIVersions","versions":["v1"]}`)
	case "/apis":
		answer(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case "/api/v1":
		answer(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","delete"],"shortNames":["po"]}]}`)
	case "/version":
		answer(`{"major":"1","minor":"34","gitVersion":"v1.34.4+k3s1"}`)
	case "/api/v1/namespaces/default/pods", "/api/v1/namespaces/other/pods":
		if !strings.Contains(r.Header.Get("Accept"), "as=Table") {
			answer(`{"kind":"PodList","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1"}}]}`)
			return
		}
		answer(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string","format":"name"}],"rows":[{"cells":["web-1"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-1"}}}]}`)
	case "/api/v1/namespaces/default/pods/web-1":
		answer(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}`)
	case "/api/v1/namespaces/default/pods/web-1/exec":
		a.execute(w, r)
	case "/api/v1/namespaces/default/pods/moved", "/api/v1/namespaces/default/pods/web-2/exec":
		http.Redirect(w, r, a.elsewhere, http.StatusTemporaryRedirect)
	case "/api/v1/namespaces/default/pods/web-2":
		answer(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-2","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}`)
	case "/api/v1/namespaces/default/pods/web-1/log":
		a.log(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"user u-bob may not see `+path+`"}`)
	}
}

// log prints without end; who does not read it any more has gone.
func (a *cluster) log(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, a.endless)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
	close(a.gone)
}

// execute is a container in which every command prints its own words, and fails when that is false.
func (a *cluster) execute(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		a.t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 10)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
	if conn == nil {
		a.t.Error("no upgrade was asked for")
		return
	}
	defer conn.Close()
	words := r.URL.Query()["command"]
	for range 3 { // error, stdout, stderr
		s := <-streams
		switch s.Headers().Get("streamType") {
		case "error":
			status := `{"status":"Success"}`
			if words[0] == "false" {
				status = `{"status":"Failure","reason":"NonZeroExitCode","message":"it has failed","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`
			}
			_, _ = io.WriteString(s, status)
		case "stdout":
			_, _ = io.WriteString(s, strings.Join(words, " ")+" in "+r.URL.Query().Get("container")+"\n")
		}
		_ = s.Close()
	}
	<-conn.CloseChan()
}

// run runs a line, and gives what it printed.
func (a *cluster) run(ctx context.Context, text string, shape func(*kubectl.Line)) string {
	a.t.Helper()
	words, err := kubectl.Words(text)
	if err != nil {
		a.t.Fatal(err)
	}
	asked := httptest.NewRequest("POST", "https://drover.example/dashboard/", nil)
	asked.RemoteAddr = "192.0.2.7:1234"
	asked.Header.Set("Cookie", "R_SESS=token-abcde:c0ffee")
	asked.Header.Set("X-Forwarded-For", "198.51.100.3")
	line := kubectl.Line{Words: words, Cluster: "c-1", Asked: asked, Time: time.Minute, Output: 1 << 20}
	if shape != nil {
		shape(&line)
	}
	var out syncBuffer
	if err := (&kubectl.Runner{Handler: a}).Run(ctx, line, &out); err != nil {
		a.t.Error(err)
	}
	return out.String()
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestLinesThatRun(t *testing.T) {
	a := &cluster{t: t}
	for _, c := range []struct{ line, prints, asks string }{
		{"get pods", "NAME\nweb-1\n", "GET /k8s/clusters/c-1/api/v1/namespaces/default/pods?limit=500"},
		{"get po -n other -o name", "pod/web-1", "GET /k8s/clusters/c-1/api/v1/namespaces/other/pods?limit=500"},
		{"get --raw /version", "v1.34.4+k3s1", "GET /k8s/clusters/c-1/version"},
		{"get --raw /../../v3/tokens", "may not see", "GET /k8s/clusters/c-1/v3/tokens"},
		{"version", "Server Version: v1.34.4+k3s1", "GET /k8s/clusters/c-1/version"},
		{"get nodes", `the server doesn't have a resource type "nodes"`, ""},
		{"get pod other", "user u-bob may not see /api/v1/namespaces/default/pods/other", ""},
		{"describe pod web-1", "Name:", ""},
		{"delete pod other", "user u-bob may not see", "DELETE /k8s/clusters/c-1/api/v1/namespaces/default/pods/other"},
		{"help", "rollout", ""},
		{"get --help", "kubectl get", ""},
		{"rollout", "restart", ""},
		{"exec web-1 -- echo a b", "echo a b in c\n", "POST /k8s/clusters/c-1/api/v1/namespaces/default/pods/web-1/exec?command=echo&command=a&command=b&container=c&stderr=true&stdout=true"},
		{"exec web-1 -c other -- false", "false in other\ncommand terminated with exit code 3\n", ""},
	} {
		a.seen = nil
		if out := a.run(t.Context(), c.line, nil); !strings.Contains(out, c.prints) || strings.Contains(out, "drover:") {
			t.Errorf("%s printed\n%s\nwithout %q", c.line, out, c.prints)
		}
		if c.asks != "" && !strings.Contains(strings.Join(a.seen, "\n"), c.asks) {
			t.Errorf("%s asked for\n%s\nand not %q", c.line, strings.Join(a.seen, "\n"), c.asks)
		}
	}
	for i, h := range a.heads {
		if h.Get("Authorization") != "Bearer token-abcde:c0ffee" || h.Get("Cookie") != "" || h.Get("X-Forwarded-For") != "198.51.100.3" || a.sources[i] != "192.0.2.7:1234" {
			t.Fatalf("a request has the header %v from %s", h, a.sources[i])
		}
	}
	a.heads = nil
	a.run(t.Context(), "get pods --as bob --as-group ops", nil)
	if h := a.heads[len(a.heads)-1]; h.Get("Impersonate-User") != "bob" || h.Get("Impersonate-Group") != "ops" {
		t.Errorf("--as is lost: %v", h)
	}
}

// TestEveryCommand: each of them does something, and knows the flags that kubectl's root has.
func TestEveryCommand(t *testing.T) {
	a := &cluster{t: t, endless: "line\n", gone: make(chan struct{})}
	with := map[string]string{
		"annotate": "pod web-1 a=b", "auth": "can-i get pods", "cluster-info": "", "cordon": "node-1", "delete": "pod web-1 --wait=false", "describe": "pod web-1",
		"drain": "node-1", "exec": "web-1 -- id", "explain": "pods", "get": "pods", "label": "pod web-1 a=b", "logs": "web-1", "rollout": "status deployment/a",
		"scale": "deployment/a --replicas=2", "uncordon": "node-1",
	}
	for _, command := range kubectl.Commands() {
		if command == "logs" {
			continue // goes on
		}
		out := a.run(t.Context(), command+" "+with[command], nil)
		for _, wrong := range []string{"panic", "unknown command", "unknown flag", "drover:", "flag accessed but not defined"} {
			if strings.Contains(out, wrong) || out == "" {
				t.Errorf("%s printed\n%s", command, out)
			}
		}
		for _, below := range kubectl.Below(command) {
			if out := a.run(t.Context(), command+" "+below+" --help", nil); !strings.Contains(out, "kubectl "+command+" "+below) {
				t.Errorf("%s %s printed\n%s", command, below, out)
			}
		}
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	a := &cluster{t: t}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter2"), 0o644); err != nil { // for everybody to read
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"get -f " + file:                                "--filename is not possible: there are no files here",
		"delete -k .":                                   "--kustomize is not possible",
		"get pods --kubeconfig " + file:                 "--kubeconfig is not possible: the terminal leads to this cluster alone",
		"get pods --server https://evil.example":        "--server is not possible",
		"get pods --token x":                            "--token is not possible",
		"get pods --cache-dir /tmp":                     "--cache-dir is not possible",
		"get pods --profile=cpu":                        "--profile is not possible",
		"get pods -o jsonpath-file=" + file:             "-o jsonpath-file is not possible",
		"get pods -ogo-template-file=" + file:           "-o go-template-file is not possible",
		"get pods -o templatefile --template=" + file:   "-o templatefile is not possible",
		"get pods --output=custom-columns-file=" + file: "-o custom-columns-file is not possible",
		"exec web-1 -it -- sh":                          "nothing can be typed into a command",
		"exec web-1 --stdin -- sh":                      "--stdin is not possible",
		"delete pod web-1 --interactive":                "--interactive is not possible",
		"cluster-info dump --output-directory /tmp/x":   "--output-directory is not possible",
		"get pods --nothing":                            "unknown flag: --nothing (help get has all flags)",
		"auth reconcile -f x":                           "unknown", // there is no such command
	} {
		a.seen = nil
		out := a.run(t.Context(), line, nil)
		if !strings.Contains(out, want) || strings.Contains(out, "hunter2") || len(a.seen) > 0 {
			t.Errorf("%s asked for %v and printed\n%s", line, a.seen, out)
		}
	}
}

// TestRedirects: an API that sends its clients to a service of the server's host is told no.
func TestRedirects(t *testing.T) {
	var reached atomic.Int32
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = io.WriteString(w, "hunter2")
	})
	plain, secured := httptest.NewServer(inside), httptest.NewTLSServer(inside)
	defer plain.Close()
	defer secured.Close()
	for _, elsewhere := range []string{plain.URL, secured.URL, "/api/v1/namespaces/default/pods/web-1"} {
		a := &cluster{t: t, elsewhere: elsewhere}
		for _, line := range []string{"get pod moved", "get --raw /api/v1/namespaces/default/pods/moved", "describe pod moved", "delete pod moved", "logs moved", "exec moved -- id", "exec web-2 -- id"} {
			out := a.run(t.Context(), line, nil)
			if !strings.Contains(out, "answers with a redirect (status 307), which is not followed") || strings.Contains(out, "hunter2") || strings.Contains(out, plain.URL) || reached.Load() > 0 {
				t.Errorf("%s, to %s: it printed\n%s", line, elsewhere, out)
			}
		}
	}
}

func TestOutputThatIsTooLong(t *testing.T) {
	a := &cluster{t: t, endless: strings.Repeat("<b>\x1b[31mtext\x1b[0m</b>\n", 100), gone: make(chan struct{})}
	out := a.run(t.Context(), "logs -f web-1", func(l *kubectl.Line) { l.Output = 10 << 10 })
	if body, why, _ := strings.Cut(out, "\ndrover: "); len(body) != 10<<10 || !strings.Contains(why, "longer than 10 KiB") || strings.Contains(body, "\x1b") {
		t.Errorf("%d bytes, then %q", len(body), why)
	}
	<-a.gone
}

func TestTimeThatIsOver(t *testing.T) {
	a := &cluster{t: t, endless: "line\n", gone: make(chan struct{})}
	out := a.run(t.Context(), "logs -f web-1", func(l *kubectl.Line) { l.Time = 3 * time.Second })
	if !strings.HasPrefix(out, "line\n") || !strings.HasSuffix(out, "\ndrover: it was stopped after 3s, as long as a command may take\n") {
		t.Errorf("%.100q … %.100q", out, out[max(0, len(out)-100):])
	}
	<-a.gone
}

// TestSomebodyWhoLeaves takes the process along.
func TestSomebodyWhoLeaves(t *testing.T) {
	a := &cluster{t: t, endless: "line\n", gone: make(chan struct{})}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		for len(children(t)) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		status := children(t)[0]
		for !strings.Contains(a.asked(), "/log") {
			time.Sleep(5 * time.Millisecond)
		}
		if os.Geteuid() == 0 {
			apart(t, status)
		}
		leave()
	}()
	a.run(ctx, "logs -f web-1", nil)
	<-a.gone
	if left := children(t); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}

// apart says what a process shares with this one that it should not. Only root may look.
func apart(t *testing.T, status string) {
	t.Helper()
	_, rest, _ := strings.Cut(status, "\nPid:\t")
	pid, _, _ := strings.Cut(rest, "\n")
	for _, line := range []string{"Uid:\t65533\t65533\t65533\t65533\n", "Gid:\t65533\t65533\t65533\t65533\n", "Groups:\t \n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
		if !strings.Contains(status, line) {
			t.Errorf("%q is not in\n%s", line, status)
		}
	}
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*/status")
	if err != nil || len(tasks) < 2 {
		t.Errorf("its threads: %v, %v", tasks, err)
	}
	for _, task := range tasks {
		if text, err := os.ReadFile(task); err == nil && !strings.Contains(string(text), "NoNewPrivs:\t1\n") {
			t.Errorf("%s may get new privileges", task)
		}
	}
	for _, kind := range []string{"net", "ipc", "uts"} {
		ours, err := os.Readlink("/proc/self/ns/" + kind)
		theirs, errTheirs := os.Readlink("/proc/" + pid + "/ns/" + kind)
		if err != nil || errTheirs != nil || ours == theirs {
			t.Errorf("namespace %s: %s and %s, %v, %v", kind, ours, theirs, err, errTheirs)
		}
	}
	devices, err := os.ReadFile("/proc/" + pid + "/net/dev")
	if lines := strings.Split(strings.TrimSpace(string(devices)), "\n"); err != nil || len(lines) != 3 || !strings.HasPrefix(strings.TrimSpace(lines[2]), "lo:") {
		t.Errorf("its network: %s, %v", devices, err)
	}
}

func (a *cluster) asked() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.seen, "\n")
}

// children are the states of the processes that this one has started as kubectl, with their arguments and environment.
func children(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range found {
		status, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || !strings.HasPrefix(string(line), kubectl.Program) {
			continue
		}
		if string(line) != kubectl.Program+"\x00" {
			t.Errorf("its arguments are %q", line)
		}
		environ, err := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if err == nil && string(environ) != "GOMEMLIMIT=256MiB\x00" {
			t.Errorf("its environment is %q", environ)
		}
		all = append(all, string(status))
	}
	return all
}
