package cli

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
)

const motd = `files:
- {path: /etc/motd, content: aGVsbG8K, permissions: "0644"}
instructions:
- {name: greet, command: "true"}
`

// refused runs a command that has to fail.
func (l *live) refused(code int, want string, args ...string) {
	l.Helper()
	var out, errs strings.Builder
	environ := func(name string) string { return map[string]string{"DROVER_DATA_DIR": l.dir, "HOME": l.dir}[name] }
	if got := Main(l.Context(), args, Streams{In: strings.NewReader(strings.Replace(motd, "greet", "part", 1)), Out: &out, Err: &errs}, environ, nil); got != code || !strings.Contains(out.String()+errs.String(), want) {
		l.Errorf("drover %v: %d %s%s, want %d and %q", args, got, out.String(), errs.String(), code, want)
	}
}

// TestFleetFromTheCommandLine: a fleet from its first host to its removal, on a whole server.
func TestFleetFromTheCommandLine(t *testing.T) {
	l := startLive(t)
	file := filepath.Join(t.TempDir(), "motd.yaml")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	for name, text := range map[string]string{file: motd, bad: "files:\n- {path: /x, contents: aGVsbG8K}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := l.drover("fleets", "join-command", "edge", "--label", "site=north")
	if !strings.Contains(line, "--no-roles --label 'site=north'") {
		t.Errorf("the join command is %s", line)
	}
	if again := l.drover("fleets", "join-command", "edge", "--label", "site=north"); again != line {
		t.Errorf("asked again it is %s", again)
	}
	rotated := l.drover("fleets", "join-command", "edge", "--label", "site=north", "--rotate")
	if token := regexp.MustCompile(`[0-9a-z]{54}`); rotated == line || token.FindString(rotated) == token.FindString(line) || !token.MatchString(rotated) {
		t.Errorf("rotated it is %s", rotated)
	}
	line = rotated
	host := l.join(line, map[string]string{"X-Cattle-Id": strings.Repeat("b2", 31), "X-Cattle-Node-Name": "edge-1", "X-Cattle-Labels": "site=north"})
	if list := l.drover("fleets", "ls"); !regexp.MustCompile(`edge +f-\w+ +1 `).MatchString(list) {
		t.Errorf("list:\n%s", list)
	}

	l.refused(1, bad+":2: unknown field \"contents\"", "machines", "plan", "edge-1", "-f", bad)
	l.refused(2, "which machines?", "machines", "plan", "-f", file)
	l.refused(4, "no machine of a fleet has label site=south", "machines", "plan", "-l", "site=south", "-f", file)
	l.refused(4, "there is no fleet \"nowhere\"", "machines", "plan", "--fleet", "nowhere", "-f", file)
	preview := l.drover("machines", "plan", "-l", "site=north", "-f", file, "--dry-run")
	if !strings.Contains(preview, "1. host edge-1 (drover-fleets/custom-") || !strings.Contains(preview, "add file /etc/motd") || !strings.Contains(preview, "+hello") || strings.Contains(preview, "the cluster becomes") {
		t.Errorf("preview:\n%s", preview)
	}
	given := l.drover("machines", "plan", "edge-1", "-f", file)
	id := regexp.MustCompile(`op-\w+`).FindString(given)
	l.await("the plan", func() bool {
		data, _ := host.secret()["data"].(map[string]any)
		return data["plan-state"] == "cGVuZGluZw=="
	})
	l.refused(1, id, "machines", "plan", "edge-1", "-f", "-") // another plan
	host.report(func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, 1 })
	host.report(func(o *plans.Outcome) {
		o.State, o.FailureCount = plans.StateFailed, 1
		o.FailedOutput = map[string][]byte{"greet": []byte("no such lamp\n")}
	})
	l.await("the failure", func() bool { return strings.Contains(l.drover("machines", "show", "edge-1"), "no such lamp") })
	l.refused(1, "no such lamp", "why", "edge-1")
	l.refused(1, "plan-failed", "why", "edge")
	l.drover("operations", "retry", id)
	l.await("the next try", func() bool {
		data, _ := host.secret()["data"].(map[string]any)
		return data["plan-state"] == "cGVuZGluZw=="
	})
	host.report(func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, 2 })
	host.report(func(o *plans.Outcome) { o.State = plans.StateSucceeded })
	if out := l.drover("operations", "wait", id); !strings.Contains(out, "succeeded") {
		t.Errorf("wait: %s", out)
	}
	if out := l.drover("machines", "plan", "--fleet", "edge", "-f", file); !strings.Contains(out, "unchanged: 1 machines of fleet edge have plan") {
		t.Errorf("given again: %s", out)
	}
	if out := l.drover("operations", "ls", "--cluster", "edge"); !strings.Contains(out, id) {
		t.Errorf("operations:\n%s", out)
	}
	if out := l.drover("events", "--cluster", "edge"); !strings.Contains(out, "operation "+id) || !strings.Contains(out, "no such lamp") {
		t.Errorf("events:\n%s", out)
	}

	l.refused(1, "fleet edge has 1 machines", "fleets", "rm", "edge", "--yes")
	l.refused(2, "it is forgotten, and its host keeps", "machines", "rm", "edge-1")
	l.refused(1, "rancher-system-agent-uninstall.sh on its host", "machines", "rm", "edge-1", "--yes", "--agent")
	l.drover("machines", "rm", "edge-1", "--yes")
	l.await("the machine to go", func() bool {
		code, _ := host.request(http.MethodGet, host.path, host.token, nil, nil)
		return code == http.StatusUnauthorized
	})
	l.drover("fleets", "rm", "edge", "--yes")
	l.await("the fleet to go", func() bool { return !strings.Contains(l.drover("fleets", "ls"), "edge") })
}

// TestPlanIsWaitedFor: the exit code is that of the operation, and a machine that failed shows its last output.
func TestPlanIsWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "motd.yaml")
	if err := os.WriteFile(file, []byte(motd), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		result   = `{"fleet":"edge","action":"given","plan":"0123456789ab","machines":["custom-1"],"operation":"op-1"}`
		running  = `{"id":"op-1","kind":"plan","cluster":"drover-fleets/edge","state":"running","total":1,"tasks":[{"id":"custom-1","host":"edge-1","state":"running"}],"log":[]}` + "\n"
		aborted  = `{"id":"op-1","kind":"plan","cluster":"drover-fleets/edge","state":"aborted","total":1,"tasks":[{"id":"custom-1","host":"edge-1","state":"failed"}],"log":[{"text":"aborted"}]}` + "\n"
		finished = `{"id":"op-1","kind":"plan","cluster":"drover-fleets/edge","state":"succeeded","done":1,"total":1,"tasks":[{"id":"custom-1","host":"edge-1","state":"succeeded"}],"log":[{"text":"succeeded"}]}` + "\n"
		machine  = `{"id":"drover-fleets/custom-1","name":"custom-1","fleet":true,"state":"Error","lastFailure":{"checksum":"0123456789abcdef","instruction":"greet","output":"no such lamp\n"}}`
		output   = `{"kind":"began","source":"remote","id":"1","instruction":0,"attempt":1,"name":"greet","plan":"0123456789abcdef"}` + "\n" +
			`{"kind":"output","source":"remote","id":"1","instruction":0,"attempt":1,"name":"greet","stream":"stdout","data":"aGVsbG8K"}` + "\n"
		other = `{"kind":"began","source":"remote","id":"0","instruction":0,"attempt":1,"name":"old","plan":"ffff"}` + "\n" +
			`{"kind":"output","source":"remote","id":"0","instruction":0,"attempt":1,"name":"old","stream":"stdout","data":"b2xkCg=="}` + "\n"
	)
	for name, c := range map[string]struct {
		end  string
		code int
		want []string
	}{
		"it succeeds":   {finished, 0, []string{"edge-1 | greet[stdout]: hello", "succeeded"}},
		"it is aborted": {aborted, 1, []string{"edge-1 | greet[stdout]: hello", "no such lamp", "operation op-1 is aborted"}},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan struct{})
			a := playServer(t, map[string]http.HandlerFunc{
				"POST /v1-drover/fleets/edge/plan": says(result),
				"GET /v1-drover/operations/op-1": func(w http.ResponseWriter, r *http.Request) {
					says(running)(w, r)
					_ = http.NewResponseController(w).Flush()
					<-heard
					says(c.end)(w, r)
				},
				"GET /v1-drover/machines/drover-fleets/custom-1": says(machine),
				"GET /v1-drover/machines/drover-fleets/custom-1/output": func(w http.ResponseWriter, r *http.Request) {
					says(other+output)(w, r)
					_ = http.NewResponseController(w).Flush()
					close(heard)
					<-r.Context().Done()
				},
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			code, out, errs := a.run(ctx, "machines", "plan", "--fleet", "edge", "-f", file, "--wait")
			for _, want := range c.want {
				if !strings.Contains(out+errs, want) {
					t.Errorf("it does not say %q:\n%s%s", want, out, errs)
				}
			}
			if code != c.code || strings.Contains(out, "old") {
				t.Errorf("exit code %d, and it says\n%s%s", code, out, errs)
			}
		})
	}
}
