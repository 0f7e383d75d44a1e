// A temporary directory as the host, this binary as the supervisor and as the agent that dies.

package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/durable"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		if err := agent(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// host is one host and an agent on it.
type host struct {
	t       testing.TB
	dir     string
	options apply.Options

	mu      sync.Mutex
	waits   []apply.Wait
	engines []*apply.Engine
}

func newHost(t testing.TB) *host {
	h := &host{t: t, dir: t.TempDir()}
	for _, dir := range []string{"root", "counts"} {
		if err := os.Mkdir(h.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.options = options(h.dir)
	h.options.Waiting = func(w apply.Wait) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waits = append(h.waits, w)
	}
	return h
}

// settle waits for the end of supervisors that outlived their agent.
func (h *host) settle() {
	h.until("no supervisor is at work", func() bool {
		return !slices.ContainsFunc(h.glob("work", "*", "*.*"), supervise.Alive)
	})
}

// logFile is the variable that names the file an agent process logs to.
const logFile = "DROVER_TEST_LOG"

// quickExit keeps the race detector from waiting a second when a process of a test ends.
const quickExit = "GORACE=atexit_sleep_ms=0"

func supervisor() []string {
	return []string{"/usr/bin/env", quickExit, self(), supervise.Entry}
}

// self is this binary, which may not be called /proc/self/exe where another one runs it.
func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func options(dir string) apply.Options {
	return apply.Options{
		Root: filepath.Join(dir, "root"), WorkDir: filepath.Join(dir, "work"), LedgerDir: filepath.Join(dir, "ledgers"),
		InterlockDir: filepath.Join(dir, "interlock"), AppliedDir: filepath.Join(dir, "applied"), Supervisor: supervisor(),
		Redirects: []apply.Redirect{{Prefix: "/etc/rancher/k3s", Dir: "/var/lib/agent/etc/k3s"}},
		Units:     func(context.Context, string) (string, string, error) { return "active", "running", nil },
		// However slow the machine is; who tests patience has less.
		Limits: apply.Limits{PeriodicPatience: time.Hour},
		Logger: slog.New(slog.DiscardHandler),
	}
}

// tree is every entry below the host's root with its mode and content.
func (h *host) tree() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.options.Root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			text += " " + h.content(name)
		}
		if target, err := os.Readlink(name); err == nil {
			text += " " + target
		}
		all[strings.TrimPrefix(name, h.options.Root)] = text
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

func (h *host) path(elements ...string) string {
	return filepath.Join(append([]string{h.dir}, elements...)...)
}

// root is the real place of a path on the host.
func (h *host) root(name string) string { return filepath.Join(h.options.Root, name) }

func (h *host) engine() *apply.Engine {
	h.t.Helper()
	e, err := apply.New(h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(e.Close)
	h.engines = append(h.engines, e)
	return e
}

// ledger is the JSON of a source's ledger; nil when there is none.
func (h *host) ledger(source string) []byte {
	h.t.Helper()
	b, err := durable.ReadRewritten(filepath.Join(h.options.LedgerDir, source+".json"), 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	return b
}

// apply performs a plan as a new life of the agent does.
func (h *host) apply(p plans.Plan, change ...func(*apply.Delivery)) apply.Result {
	h.t.Helper()
	result, err := h.engine().Apply(h.t.Context(), delivery(h.t, p, change...))
	if err != nil {
		h.t.Fatal(err)
	}
	return result
}

func delivery(t testing.TB, p plans.Plan, change ...func(*apply.Delivery)) apply.Delivery {
	t.Helper()
	b, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := plans.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	d := apply.Delivery{Source: "remote", ID: "uid-1", Checksum: plans.Checksum(b), Plan: parsed, Attempt: 1}
	for _, c := range change {
		c(&d)
	}
	return d
}

func id(id string) func(*apply.Delivery) { return func(d *apply.Delivery) { d.ID = id } }

func (h *host) content(path string) string {
	h.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// counting is an instruction that notes each of its runs and then does something.
func (h *host) counting(name, then string) plans.OneTimeInstruction {
	script := fmt.Sprintf(`echo "$CATTLE_AGENT_ATTEMPT_NUMBER" >> %s; %s`, h.path("counts", name), then)
	return shell(name, script)
}

// runs are the attempt numbers of an instruction's runs.
func (h *host) runs(name string) string {
	b, err := os.ReadFile(h.path("counts", name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

// shell is an instruction that runs a line of shell and saves its output.
func shell(name, script string) plans.OneTimeInstruction {
	return plans.OneTimeInstruction{SaveOutput: true, Instruction: plans.Instruction{Name: name, Command: "sh", Args: []string{"-c", script}}}
}

// file is a file that the user who runs the test may own.
func file(path, content string) plans.File {
	return plans.File{Path: path, Content: plans.EncodeContent([]byte(content)), UID: os.Getuid(), GID: os.Getgid()}
}

// fifo is what an instruction waits on.
func (h *host) fifo(name string) string {
	h.t.Helper()
	path := h.path(name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// standing is a plan of no particular server that is looked after.
func standing(p *plans.Plan) apply.Standing { return apply.Standing{Plan: p} }

func (h *host) waited() []apply.Wait {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]apply.Wait{}, h.waits...)
}

// order is what the agent process of a test has to do.
type order struct {
	Dir    string
	Plan   []byte
	ID     string
	KillAt int // the checkpoint at which it kills itself; 0 never
	Limit  time.Duration
}

// agent is one life of an agent: it applies, and dies at a checkpoint if it is asked to. It
// prints the result and the checkpoints it passed.
func agent(orderFile string) error {
	b, err := os.ReadFile(orderFile)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	p, err := plans.Parse(o.Plan)
	if err != nil {
		return err
	}
	made := options(o.Dir)
	if name := os.Getenv(logFile); name != "" {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		made.Logger = slog.New(slog.NewJSONHandler(f, nil))
	}
	e, err := apply.New(made)
	if err != nil {
		return err
	}
	passed := 0
	e.OnCheckpoint(func(string) {
		if passed++; passed == o.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal is there
		}
	})
	// As a plan of a server comes: claimed while it is made ready for, and reported before it is written down.
	claimed, reported := make(chan bool, 1), make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { claimed <- true })
	close(reported)
	d := apply.Delivery{
		Source: "remote", ID: o.ID, Checksum: plans.Checksum(o.Plan), Plan: p, Attempt: 1,
		Claimed: claimed, Ended: func(apply.Result) <-chan struct{} { return reported },
	}
	r, err := e.Apply(context.Background(), d)
	if err != nil {
		return err
	}
	e.Checkpoint("applied")
	statuses, _ := e.Probes(context.Background(), standing(p), nil, time.Time{})
	e.Checkpoint("probed")
	e.Close()
	return json.NewEncoder(os.Stdout).Encode(life{Result: r, Passed: passed, Probes: statuses})
}

// life is what an agent that did not die says.
type life struct {
	Result apply.Result
	Passed int
	Probes map[string]plans.ProbeStatus
}

// agentCommand is an agent process.
func (h *host) agentCommand(p plans.Plan, killAt int) *exec.Cmd {
	h.t.Helper()
	b, err := p.Marshal()
	if err != nil {
		h.t.Fatal(err)
	}
	o, err := json.Marshal(order{Dir: h.dir, Plan: b, ID: "uid-1", KillAt: killAt})
	if err != nil {
		h.t.Fatal(err)
	}
	path := h.path("order" + strconv.Itoa(killAt))
	if err := os.WriteFile(path, o, 0o600); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(self(), "agent", path)
	cmd.Env = append(os.Environ(), quickExit)
	cmd.Stderr = os.Stderr
	return cmd
}

// live lets an agent live to the end of the apply.
func (h *host) live(p plans.Plan) life {
	h.t.Helper()
	out, err := h.agentCommand(p, 0).Output()
	if err != nil {
		h.t.Fatal(err)
	}
	var l life
	if err := json.Unmarshal(out, &l); err != nil {
		h.t.Fatalf("%q: %v", out, err)
	}
	return l
}

// glob are the paths that match.
func (h *host) glob(elements ...string) []string {
	h.t.Helper()
	names, err := filepath.Glob(h.path(elements...))
	if err != nil {
		h.t.Fatal(err)
	}
	return names
}

// remove removes a directory of the host. The process that watches over an instruction may still be writing there, which makes a removal
// fail halfway.
func (h *host) remove(dir string) {
	h.t.Helper()
	h.until(dir+" is removed", func() bool { return os.RemoveAll(h.path(dir)) == nil })
}

func (h *host) until(what string, done func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("never: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
