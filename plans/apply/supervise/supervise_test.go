package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/test/skips"
)

const limit = 256 << 10

// shell is a command that runs a script.
func shell(t *testing.T, script string) supervise.Command {
	t.Helper()
	return supervise.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Dir: t.TempDir(), OutputLimit: limit,
	}
}

// prepare makes the directory of a command.
func prepare(t *testing.T, c supervise.Command) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "command")
	if err := supervise.Prepare(dir, c); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, dir string) *supervise.Running {
	t.Helper()
	running, err := supervise.Start(supervisor(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if running.Identity.Alive() {
			_ = syscall.Kill(running.Identity.PID, syscall.SIGKILL)
		}
		for !running.Reap() {
			<-time.After(time.Millisecond)
		}
		running.Close()
	})
	return running
}

func wait(t *testing.T, r *supervise.Running, each func(output.Chunk)) supervise.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := r.Wait(ctx, each)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func nothing(output.Chunk) {}

func run(t *testing.T, c supervise.Command) (supervise.Result, string) {
	t.Helper()
	dir := prepare(t, c)
	result := wait(t, start(t, dir), nothing)
	out, err := output.Read(dir, limit, result.Written)
	if err != nil {
		t.Fatal(err)
	}
	return result, string(out)
}

func TestResults(t *testing.T) {
	tests := []struct {
		name   string
		change func(*supervise.Command)
		script string
		code   int
		reason string
		output string
	}{
		{name: "success", script: "echo hi", output: "hi\n"},
		{name: "exit code", script: "echo no >&2; exit 7", code: 7, reason: "exit code 7", output: "no\n"},
		{name: "signal", script: "kill -SEGV $$", code: -1, reason: "ended by signal SIGSEGV"},
		{name: "no such executable", change: func(c *supervise.Command) { c.Path = "/nowhere/x" }, code: -1, reason: "fork/exec /nowhere/x: no such file or directory"},
		{name: "no such directory", change: func(c *supervise.Command) { c.Dir = "/nowhere" }, code: -1, reason: "stat /nowhere: no such file or directory"},
		{name: "time limit", change: func(c *supervise.Command) { c.Timeout = 50 * time.Millisecond }, script: "exec sleep 60", code: -1, reason: "killed after its time limit of 50ms"},
		{name: "time limit, answered with success", change: func(c *supervise.Command) { c.Timeout = 5 * time.Second }, script: "trap 'exit 0' TERM; echo up; sleep 60 & wait", reason: "killed after its time limit of 5s", output: "up\n"},
		{name: "time limit, SIGTERM ignored", change: func(c *supervise.Command) { c.Timeout, c.Grace = 300*time.Millisecond, 10*time.Millisecond }, script: "trap '' TERM; while :; do sleep 60; done", code: -1, reason: "killed after its time limit of 300ms"},
		{name: "both streams, in order", script: "for i in 1 2 3; do echo out$i; sleep 0.02; echo err$i >&2; sleep 0.02; done", output: "out1\nerr1\nout2\nerr2\nout3\nerr3\n"},
		{name: "both streams, at once", script: "echo out; echo err >&2", output: "out\nerr\n"},
		{name: "both streams, at once, the other way round", script: "echo err >&2; echo out", output: "err\nout\n"},
		{name: "no input", script: "cat; echo end", output: "end\n"},
		{name: "the agent's signals are not ignored by the command", script: "kill -TERM $$", code: -1, reason: "ended by signal SIGTERM"},
		{name: "group of its own", script: `[ "$(ps -o pgid= -p $$ | tr -d ' ')" = $$ ] && echo yes`, output: "yes\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := shell(t, test.script)
			if test.change != nil {
				test.change(&c)
			}
			result, out := run(t, c)
			if result.ExitCode != test.code || result.Reason() != test.reason || result.Succeeded() != (test.reason == "") {
				t.Errorf("exit code %d, reason %q, succeeded %v", result.ExitCode, result.Reason(), result.Succeeded())
			}
			if out != test.output {
				t.Errorf("output %q", out)
			}
			if result.Started.IsZero() || result.Ended.Before(result.Started) {
				t.Errorf("times %v %v", result.Started, result.Ended)
			}
		})
	}
}

func TestOutputOfAnySize(t *testing.T) {
	tests := []struct {
		name, script string
		size         int64
	}{
		{"exactly the limit", "head -c 262144 /dev/zero | tr '\\0' a", limit},
		{"one more", "head -c 262145 /dev/zero | tr '\\0' a", limit + 1},
		{"a line longer than a pipe holds", "head -c 1048576 /dev/zero | tr '\\0' b; echo end", 1<<20 + 4},
		{"20 MiB on both", "for i in 1 2 3 4 5 6 7 8 9 10; do head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2; done; echo end", 20<<20 + 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, out := run(t, shell(t, "echo begin; "+test.script))
			if result.Written != test.size+6 || !result.Succeeded() {
				t.Errorf("wrote %d bytes, %s", result.Written, result.Reason())
			}
			marker := fmt.Sprintf("\n[%d bytes cut]\n", test.size+6-limit)
			if len(out) != limit+len(marker) || !strings.Contains(out, marker) {
				t.Errorf("kept %d bytes, want %d and %q", len(out), limit, marker)
			}
			if !strings.HasPrefix(out, "begin\n") {
				t.Errorf("begins with %q", out[:10])
			}
			if strings.Contains(test.script, "echo end") && !strings.HasSuffix(out, "end\n") {
				t.Errorf("ends with %q", out[len(out)-10:])
			}
		})
	}
}

func TestDiskUseIsBounded(t *testing.T) {
	dir := prepare(t, shell(t, "head -c 33554432 /dev/zero"))
	wait(t, start(t, dir), nothing)
	var size int64
	names, err := filepath.Glob(filepath.Join(dir, "output.*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 2*limit {
		t.Errorf("%d bytes on disk for a limit of %d", size, limit)
	}
}

func TestAProcessLeftBehindHoldsNothingUpAndIsNotKilled(t *testing.T) {
	c := shell(t, `(sleep 0.4; echo late; sleep 0.1; echo alive > "$0") & echo done`)
	alive := filepath.Join(t.TempDir(), "alive")
	c.Args = append(c.Args, alive)
	c.Drain = 20 * time.Millisecond
	dir := prepare(t, c)
	running := start(t, dir)
	result := wait(t, running, nothing)
	out, err := output.Read(dir, limit, result.Written)
	if err != nil || string(out) != "done\n" {
		t.Errorf("output %q, %v", out, err)
	}
	if _, err := os.Stat(alive); err == nil {
		t.Fatal("waited for the process that was left behind")
	}
	if running.Reap() {
		t.Error("the supervisor went while somebody still writes to it")
	}
	until(t, "the process left behind survives its own output", func() bool {
		_, err := os.Stat(alive)
		return err == nil
	})
	until(t, "the supervisor ends with it", running.Reap)
}

func TestFollowingWhileItRuns(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c := shell(t, `echo one; echo two >&2; read x < "$0"; echo $x`)
	c.Args = append(c.Args, fifo)
	running := start(t, prepare(t, c))
	var got []string
	result := wait(t, running, func(c output.Chunk) {
		got = append(got, c.Stream.String()+" "+string(c.Data))
		if len(got) == 2 { // seen before the command can end
			if err := os.WriteFile(fifo, []byte("three\n"), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	want := "stdout one\n,stderr two\n,stdout three\n"
	if strings.Join(got, ",") != want || !result.Succeeded() {
		t.Errorf("got %q", got)
	}
}

// TestAnotherProcessAttaches starts the command from a process that is gone by then.
func TestAnotherProcessAttaches(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c := shell(t, `echo begun; read x < "$0"; echo $x; exit 3`)
	c.Args = append(c.Args, fifo)
	dir := prepare(t, c)
	out, err := exec.Command("/proc/self/exe", "start-and-die", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v", out, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	var running *supervise.Running
	until(t, "the supervisor has claimed the command", func() bool {
		_, err := os.Stat(filepath.Join(dir, "claimed"))
		return err == nil
	})
	running, result, err := supervise.Attach(dir, supervise.Identity{})
	if err != nil || result != nil {
		t.Fatalf("result %v, error %v", result, err)
	}
	defer running.Close()
	if running.Identity.PID != pid {
		t.Errorf("attached to %d, started was %d", running.Identity.PID, pid)
	}
	// The signals of an agent that is stopped do not end it.
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		if err := os.WriteFile(fifo, []byte("there\n"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	var got strings.Builder
	r := wait(t, running, func(c output.Chunk) { got.Write(c.Data) })
	if r.ExitCode != 3 || got.String() != "begun\nthere\n" {
		t.Errorf("exit code %d, output %q", r.ExitCode, got.String())
	}
	_, again, err := supervise.Attach(dir, supervise.Identity{})
	if err != nil || again == nil || again.ExitCode != 3 {
		t.Errorf("a later look: %v, %v", again, err)
	}
}

func TestAttachToWhatIsNotRunning(t *testing.T) {
	t.Run("prepared only, and never started afterwards", func(t *testing.T) {
		ran := filepath.Join(t.TempDir(), "ran")
		dir := prepare(t, shell(t, "touch "+ran))
		if _, _, err := supervise.Attach(dir, supervise.Identity{}); !errors.Is(err, supervise.ErrNeverStarted) {
			t.Fatal(err)
		}
		// The supervisor of the earlier life comes too late.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := start(t, dir).Wait(ctx, nothing); !errors.Is(err, supervise.ErrLost) && !errors.Is(err, supervise.ErrNeverStarted) {
			t.Error(err)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Error("it ran")
		}
	})
	t.Run("no directory", func(t *testing.T) {
		if _, _, err := supervise.Attach(filepath.Join(t.TempDir(), "gone"), supervise.Identity{}); !errors.Is(err, supervise.ErrNeverStarted) {
			t.Error(err)
		}
	})
	t.Run("no directory, but the caller remembers a supervisor", func(t *testing.T) {
		id := supervise.Identity{PID: 1 << 22, Start: 1, Boot: "x"}
		if _, _, err := supervise.Attach(filepath.Join(t.TempDir(), "gone"), id); !errors.Is(err, supervise.ErrLost) {
			t.Error(err)
		}
	})
	t.Run("newer schema", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(`{"schema":2}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := supervise.Attach(dir, supervise.Identity{})
		if err == nil || !strings.HasSuffix(err.Error(), "result.json has schema 2, this agent knows 1") {
			t.Error(err)
		}
	})
}

// TestTheSupervisorIsKilled is what the out-of-memory killer or an operator may do.
func TestTheSupervisorIsKilled(t *testing.T) {
	c := shell(t, "sleep 60 & echo up; sleep 60")
	c.Env = append(c.Env, "MARK="+c.Dir)
	dir := prepare(t, c)
	running := start(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := running.Wait(ctx, func(output.Chunk) {
		_ = syscall.Kill(running.Identity.PID, syscall.SIGKILL)
	})
	if !errors.Is(err, supervise.ErrLost) {
		t.Fatal(err)
	}
	if _, _, err := supervise.Attach(dir, running.Identity); !errors.Is(err, supervise.ErrLost) {
		t.Errorf("a later look: %v", err)
	}
	if n := supervise.KillLeftovers(dir, running.Identity, "MARK=other"); n != 0 {
		t.Errorf("killed %d processes of somebody else", n)
	}
	// The shell died with its supervisor; what it had started did not.
	killed := 0
	until(t, "the sleeping processes are found and killed", func() bool {
		killed += supervise.KillLeftovers(dir, running.Identity, "MARK="+c.Dir)
		return killed > 0
	})
	until(t, "nothing is left", func() bool {
		return supervise.KillLeftovers(dir, running.Identity, "MARK="+c.Dir) == 0
	})
}

func TestKill(t *testing.T) {
	c := shell(t, "echo up; sleep 60 & wait")
	c.Grace = time.Second
	dir := prepare(t, c)
	running := start(t, dir)
	result := wait(t, running, func(output.Chunk) {
		if err := running.Kill(); err != nil {
			t.Error(err)
		}
	})
	if result.ExitCode != -1 || !result.Killed || result.Reason() != "killed because the plan was cancelled" {
		t.Errorf("%+v", result)
	}
}

func TestKillBeforeTheStart(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	dir := prepare(t, shell(t, "touch "+ran))
	if err := os.WriteFile(filepath.Join(dir, "kill"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	result := wait(t, start(t, dir), nothing)
	if _, err := os.Stat(ran); err == nil || !result.Killed || result.Reason() != "killed before it started" {
		t.Errorf("%+v", result)
	}
}

func TestCancelledWaitLeavesTheCommandRunning(t *testing.T) {
	dir := prepare(t, shell(t, "echo up; sleep 0.3; echo end"))
	running := start(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := running.Wait(ctx, func(output.Chunk) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if !running.Identity.Alive() {
		t.Fatal("the supervisor is gone")
	}
	if r := wait(t, running, nothing); !r.Succeeded() {
		t.Error(r.Reason())
	}
}

func TestSecretsDoNotStayOnDisk(t *testing.T) {
	c := shell(t, "true")
	c.Env = append(c.Env, "TOKEN=hush-hush")
	dir := prepare(t, c)
	info, err := os.Stat(filepath.Join(dir, "command.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	wait(t, start(t, dir), nothing)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(b), "hush-hush") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestAFullDisk fills the file system of a command's directory before it ends.
func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		skips.Skip(t, "mounting needs root")
	}
	mnt := t.TempDir()
	if err := syscall.Mount("tmpfs", mnt, "tmpfs", 0, "size=256k"); err != nil {
		skips.Skipf(t, "no tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mnt, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(mnt, "command")
	c := shell(t, "head -c 500000 /dev/zero; echo end; exit 5")
	if err := supervise.Prepare(dir, c); err != nil {
		t.Fatal(err)
	}
	result := wait(t, start(t, dir), nothing)
	if result.ExitCode != 5 || result.Written != 500004 {
		t.Errorf("%+v", result)
	}
	out, err := output.Read(dir, limit, result.Written)
	if err != nil || !strings.Contains(string(out), "bytes cut]") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
