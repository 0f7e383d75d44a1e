// The processes of one life of the server.

package life

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// run is one life of the server.
type run struct {
	t      *testing.T
	cmd    *exec.Cmd
	ready  chan string
	done   chan struct{}
	err    error
	output *lockedBuffer
}

// start starts `k3s server` with a service manager's socket.
func (h *host) start() *run {
	h.t.Helper()
	dir, err := os.MkdirTemp("", "notify") // a socket's path must be short
	if err != nil {
		h.t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		h.t.Fatal(err)
	}
	p := &run{t: h.t, ready: make(chan string, 1), done: make(chan struct{}), output: &lockedBuffer{}}
	p.cmd = exec.Command(h.binary, "server", "--config", filepath.Join(h.dir, "config.yaml"))
	p.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // not to outlive a test that is cut off
	started := make(chan error)
	go func() {
		buf := make([]byte, 256)
		if n, err := conn.Read(buf); err == nil {
			p.ready <- string(buf[:n])
		}
	}()
	go func() {
		runtime.LockOSThread() // the death signal follows the thread
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended unless the test failed
		<-p.done
		conn.Close()
		os.RemoveAll(dir)
		if h.t.Failed() {
			h.t.Logf("the server's output:\n%s", p.output.String())
		}
	})
	return p
}

func (p *run) awaitReady() {
	p.t.Helper()
	select {
	case said := <-p.ready:
		if said != "READY=1" {
			p.t.Fatalf("the service manager was told %q, want READY=1", said)
		}
	case <-p.done:
		p.t.Fatalf("the server ended: %v", p.err)
	case <-time.After(4 * time.Minute):
		p.t.Fatal("the server is not ready after four minutes")
	}
}

func (p *run) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *run) wait() error {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(4 * time.Minute):
		p.t.Fatal("the server did not end within four minutes")
	}
	return p.err
}

func (p *run) mustSay(text string) {
	p.t.Helper()
	if !strings.Contains(p.output.String(), text) {
		p.t.Errorf("the server did not say %q", text)
	}
}

// children are the components by name, with their process ids.
func (p *run) children() map[string]int {
	p.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[string]int{}
	for _, thread := range threads {
		content, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				p.t.Fatal(err)
			}
			cmdline, err := os.ReadFile("/proc/" + field + "/cmdline")
			if err != nil {
				continue
			}
			name, _, _ := bytes.Cut(cmdline, []byte{0})
			out[string(name)] = pid
		}
	}
	return out
}

// awaitGone waits for the end of processes.
func awaitGone(t *testing.T, pids map[string]int) {
	t.Helper()
	for name, pid := range pids {
		await(t, name+" to end", 4*time.Minute, func() error {
			if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
				return nil
			}
			return fmt.Errorf("process %d is still there", pid)
		})
	}
}

// await tries until it works or the time is over.
func await(t *testing.T, what string, limit time.Duration, try func() error) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waited %v for %s: %v", limit, what, err)
		case <-tick.C:
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
