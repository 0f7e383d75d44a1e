package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/test/skips"
	"github.com/drover-project/drover/tunnel"
)

const patience = 2 * time.Minute

// process is a running agent.
type process struct {
	*exec.Cmd
	out    *output
	notes  *net.UnixConn
	ended  chan struct{}
	status error
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// maxOutput bounds what a test keeps of a log, as some make the agent say much.
const maxOutput = 32 << 20

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b.Len() > maxOutput {
		return len(p), nil
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func sentinelOf(t *testing.T, config string, env ...string) *process {
	t.Helper()
	return sentinelOn(t, nil, config, env...)
}

// socketOf is where an agent with that configuration answers.
func socketOf(config string) string { return filepath.Join(filepath.Dir(config), "run", "status.sock") }

// sentinelOn starts an agent with that standard output; with nil its log is kept.
func sentinelOn(t *testing.T, stdout *os.File, config string, env ...string) *process {
	t.Helper()
	if os.Geteuid() != 0 {
		skips.Skip(t, "the agent runs as root only")
	}
	socket := filepath.Join(t.TempDir(), "notify")
	notes, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(binary, "sentinel"), out: &output{}, notes: notes, ended: make(chan struct{})}
	p.Env = append([]string{"PATH=" + os.Getenv("PATH"), "CATTLE_AGENT_CONFIG=" + config, "NOTIFY_SOCKET=" + socket, "CATTLE_LOGLEVEL=debug", statusSocketEnv + "=" + socketOf(config)}, env...)
	p.Stdout, p.Stderr = p.out, p.out
	if stdout != nil {
		p.Stdout = stdout
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.status = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.end()
		notes.Close()
		if t.Failed() {
			t.Logf("the agent's log:\n%s", p.out)
		}
	})
	return p
}

// wantNote reads what systemd is sent until something begins with a text and holds another.
func (p *process) wantNote(t *testing.T, begin, hold string) {
	t.Helper()
	p.notes.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 4096)
	for {
		n, err := p.notes.Read(b)
		if err != nil {
			t.Fatalf("no %s with %q: %v", begin, hold, err)
		}
		if s := string(b[:n]); strings.HasPrefix(s, begin) && strings.Contains(s, hold) {
			return
		}
	}
}

// end stops an agent as systemd does. One that is only killed leaves its periodic instructions
// to the kernel, which ends the shell and not what the shell began; that would go on for a
// moment, in a directory that the test removes.
func (p *process) end() {
	_ = p.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.Process.Kill()
		<-p.ended
	}
}

func (p *process) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	began := time.Now()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the agent does not stop")
	}
	if d := time.Since(began); d > 20*time.Second { // systemd would wait for longer
		t.Errorf("it took %v to stop", d)
	}
}

func (p *process) resident(t *testing.T) (kib int) { return p.memory(t, "VmRSS") }

// peak is the most that was ever resident.
func (p *process) peak(t *testing.T) (kib int) { return p.memory(t, "VmHWM") }

func (p *process) memory(t *testing.T, what string) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			kib, err = strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not true: %s", what)
		}
	}
}

func TestLife(t *testing.T) {
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	p := sentinelOf(t, config, "WATCHDOG_USEC=600000")
	p.wantNote(t, "READY=1", "")
	p.wantNote(t, "WATCHDOG=1", "")

	conf, record := filepath.Join(dir, "made"), filepath.Join(dir, "record")
	m.deliver(fmt.Sprintf(`{"files":[{"path":%q,"content":"aGVsbG8="}],"instructions":[{"name":"i","command":"sh","args":["-c","echo ran >> %s"]}]}`, conf, record))
	waitUntil(t, "the plan is applied", func() bool { return m.value("plan-state") == "succeeded" })
	if b, err := os.ReadFile(conf); string(b) != "hello" {
		t.Errorf("file %q, %v", b, err)
	}
	p.wantNote(t, "STATUS=", "is applied")

	t.Run("a plan in the directory", func(t *testing.T) {
		dropped := filepath.Join(dir, "dropped")
		plan := fmt.Sprintf(`{"files":[{"path":%q,"content":"aGVsbG8="}]}`, dropped)
		waitUntil(t, "the directory is there", func() bool { _, err := os.Stat(filepath.Join(dir, "plans")); return err == nil })
		if err := os.WriteFile(filepath.Join(dir, "plans", "x.plan"), []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "it is applied", func() bool { _, err := os.Stat(dropped); return err == nil })
	})
	t.Run("the tunnel", func(t *testing.T) {
		waitUntil(t, "it is open", func() bool { _, ok := m.tunnels.Connected("m1"); return ok })
		client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return m.tunnels.Dial(ctx, "m1", tunnel.Target{Network: network, Address: address})
		}}}
		defer client.CloseIdleConnections()
		answer, err := client.Get("http://drover-agent/v1/kubeconfig?runtime=elsewhere")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if b, _ := io.ReadAll(answer.Body); answer.StatusCode != 400 {
			t.Errorf("%d %s", answer.StatusCode, b)
		}
		// The tunnel's protocol may lose the refusal's words on their way, never the refusal.
		if answer, err := client.Get("http://127.0.0.1:22/"); err == nil {
			t.Errorf("%v; want the host's refusal", answer)
		}
	})
	t.Run("health", func(t *testing.T) {
		waitUntil(t, "the agent has said that it reached its server", func() bool { return health(t, dir).Connected })
		boot, err := selfupdate.BootID()
		if h := health(t, dir); err != nil || h != (selfupdate.Health{PID: p.Process.Pid, Boot: boot, Version: "v9.9.9-test", Remote: true, Connected: true}) {
			t.Errorf("health %+v, %v", h, err)
		}
	})
	t.Run("memory", func(t *testing.T) {
		kib := p.resident(t)
		t.Logf("%.1f MiB resident while watching, with the tunnel open, of %d allowed", float64(kib)/1024, maxResident>>20)
		if kib > maxResident>>10 {
			t.Errorf("%d KiB are resident", kib)
		}
	})
	p.stop(t, syscall.SIGTERM)
	if p.status != nil {
		t.Errorf("ended with %v", p.status)
	}
	if strings.Contains(p.out.String(), "machine-token") {
		t.Error("the token is in the log")
	}
}

// health is what the agent of a directory says of itself.
func health(t *testing.T, dir string) (h selfupdate.Health) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "update", "health.json"))
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// An update that was taken back is reported as long as no other one succeeded.
func TestReportsAnUpdateThatWasTakenBack(t *testing.T) {
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "update"), 0o700); err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(dir, "update", "last.json")
	if err := os.WriteFile(last, []byte(`{"oldVersion":"v1","newVersion":"v2","reason":"it ended 3 times in a row"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := sentinelOf(t, config)
	p.wantNote(t, "STATUS=", "the update from v1 to v2 was taken back")
	waitUntil(t, "the log mentions it", func() bool { return strings.Contains(p.out.String(), "it ended 3 times in a row") })
	p.stop(t, syscall.SIGTERM)
}

func TestStoppedInTheMiddle(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			m := newManagement(t)
			dir := t.TempDir()
			config := m.install(t, dir)
			record, gate := filepath.Join(dir, "record"), filepath.Join(dir, "gate")
			m.deliver(fmt.Sprintf(`{"instructions":[{"name":"i","command":"sh","args":["-c","echo ran >> %s; gate=%s; while test -d ${gate%%/*} && ! test -e $gate; do sleep 0.05; done"]}]}`, record, gate))
			p := sentinelOf(t, config)
			ran := func() int { b, _ := os.ReadFile(record); return strings.Count(string(b), "ran") }
			waitUntil(t, "the instruction runs", func() bool { return ran() == 1 })
			p.stop(t, signal)
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			sentinelOf(t, config)
			waitUntil(t, "the plan is applied", func() bool { return m.value("plan-state") == "succeeded" })
			if n := ran(); n != 1 {
				t.Errorf("ran %d times", n)
			}
		})
	}
}

func TestStopsThoughSystemdDoesNotRead(t *testing.T) {
	m := newManagement(t)
	p := sentinelOf(t, m.install(t, t.TempDir()), "WATCHDOG_USEC=6000")
	waitUntil(t, "systemd's socket is full", func() bool { return strings.Contains(p.out.String(), "systemd cannot be notified") })
	p.stop(t, syscall.SIGTERM)
}

func TestStartsWithoutItsServer(t *testing.T) {
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	m.Close()
	p := sentinelOf(t, config, "JOURNAL_STREAM=1:2")
	p.wantNote(t, "READY=1", "")
	p.wantNote(t, "STATUS=", "connection refused")
	if h := health(t, dir); h.PID != p.Process.Pid || !h.Remote || h.Connected {
		t.Errorf("health %+v", h)
	}
	p.stop(t, syscall.SIGTERM)
	if !strings.Contains(p.out.String(), "\n<4>level=WARN") {
		t.Error("warnings have no priority for the journal")
	}
}
