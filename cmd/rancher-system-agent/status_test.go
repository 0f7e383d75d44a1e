package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/daemon/outputstream"
	"github.com/drover-project/drover/daemon/status"
)

// agentCommand runs a command of the agent beside the agent of that configuration.
func agentCommand(t *testing.T, config string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CATTLE_AGENT_CONFIG=" + config, statusSocketEnv + "=" + socketOf(config)}
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// waitStatus asks until the status is as wanted.
func waitStatus(t *testing.T, config, what string, ok func(s status.Status) bool) (s status.Status) {
	t.Helper()
	waitUntil(t, what, func() bool {
		out, code := agentCommand(t, config, "status", "-o", "json")
		s = status.Status{}
		return code == 0 && json.Unmarshal([]byte(out), &s) == nil && ok(s)
	})
	return s
}

// TestStatusSaysWhyNoAgentRuns: what keeps it from starting is looked for.
func TestStatusSaysWhyNoAgentRuns(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := "remoteEnabled: true\nconnectionInfoFile: " + dir + "/gone.json\nworkDirectory: " + dir + "/work\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := agentCommand(t, config, "status")
	for _, want := range []string{"no agent runs on this host", "gone.json is missing", "register this host again", "No plan was interrupted"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, said %q, want %q in it", code, out, want)
		}
	}
	cmd := exec.Command(binary, "status", "-o", "json")
	cmd.Env = []string{"CATTLE_AGENT_CONFIG=" + config, statusSocketEnv + "=" + socketOf(config)}
	if b, _ := cmd.Output(); len(b) > 0 { // the exit code is looked at above
		t.Errorf("text where JSON belongs: %q", b)
	}
}

func TestStatus(t *testing.T) {
	m := newManagement(t)
	dir := t.TempDir()
	config, gate := m.install(t, dir), filepath.Join(dir, "gate")
	if out, code := agentCommand(t, config, "status"); code != 1 || !strings.Contains(out, "no agent runs on this host") || !strings.Contains(out, "No plan was interrupted") {
		t.Errorf("without an agent: %d %s", code, out)
	}
	p := sentinelOf(t, config)
	m.deliver(fmt.Sprintf(`{"files":[{"path":"%s/file","content":"aGVsbG8="}],
		"instructions":[{"name":"first","command":"sh","args":["-c","echo one; echo two >&2; gate=%s; while test -d ${gate%%/*} && ! test -e $gate; do sleep 0.05; done; echo three"]},{"name":"second","command":"sh","args":["-c","echo broken; exit 3"]}],
		"probes":{"never":{"httpGet":{"url":"http://127.0.0.1:1/"}}}}`, dir, gate))
	waitStatus(t, config, "the instruction runs", func(s status.Status) bool {
		return s.Doing != nil && s.Doing.Step == "instruction first" && len(s.Doing.Remaining) == 2
	})
	s := waitStatus(t, config, "the connections are open", func(s status.Status) bool {
		return len(s.Connections) == 2 && s.Connections[0].Connected && s.Connections[1].Connected
	})
	if s.PID != p.Process.Pid || s.Connections[0].Server != m.URL || s.Doing.Source != "remote" || s.Doing.Since.IsZero() {
		t.Errorf("%+v", s)
	}
	if out, _ := agentCommand(t, config, "status"); !strings.Contains(out, "instruction first since ") || !strings.Contains(out, "instruction second") {
		t.Errorf("in words:\n%s", out)
	}

	t.Run("a second agent", func(t *testing.T) {
		second := exec.CommandContext(t.Context(), binary, "sentinel")
		second.Env = p.Env
		out, err := second.CombinedOutput()
		if err == nil || !strings.Contains(string(out), fmt.Sprintf("another agent (process %d", p.Process.Pid)) {
			t.Errorf("%v %s", err, out)
		}
	})
	t.Run("killed", func(t *testing.T) {
		p.stop(t, syscall.SIGKILL)
		out, code := agentCommand(t, config, "status")
		if code != 1 || !strings.Contains(out, "was interrupted") || !strings.Contains(out, "instruction first (started once)\n  instruction second") {
			t.Errorf("%d %s", code, out)
		}
	})
	p = sentinelOf(t, config)
	waitStatus(t, config, "the agent goes on", func(s status.Status) bool { return s.Doing != nil && s.Doing.Resumed })

	follower := exec.CommandContext(t.Context(), binary, "status", "-f", "-o", "json")
	follower.Env = p.Env
	var said, errs output
	follower.Stdout, follower.Stderr = &said, &errs
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the output so far", func() bool { return strings.Contains(said.String(), `"output"`) })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = waitStatus(t, config, "the failure", func(s status.Status) bool { return len(s.Failures) == 1 })
	if f := s.Failures[0]; f.Instruction != "second" || f.ExitCode != 3 || f.Output != "broken\n" || s.Doing != nil {
		t.Errorf("%+v", f)
	}
	waitUntil(t, "the failure's output", func() bool { return strings.Contains(said.String(), `"exitCode":3`) })
	if err := follower.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := follower.Wait(); err != nil {
		t.Errorf("following ended with %v: %s", err, errs.String())
	}
	if got := outputOf(t, said.String()); got != "one\ntwo\nthree\nbroken\n" && got != "two\none\nthree\nbroken\n" {
		t.Errorf("followed %q", got)
	}
	waitStatus(t, config, "the probe", func(s status.Status) bool {
		return len(s.Probes) == 0 || strings.Contains(s.Probes[0].Reason, "refused")
	})
	p.stop(t, syscall.SIGTERM)
}

// TestALockedStatusSocketIsTakenLater holds the lock as a process does that was begun by an agent that was killed.
func TestALockedStatusSocketIsTakenLater(t *testing.T) {
	config := newManagement(t).install(t, t.TempDir())
	lock := lockOf(t, socketOf(config))
	p := sentinelOf(t, config)
	waitUntil(t, "the agent's warning", func() bool { return strings.Contains(p.out.String(), "status cannot be asked for on this host until") })
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, config, "the agent answers", func(s status.Status) bool { return s.PID == p.Process.Pid })
}

// lockOf is the lock of a status socket, held.
func lockOf(t *testing.T, socket string) *os.File {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return lock
}

// outputOf is what followed records printed, after the status before them.
func outputOf(t *testing.T, text string) string {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(text))
	var s status.Status
	if err := in.Decode(&s); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for in.More() {
		var r outputstream.Record
		if err := in.Decode(&r); err != nil {
			t.Fatal(err)
		}
		b.Write(r.Data)
	}
	return b.String()
}

func TestStatusRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"status -o yaml": `-o "yaml" is neither text nor json`,
		"status -x":      "flag provided but not defined",
		"status here":    "status takes no arguments",
	} {
		if out, code := agentCommand(t, filepath.Join(t.TempDir(), "config.yaml"), strings.Fields(args)...); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
}
