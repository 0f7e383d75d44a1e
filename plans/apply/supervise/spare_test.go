package supervise_test

import (
	"context"
	"errors"
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
)

func spare(t *testing.T) *supervise.Spare {
	t.Helper()
	s, err := supervise.StartSpare(supervisor(), filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// take gives a spare a command, whose directory it returns.
func take(t *testing.T, s *supervise.Spare, c supervise.Command) (string, *supervise.Running, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "try")
	if err := s.Expect(dir); err != nil {
		return dir, nil, err
	}
	if err := supervise.Prepare(dir, c); err != nil {
		t.Fatal(err)
	}
	running, err := s.Begin()
	return dir, running, err
}

func TestSpareRunsItsCommand(t *testing.T) {
	s := spare(t)
	dir, running, err := take(t, s, shell(t, "cat; echo out; echo err >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Reap(); running.Close() })
	result := wait(t, running, nothing)
	out, err := output.Read(dir, limit, result.Written)
	if err != nil {
		t.Fatal(err)
	}
	if result.ExitCode != 3 || !strings.Contains(string(out), "out\n") || !strings.Contains(string(out), "err\n") {
		t.Errorf("%+v %q", result, out)
	}
	// The result was announced; a reader that comes later waits for its file.
	again, known, err := supervise.Attach(dir, running.Identity)
	if again != nil {
		found := wait(t, again, nothing)
		known = &found
	}
	if err != nil || known == nil || known.ExitCode != 3 {
		t.Errorf("attach: %v %v %v", again, known, err)
	}
}

// TestSpareBeginsWhenItIsSaid gives a spare its directory before the command is there.
func TestSpareBeginsWhenItIsSaid(t *testing.T) {
	s := spare(t)
	dir := filepath.Join(t.TempDir(), "try")
	ran := filepath.Join(t.TempDir(), "ran")
	if err := s.Expect(dir); err != nil {
		t.Fatal(err)
	}
	if err := supervise.Write(dir, shell(t, "touch "+ran)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Stat(ran); err == nil {
		t.Fatal("the command ran before it was offered")
	}
	if err := supervise.Offer(dir); err != nil {
		t.Fatal(err)
	}
	running, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Reap(); running.Close() })
	if result := wait(t, running, nothing); !result.Succeeded() {
		t.Errorf("%+v", result)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Error(err)
	}
}

// TestSpareThatIsNotSaidToBegin loses the agent between the directory and the word: the
// command did not start, never will, and that is known, whatever else is remembered.
func TestSpareThatIsNotSaidToBegin(t *testing.T) {
	s := spare(t)
	dir := filepath.Join(t.TempDir(), "try")
	if err := s.Expect(dir); err != nil {
		t.Fatal(err)
	}
	if err := supervise.Write(dir, shell(t, "exit 3")); err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	known := supervise.Identity{PID: s.PID()}
	if running, result, err := supervise.Attach(dir, known); !errors.Is(err, supervise.ErrNeverStarted) {
		t.Errorf("attach: %v %v %v", running, result, err)
	}
}

func TestSpareThatIsNotNeededEnds(t *testing.T) {
	ended := make(chan struct{})
	s := spare(t)
	go func() { s.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it still runs")
	}
}

// TestSpareThatDied loses a command to a supervisor that was killed: it did not
// start, and that is known.
func TestSpareThatDied(t *testing.T) {
	s := spare(t)
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, running, err := take(t, s, shell(t, "touch ran"))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if result, err := running.Wait(ctx, nothing); !errors.Is(err, supervise.ErrNeverStarted) {
		t.Errorf("%+v, %v", result, err)
	}
}

func isSpare(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && strings.HasSuffix(string(line), "supervise-instruction\x00-\x00")
}

// TestSpareEndsWithItsAgent starts one from a process that dies at once.
func TestSpareEndsWithItsAgent(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "spare-and-die", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	for isSpare(pid) {
		select {
		case <-deadline:
			t.Fatal("it still runs")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
