package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a component may take to stop before it is killed; etcd and the others survive that.
const stopGrace = 5 * time.Second

// process is a running component.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // why it ended; read only after done
}

// startProcess starts the binary under the component's name. The kernel kills the child when this process dies, of
// whatever cause: no component outlives the server.
func startProcess(executable string, c component, environ []string) (*process, error) {
	cmd := exec.Command(executable)
	cmd.Args = append([]string{c.name}, c.args...)
	cmd.Env = append(childEnviron(environ), c.env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &process{name: c.name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal follows the thread that forked, so this goroutine keeps it until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return p, nil
}

// stop ends the process and waits for it.
func (p *process) stop(log *slog.Logger) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		log.Warn("cannot signal the component", "component", p.name, "error", err)
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
		log.Warn("component did not stop in time and is killed", "component", p.name)
	}
	_ = p.cmd.Process.Kill() // it may just have ended
	<-p.done
}

// childEnviron is the environment without what is meant for the server alone: the service manager's variables and the
// secrets. A small heap target trades some of the processor for much of the memory.
func childEnviron(environ []string) []string {
	own := []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "K3S_TOKEN", "K3S_AGENT_TOKEN", "TMPDIR"}
	out := []string{"GOGC=40"}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if name == "GOGC" {
			out = out[1:]
		}
		if !slices.Contains(own, name) {
			out = append(out, e)
		}
	}
	return out
}
