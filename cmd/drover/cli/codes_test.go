package cli

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// against is the command line beside a server of a test.
type against struct {
	*testing.T
	url, ca string
}

func playServer(t *testing.T, routes map[string]http.HandlerFunc) against {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, answer := range routes {
		mux.HandleFunc(pattern, answer)
	}
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return against{t, server.URL, ca}
}

// run runs a command with a token.
func (a against) run(ctx context.Context, args ...string) (code int, out, errs string) {
	a.Helper()
	var stdout, stderr strings.Builder
	home := a.TempDir()
	environ := func(name string) string {
		return map[string]string{"DROVER_SERVER": a.url, "DROVER_TOKEN": "t", "DROVER_CA_FILE": a.ca, "HOME": home}[name]
	}
	code = Main(ctx, args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, environ, nil)
	return code, stdout.String(), stderr.String()
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

func refuses(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","status":%d,"code":"X","message":"the server says %d"}`, status, status)
	}
}

const onePier = `{"data":[{"id":"fleet-default/pier","name":"pier","clusterName":"harbour","state":"Active"}]}`

// TestExitCodes are those of docs/reference/cli.md.
func TestExitCodes(t *testing.T) {
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "docker"), []byte("#!/bin/sh\nexit 57\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	good := map[string]http.HandlerFunc{
		"GET /v1-drover/machines":                         says(onePier),
		"GET /v1-drover/machines/fleet-default/pier/dial": says(""),
		"GET /v1-drover/clusters":                         says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour","distribution":"k3s"}]}`),
	}
	for _, test := range []struct {
		command string
		status  int // that the server refuses everything with; 0: it does not
		code    int
		says    string
	}{
		{"machines ls", 0, 0, ""},
		{"version", 0, 0, ""},
		{"clusters ls", 500, 1, "the server says 500"},
		{"apply -f /nonexistent.yaml", 0, 1, "no such file"},
		{"nothing", 0, 2, "unknown command"},
		{"machines ls --nonsense", 0, 2, "--nonsense"},
		{"machines show", 0, 2, "needs NAME"},
		{"machines show a b", 0, 2, "one more"},
		{"machines ls -o xml", 0, 2, "the formats are table, wide, json"},
		{"machines rm pier", 0, 2, "say --yes"},
		{"machines logs pier", 0, 2, "whose log?"},
		{"clusters rm harbour", 0, 2, "say --yes"},
		{"clusters join-command harbour", 0, 2, "which roles"},
		{"apply", 0, 2, "which clusters?"},
		{"server --listen nonsense", 0, 2, "is not an address"},
		{"server --listen 127.0.0.1:0 --log-level loud", 0, 2, "none of debug"},
		{"server --listen 127.0.0.1:0 --tls-cert x", 0, 2, "go together"},
		{"machines ls", 401, 3, "the server says 401"},
		{"machines ls", 403, 3, "the server says 403"},
		{"settings get nothing", 404, 4, "the server says 404"},
		{"machines show nobody", 0, 4, `there is no machine "nobody"`},
		{"clusters show nobody", 0, 4, `there is no cluster "nobody"`},
		{"machines docker pier -- ps", 0, 57, ""},
	} {
		t.Run(fmt.Sprintf("%s %d", test.command, test.status), func(t *testing.T) {
			routes := good
			if test.status != 0 {
				routes = map[string]http.HandlerFunc{"/": refuses(test.status)}
			}
			code, out, errs := playServer(t, routes).run(t.Context(), strings.Fields(test.command)...)
			if code != test.code || !strings.Contains(errs, test.says) {
				t.Errorf("%d, want %d: %s%s", code, test.code, out, errs)
			}
			if (test.says == "") != (errs == "") || errs != "" && !strings.HasPrefix(errs, "error: ") {
				t.Errorf("standard error has %q", errs)
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		a := playServer(t, nil)
		a.url = "https://127.0.0.1:1"
		if code, _, errs := a.run(t.Context(), "machines", "ls"); code != 1 || errs == "" {
			t.Errorf("%d: %s", code, errs)
		}
	})
	t.Run("no context", func(t *testing.T) {
		home := t.TempDir()
		environ := func(name string) string { return map[string]string{"HOME": home}[name] }
		var out, errs strings.Builder
		code := Main(t.Context(), []string{"machines", "ls", "--context", "NOSUCH"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, environ, nil)
		if code != 4 || !strings.Contains(errs.String(), `there is no context "NOSUCH"`) {
			t.Errorf("%d: %s", code, errs.String())
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		a := playServer(t, map[string]http.HandlerFunc{"/": func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // an answer could still be read by the client that has gone
		}})
		if code, _, errs := a.run(ctx, "machines", "ls"); code != 130 || errs != "" {
			t.Errorf("%d: %s", code, errs)
		}
	})
}

// TestLogsOfAUnitThatIsNotThere: journalctl has no error for it.
func TestLogsOfAUnitThatIsNotThere(t *testing.T) {
	for _, test := range []struct {
		name, answer, out, errs string
		code                    int
	}{
		{"as journalctl says it", "-- No entries --\n", "", "error: there is no log of nosuch on pier: it does not exist there, or never wrote anything\n", 4},
		{"nothing", "", "", "error: there is no log of nosuch on pier: it does not exist there, or never wrote anything\n", 4},
		{"a short log", "x\n", "x\n", "", 0},
		{"a log that begins like it", "-- No entries yet\nbut this\n", "-- No entries yet\nbut this\n", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := playServer(t, map[string]http.HandlerFunc{
				"GET /v1-drover/machines": says(onePier),
				"GET /v1-drover/machines/fleet-default/pier/logs": func(w http.ResponseWriter, r *http.Request) {
					if got := r.URL.RawQuery; got != "tail=200&unit=nosuch" {
						t.Errorf("asked for %s", got)
					}
					io.WriteString(w, test.answer)
				},
			})
			code, out, errs := a.run(t.Context(), "machines", "logs", "pier", "--unit", "nosuch")
			if code != test.code || out != test.out || errs != test.errs {
				t.Errorf("%d\n%s%s", code, out, errs)
			}
		})
	}
}

// TestApplyWaits for the cluster: what happens meanwhile is what TestFollowUntil shows.
func TestApplyWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte("kind: Cluster\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		happens func(*fleet)
		timeout string
		code    int
		errs    string // the end
	}{
		{name: "it is active", timeout: "1m", happens: func(f *fleet) { f.now.Store(as(fleetCluster, "active", "")) }},
		{name: "it becomes active", timeout: "1m", happens: func(f *fleet) {
			go func() {
				f.tell(f.clusters, as(fleetCluster, "updating", "almost")) // it is followed now
				f.now.Store(as(fleetCluster, "active", ""))
				f.tell(f.clusters, as(fleetCluster, "active", ""))
			}()
		}, errs: "cluster harbour  active\n"},
		{name: "it does not", timeout: "1500ms", code: 1, errs: "error: wait for cluster harbour: timed out after 1.5s; last seen as updating: configuring\n"},
		{name: "somebody removes it", timeout: "1m", code: 1, happens: func(f *fleet) { f.gone.Store(true) }, errs: "error: wait for cluster harbour: it does not exist any more\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, a := newFleet(t)
			if test.happens != nil {
				test.happens(f)
			}
			code, out, errs := a.run(t.Context(), "apply", "-f", file, "--wait", "--timeout", test.timeout)
			if code != test.code || !strings.HasSuffix(errs, test.errs) || test.errs == "" && errs != "" || !strings.Contains(out, "cluster fleet-default/harbour") {
				t.Errorf("%d\n%s%s", code, out, errs)
			}
		})
	}
}

// TestHelpHasTheExitCodes: each of those that the program ends with, in words, and the first steps before them.
func TestHelpHasTheExitCodes(t *testing.T) {
	a := playServer(t, nil)
	code, help, errs := a.run(t.Context(), "--help")
	if code != 0 || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	for _, code := range []int{0, codeFailed, codeUsage, codeDenied, codeAbsent, 130} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^  %d +[a-z]`, code)).MatchString(help) {
			t.Errorf("%d is not in the help:\n%s", code, help)
		}
	}
	for _, step := range []string{"drover login", "drover apply -f", "drover clusters join-command", "drover why"} {
		if !strings.Contains(help, step) {
			t.Errorf("%s is not among the first steps:\n%s", step, help)
		}
	}
}
