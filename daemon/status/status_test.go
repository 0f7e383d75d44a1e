package status

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/test/skips"
)

func example() Status {
	now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.Local)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	return Status{
		Version: "v1.2.3", PID: 812, Config: "/etc/config.yaml", Started: before(75 * time.Hour), Now: now,
		Doing: &Work{
			Source: "remote", Plan: "7b1f90c2aaaabbbbcccc", Began: before(3 * time.Minute), Resumed: true, Step: "instruction install",
			Since: before(130 * time.Second), Attempt: 2, Progress: "layer 2 of 5", Remaining: []string{"instruction install (started 2 times)", "instruction join"},
		},
		Last:        &Applied{Source: "x.plan", Plan: "abc", Ended: before(time.Hour), Reason: "instruction i: exit code 4", ExitCode: 4, BeforeStart: true},
		Waiting:     []Wait{{Source: "x.plan", For: "another plan", Cause: "one plan at a time is applied", Since: before(time.Minute), Next: "begins when the other one ended"}},
		Faults:      []Fault{{Part: "drop directory", Error: "it is a link", Since: before(time.Second)}},
		Connections: []Connection{{Name: "tunnel", Server: "wss://s", Since: before(90 * time.Minute), Error: "refused", Next: now.Add(12 * time.Second)}, {Name: "plan Secret ns/m", Server: "https://s", Connected: true, Since: before(25 * time.Hour)}},
		Sources:     []Source{{Name: "x.plan", Plan: "abc", State: "failed", Reason: "no\x1b[2J room", Since: before(time.Second), Next: now}},
		Probes:      []Probe{{Source: "remote", Name: "kubelet", Reason: "connection refused", Since: before(time.Minute)}, {Source: "remote", Name: "etcd", Healthy: true, Since: before(time.Minute)}},
		Periodic:    []Periodic{{Source: "remote", Name: "snapshot", LastSuccess: before(time.Hour), Next: now.Add(time.Hour)}, {Source: "remote", Name: "broken", ExitCode: 3, Failures: 2, LastFailure: before(time.Minute), Next: now}},
		PutBack:     []File{{Path: "/etc/x", Time: before(time.Hour)}},
		Failures: []Failure{{Source: "remote", Plan: "7b1f90c2aaaabbbbcccc", Time: before(time.Hour), Instruction: "install", Reason: "instruction install: exit code 3", ExitCode: 3, Output: "one\ntwo\n"},
			{Source: "remote", Time: before(time.Minute), Instruction: "beat", Reason: "periodic instruction beat: exit code 1", ExitCode: 1, Times: 7, BeforeStart: true}},
	}
}

func TestWords(t *testing.T) {
	want := `agent       v1.2.3, process 812, up 3 days
            configured in /etc/config.yaml
doing       plan 7b1f90c2aaaa of remote, gone on with since 13:57:00 (3m00s)
            instruction install, try 2 since 13:57:50 (2m10s)
            layer 2 of 5
remaining   instruction install (started 2 times)
            instruction join
last        plan abc of x.plan FAILED at 13:00:00, before this start of the agent: instruction i: exit code 4
waits       x.plan waits for another plan since 13:59:00 (1m00s): one plan at a time is applied; begins when the other one ended
broken      drop directory does not work since 13:59:59 (1s): it is a link
connections tunnel at wss://s: NOT connected since 12:30:00 (1h30m): refused; tried again in 12s
            plan Secret ns/m at https://s: connected since 2026-11-20 13:00:00 (25h00m)
plans       x.plan, plan abc: failed since 13:59:59 (1s): no·[2J room; tried again now
probes      kubelet of remote: NOT healthy since 13:59:00 (1m00s): connection refused
            etcd of remote: healthy since 13:59:00 (1m00s)
periodic    snapshot of remote: succeeded at 13:00:00, runs again in 1h00m
            broken of remote: FAILED with exit code 3 at 13:59:00, 2 times in a row, runs now
put back    /etc/x at 13:00:00, it had been changed
failed      plan 7b1f90c2aaaa of remote at 13:00:00: instruction install: exit code 3
              | one
              | two
            remote at 13:59:00, 7 times like this, before this start of the agent: periodic instruction beat: exit code 1
`
	if d := cmp.Diff(want, example().String()); d != "" {
		t.Error(d)
	}
}

func TestJSONKeepsEverything(t *testing.T) {
	b, err := json.Marshal(example())
	if err != nil {
		t.Fatal(err)
	}
	var again Status
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(example(), again); d != "" {
		t.Error(d)
	}
}

// serve answers at the socket until the test or stop ends.
func serve(t *testing.T, path string) (stop func()) {
	t.Helper()
	socket, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- socket.Serve(ctx, Handler(example, http.NotFoundHandler()), slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "status.sock")
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNoAgent) {
		t.Errorf("without an agent: %v", err)
	}
	stop := serve(t, path)
	got, err := NewClient(path).Status(t.Context())
	if err != nil || got.PID != 812 {
		t.Errorf("%v, %v", got, err)
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	var busy *BusyError
	if _, err := Listen(path); !errors.As(err, &busy) {
		t.Errorf("a second agent: %v", err)
	}
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Errorf("the second agent took the socket: %v", err)
	}
	stop()
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNoAgent) {
		t.Errorf("after the agent: %v", err)
	}
	serve(t, path)()
}

// TestDirectoryThatIsThere: a person who puts the socket into /run or /tmp still has them afterwards.
func TestDirectoryThatIsThere(t *testing.T) {
	for mode, want := range map[os.FileMode]string{0o755: "", 0o777 | os.ModeSticky: "others can write the directory"} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		socket, err := Listen(filepath.Join(dir, "status.sock"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("mode %v: %v", mode, err)
		}
		if err == nil {
			if err := socket.Close(); err != nil {
				t.Error(err)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode() != mode|os.ModeDir {
			t.Errorf("mode %v became %v, %v", mode, info.Mode(), err)
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNoAgent) {
		t.Errorf("a dead agent's socket: %v", err)
	}
	stop := serve(t, path)
	defer stop()
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOnlyRootIsAnswered(t *testing.T) {
	if os.Geteuid() != 0 {
		skips.Skip(t, "needs to be root to become somebody else")
	}
	dir, err := os.MkdirTemp("", "status")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "status.sock")
	stop := serve(t, path)
	defer stop()
	// As if an administrator had loosened the modes: the peer's user still counts.
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	out, err := asNobody(t, path)
	if err != nil || strings.Contains(out, "HTTP/1.1 200") || out != "" {
		t.Errorf("nobody got %q, %v", out, err)
	}
}

func readAll(r io.Reader) string {
	b, _ := io.ReadAll(r) // a connection that is cut gives what came
	return string(b)
}

// TestAnAgentThatEndsWhileItIsAsked: its socket takes a connection as long as any process of it is there, and never answers.
func TestAnAgentThatEndsWhileItIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	asked := make(chan error)
	go func() {
		_, err := NewClient(path).Status(t.Context())
		asked <- err
	}()
	poll := []unix.PollFd{{Fd: int32(waiting.Fd()), Events: unix.POLLIN}}
	for n := 0; n == 0; {
		if n, err = unix.Poll(poll, 1000); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
	waiting.Close()
	listener.SetUnlinkOnClose(false)
	listener.Close()
	if err := <-asked; !errors.Is(err, ErrNoAgent) {
		t.Errorf("got %v, want ErrNoAgent", err)
	}
}
