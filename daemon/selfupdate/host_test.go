package selfupdate

// A host for tests: real programs that run as real processes, under a stand-in of systemd that knows
// one service. What the real systemd does is in test/e2e.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// mark stands before what a copy of testdata/agent is to be, at its end.
const mark = "\nbehave as an agent that: "

// agent is the program of testdata/agent. It is small and without the race detector, as hundreds of copies are written and started.
var agent []byte

func TestMain(m *testing.M) { os.Exit(withAgent(m)) }

func withAgent(m *testing.M) int {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "./testdata/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	if agent, err = os.ReadFile(dir + "/agent"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// settledFile says that an agent will do no more than it has done.
func settledFile(dir string, pid int) string { return fmt.Sprintf("%s/settled-%d", dir, pid) }

// program makes an agent of a kind and returns its path and checksum.
func program(t *testing.T, dir, kind string) (path, sum string) {
	t.Helper()
	path = filepath.Join(dir, "agent")
	if err := os.WriteFile(path, slices.Concat(agent, []byte(mark+kind)), 0o755); err != nil {
		t.Fatal(err)
	}
	sum, err := checksum(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, sum
}

// manager is the stand-in of systemd: it keeps the service running, starts it again when it ends,
// and believes it ready when it has written its health.
type manager struct {
	t       *testing.T
	program string
	dir     string

	mu       sync.Mutex
	process  *exec.Cmd
	ended    chan struct{}
	restarts int
	stopped  bool // by hand, and not yet started again
	down     bool // until it is started by hand
	calls    []string
	fails    string // a call that fails
}

func (m *manager) systemctl(_ context.Context, args ...string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	call := strings.Join(args, " ")
	if m.fails != "" && strings.HasPrefix(call, m.fails) {
		return "", errors.New("the manager does not want to")
	}
	switch args[0] {
	case "show":
		return m.show(), nil
	case "restart":
		if strings.HasSuffix(call, WatchService) {
			break
		}
		m.kill()
		m.stopped, m.down = true, false
	case "stop":
		m.kill()
		m.down = true
	case "reset-failed":
		m.restarts = 0
	}
	m.calls = append(m.calls, call)
	return "", nil
}

func (m *manager) start() {
	m.ended = make(chan struct{})
	err := error(syscall.ETXTBSY)
	for errors.Is(err, syscall.ETXTBSY) { // until forks of other tests have closed what was just written
		m.process = exec.Command(m.program, "sentinel", m.dir)
		err = m.process.Start()
	}
	if err != nil { // not a program: systemd would try again and again
		m.process = nil
		return
	}
	go func(p *exec.Cmd, ended chan struct{}) {
		_ = p.Wait() // how it ended is not looked at
		close(ended)
	}(m.process, m.ended)
}

func (m *manager) kill() {
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill() // it may have ended
	<-m.ended
	m.process = nil
}

// show reports an end once and starts what ended at the next look. As systemd does, it counts a
// restart when it starts the process, and then knows no more how the one before it ended. After a
// restart by hand the first look sees what comes between the two, when the old count still stands.
func (m *manager) show() string {
	if m.down {
		return "ActiveState=inactive\nSubState=dead\nMainPID=0\nNRestarts=0\nExecMainCode=1\nExecMainStatus=0\n"
	}
	if m.stopped {
		old := m.restarts
		m.stopped, m.restarts = false, 0
		m.start()
		return fmt.Sprintf("ActiveState=inactive\nSubState=dead\nMainPID=0\nNRestarts=%d\nExecMainCode=1\nExecMainStatus=0\n", old)
	}
	if m.process == nil {
		m.restarts++
		m.start()
	} else {
		select {
		case <-m.ended:
			m.process = nil
		default:
		}
	}
	if m.process == nil {
		return fmt.Sprintf("ActiveState=activating\nSubState=auto-restart\nMainPID=0\nNRestarts=%d\nExecMainCode=1\nExecMainStatus=3\n", m.restarts)
	}
	var h Health
	state := "ActiveState=activating\nSubState=start"
	if ok, err := readRecord(healthFile(m.dir), &h); err == nil && ok && h.PID == m.process.Process.Pid {
		state = "ActiveState=active\nSubState=running"
	}
	return fmt.Sprintf("%s\nMainPID=%d\nNRestarts=%d\nExecMainCode=0\nExecMainStatus=0\n", state, m.process.Process.Pid, m.restarts)
}

// scene is a host on which an old agent runs.
type scene struct {
	*testing.T
	*manager
	update, units, program, config, oldSum string
	uptime                                 float64
	boot                                   string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	root := t.TempDir()
	s := &scene{T: t, update: root + "/update", units: root + "/units", config: root + "/config.yaml"}
	if err := os.Mkdir(root+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	s.program, s.oldSum = program(t, root+"/bin", "is old")
	s.manager = &manager{t: t, program: s.program, dir: s.update}
	var err error
	if s.boot, err = BootID(); err != nil {
		t.Fatal(err)
	}
	s.manager.start()
	t.Cleanup(func() {
		s.manager.mu.Lock()
		defer s.manager.mu.Unlock()
		s.manager.kill()
	})
	s.until("the old agent runs", func() bool {
		var h Health
		ok, err := readRecord(healthFile(s.update), &h)
		return ok && err == nil && h.PID == s.manager.process.Process.Pid
	})
	return s
}

func (s *scene) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(4 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("still not: %s", what)
		}
	}
}

func (s *scene) updater() *Updater {
	return &Updater{
		Program: s.program, Version: "v-is-old", Config: s.config, Dir: s.update, Logger: slog.New(slog.DiscardHandler),
		systemctl: s.manager.systemctl, unitDir: s.units, every: time.Millisecond,
	}
}

// watcher is a judge whose clock runs once there is nothing more to come of the agent, so that no test waits.
func (s *scene) watcher(step func(string) error) *Watcher {
	return &Watcher{
		Dir: s.update, Logger: slog.New(slog.NewTextHandler(s.Output(), nil)), systemctl: s.manager.systemctl, unitDir: s.units,
		every: 10 * time.Millisecond, step: step,
		clock: func() (string, float64, error) {
			if s.settled() {
				s.uptime += 30
			}
			return s.boot, s.uptime, nil
		},
	}
}

func (s *scene) settled() bool {
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	if s.manager.process == nil {
		return false
	}
	_, err := os.Stat(settledFile(s.update, s.manager.process.Process.Pid))
	return err == nil
}

// begin begins an update to an agent of a kind.
func (s *scene) begin(kind string) (id, sum string) {
	s.Helper()
	path, sum := program(s.T, s.TempDir(), kind)
	id, err := s.updater().Begin(s.Context(), Request{From: path, Checksum: sum})
	if err != nil {
		s.Fatal(err)
	}
	return id, sum
}

func (s *scene) installed() string {
	s.Helper()
	sum, err := checksum(s.program)
	if err != nil {
		s.Fatal(err)
	}
	return sum
}
