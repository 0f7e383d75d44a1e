package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// screen is what a command printed so far.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// realAgent is drover's own agent on this host, with its configuration in a directory.
type realAgent struct {
	*live
	binary, dir string
}

func (l *live) realAgent(host *agent) *realAgent {
	l.Helper()
	if os.Geteuid() != 0 {
		l.Skip("the agent runs as root only")
	}
	a := &realAgent{live: l, dir: l.TempDir()}
	a.binary = filepath.Join(a.dir, "rancher-system-agent")
	build := exec.CommandContext(l.Context(), "go", "build", "-o", a.binary, "github.com/drover-project/drover/cmd/rancher-system-agent")
	if out, err := build.CombinedOutput(); err != nil {
		l.Fatalf("%v\n%s", err, out)
	}
	plansDir := filepath.Join(a.dir, "plans")
	config := fmt.Sprintf("workDirectory: %[1]s/work\nremoteEnabled: true\nconnectionInfoFile: %[1]s/connection.json\nlocalEnabled: true\nlocalPlanDirectory: %[2]s\n", a.dir, plansDir)
	// The server's own plan would change this machine, and a new one may come at any time. This
	// agent asks for a Secret that is not its own, so that it has the tunnel alone.
	var connection map[string]string
	if err := json.Unmarshal([]byte(host.connection), &connection); err != nil {
		l.Fatal(err)
	}
	connection["secretName"] = "of-nobody"
	withoutPlan, err := json.Marshal(connection)
	if err != nil {
		l.Fatal(err)
	}
	for path, text := range map[string]string{"config.yaml": config, "connection.json": string(withoutPlan)} {
		if err := os.WriteFile(filepath.Join(a.dir, path), []byte(text), 0o600); err != nil {
			l.Fatal(err)
		}
	}
	if err := os.Mkdir(plansDir, 0o700); err != nil {
		l.Fatal(err)
	}
	return a
}

// start runs the agent until stop, which kills it.
func (a *realAgent) start() (stop func()) {
	a.Helper()
	cmd := exec.Command(a.binary, "sentinel")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CATTLE_AGENT_CONFIG=" + a.dir + "/config.yaml", "RANCHER_SYSTEM_AGENT_STATUS_SOCKET=" + a.dir + "/run/status.sock"}
	var log screen
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			if a.Failed() {
				a.Logf("the agent's log:\n%s", log.String())
			}
		})
	}
	a.Cleanup(stop)
	return stop
}

// TestMachinesOutput follows what an instruction on a host prints, through the tunnel, while
// the agent is killed and started again.
func TestMachinesOutput(t *testing.T) {
	l := startLive(t)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	text := `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.drover("apply", "-f", file)
	host := l.register("harbour")
	name := strings.TrimSuffix(host.path[strings.LastIndex(host.path, "/")+1:], "-machine-plan")
	if err := l.fails("machines", "output", name); !strings.Contains(err, "no tunnel from") {
		t.Errorf("without an agent: %s", err)
	}

	a := l.realAgent(host)
	gate := filepath.Join(a.dir, "gate")
	plan := fmt.Sprintf(`{"instructions":[{"name":"slow","command":"sh","args":["-c","echo one; echo two >&2; gate=%s; while test -d ${gate%%/*} && ! test -e $gate; do sleep 0.05; done; echo three"]}]}`, gate)
	if err := os.WriteFile(filepath.Join(a.dir, "plans", "x.plan"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := a.start()
	l.await("the output", func() bool {
		var out bytes.Buffer
		code := l.run(l.Context(), &out, &out, "machines", "output", name)
		return code == 0 && strings.Contains(out.String(), "slow[stdout]: one\n") && strings.Contains(out.String(), "slow[stderr]: two\n")
	})

	var out, errs screen
	ended := make(chan int)
	go func() {
		ended <- l.run(l.Context(), &out, &errs, "machines", "output", name, "-f", "--instruction", "slow")
	}()
	l.await("what there is", func() bool { return strings.Count(out.String(), "\n") >= 3 })
	stop()
	l.await("the loss to be reported", func() bool { return errs.String() != "" })
	stop = a.start()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d: %s", code, errs.String())
	}
	for _, line := range []string{"slow[stdout]: one\n", "slow[stderr]: two\n", "slow[stdout]: three\n", "instruction slow ended well\n"} {
		if n := strings.Count(out.String(), line); n != 1 {
			t.Errorf("%q is there %d times in\n%s", line, n, out.String())
		}
	}
	stop()
	a.start()
	a.outputAfterRestart(name)
	if err := l.fails("machines", "output", "none"); !strings.Contains(err, "there is no machine") {
		t.Errorf("of no machine: %s", err)
	}
}

// outputAfterRestart asks an agent that has done nothing since it started.
func (a *realAgent) outputAfterRestart(name string) {
	a.Helper()
	var out, errs bytes.Buffer
	// The tunnel may open between the two requests of the command, of which the first is about this.
	a.await("the agent to be back and to say why there is no more", func() bool {
		out.Reset()
		errs.Reset()
		return a.run(a.Context(), &out, &errs, "machines", "output", name) == 0 && errs.Len() > 0
	})
	for _, line := range []string{"slow[stdout]: one\n", "slow[stderr]: two\n", "slow[stdout]: three\n", "instruction slow ended well\n"} {
		if strings.Count(out.String(), line) != 1 {
			a.Errorf("after a restart %q is missing in\n%s", line, out.String())
		}
	}
	for _, text := range []string{"no instruction runs", "last applied: plan ", " succeeded at ", "before this start of the agent", "journalctl -u rancher-system-agent DROVER_PLAN=", "drover machines logs " + name} {
		if !strings.Contains(errs.String(), text) {
			a.Errorf("standard error does not have %q:\n%s", text, errs.String())
		}
	}
	errs.Reset()
	if code := a.run(a.Context(), &out, &errs, "machines", "output", name, "--instruction", "none"); code != 0 || !strings.Contains(errs.String(), "keeps no output of instruction none") {
		a.Errorf("of an instruction that is not there: %d %s", code, errs.String())
	}
	ctx, cancel := context.WithCancel(a.Context())
	defer cancel()
	var followed screen
	ended := make(chan int)
	go func() { ended <- a.run(ctx, io.Discard, &followed, "machines", "output", name, "-f") }()
	a.await("what is waited for", func() bool {
		return strings.Contains(followed.String(), "waiting for the next output of any instruction")
	})
	cancel()
	<-ended
}

// run runs a command of the server's own host and returns the exit code.
func (l *live) run(ctx context.Context, out, errs io.Writer, args ...string) int {
	environ := func(name string) string { return map[string]string{"DROVER_DATA_DIR": l.dir, "HOME": l.dir}[name] }
	return Main(ctx, args, Streams{In: strings.NewReader(""), Out: out, Err: errs}, environ, nil)
}

// fails runs a command that has to fail, and returns what it says.
func (l *live) fails(args ...string) string {
	l.Helper()
	var out, errs bytes.Buffer
	if code := l.run(l.Context(), &out, &errs, args...); code == 0 {
		l.Errorf("drover %v succeeded: %s", args, out.String())
	}
	return errs.String()
}
