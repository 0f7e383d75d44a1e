// What the agent does about plans and hosts that it should never meet. Each has to be reported
// at three places: in the status that systemd shows, in the journal, and in the plan
// Secret; and the host has to be as it was, or as the plan wants it.

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/skips"
)

// long is for what takes its time on a machine that is busy with other things.
const long = 5 * time.Minute

// scene is one agent, the server it takes plans from, and what was seen of it.
type scene struct {
	t      *testing.T
	dir    string
	server *management
	config string
	agent  *process

	mu    sync.Mutex
	notes []string
}

// newScene installs an agent below dir, which may be on a disk of its own. start starts it.
func newScene(t *testing.T, dir string) *scene {
	t.Helper()
	if os.Geteuid() != 0 {
		skips.Skip(t, "the agent runs as root only")
	}
	s := &scene{t: t, dir: dir, server: newManagement(t)}
	s.config = s.server.install(t, dir)
	return s
}

func (s *scene) start(env ...string) *scene {
	s.t.Helper()
	s.agent = sentinelOf(s.t, s.config, env...)
	go func(p *process) {
		b := make([]byte, 4096)
		for {
			n, err := p.notes.Read(b)
			if err != nil {
				return // the test is over
			}
			if line, ok := strings.CutPrefix(string(b[:n]), "STATUS="); ok {
				s.mu.Lock()
				s.notes = append(s.notes, line)
				s.mu.Unlock()
			}
		}
	}(s.agent)
	return s
}

func (s *scene) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

// said says whether the status line ever held a text.
func (s *scene) said(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.notes {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// logged says whether the journal holds a text, however it is quoted there.
func (s *scene) logged(text string) bool {
	return strings.Contains(strings.ReplaceAll(s.agent.out.String(), `\"`, `"`), text)
}

// until waits for something that has to come, however busy the machine is.
func (s *scene) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(long); !ok(); <-time.After(10 * time.Millisecond) {
		select {
		case <-s.agent.ended:
			s.t.Fatalf("the agent ended before this was true: %s", what)
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("still not true: %s", what)
		}
	}
}

// marshal is a plan as a server sends it, also one that no server should.
func (s *scene) marshal(p plans.Plan) string {
	s.t.Helper()
	b, err := p.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// succeeds delivers a plan and waits until it is applied.
func (s *scene) succeeds(plan string) {
	s.t.Helper()
	s.server.deliver(plan)
	s.applied(plan)
}

func (s *scene) applied(plan string) {
	s.t.Helper()
	s.until("the plan is applied", func() bool {
		if s.server.value("failed-checksum") == plans.Checksum([]byte(plan)) {
			s.t.Fatalf("the plan failed: %s", s.failure())
		}
		return s.server.value("plan-state") == "succeeded" && s.server.value("applied-checksum") == plans.Checksum([]byte(plan))
	})
}

// fails delivers a plan and waits until its failure is in the Secret.
func (s *scene) fails(plan string) {
	s.t.Helper()
	s.server.deliver(plan)
	s.until("the plan failed", func() bool {
		return s.server.value("plan-state") == "failed" && s.server.value("failed-checksum") == plans.Checksum([]byte(plan))
	})
	if s.server.value("applied-checksum") == plans.Checksum([]byte(plan)) {
		s.t.Error("the plan counts as applied")
	}
}

// failure is why the Secret says that the plan failed.
func (s *scene) failure() string {
	outputs, err := plans.DecodeOutputs([]byte(s.server.value("failed-output")))
	if err != nil {
		s.t.Error(err)
	}
	return string(outputs[plans.FailureOutput])
}

// reported looks for a failure at the three places.
func (s *scene) reported(text string) {
	s.t.Helper()
	if got := s.failure(); !strings.HasPrefix(got, text+"\n") {
		s.t.Errorf("the Secret says %q, want %q", got, text)
	}
	// What the agent wrote reaches this process through a pipe, after the Secret perhaps.
	s.until("the journal says "+text, func() bool { return s.logged(text) })
	// The status is one line of at most 500 bytes.
	s.until("the status says "+text, func() bool { return s.said(text) })
}

// exists says whether something is on the host.
func (s *scene) exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// runs is how often the instruction that echoes into a file ran.
func (s *scene) runs(path string) int {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	return strings.Count(string(b), "ran\n")
}

func wantedFile(path, content string) plans.File {
	return plans.File{Path: path, Content: plans.EncodeContent([]byte(content))}
}

func shell(name, script string) plans.OneTimeInstruction {
	return plans.OneTimeInstruction{SaveOutput: true, Instruction: plans.Instruction{Name: name, Command: "sh", Args: []string{"-c", script}}}
}

// tmpfs mounts a file system of its own for the test.
func tmpfs(t *testing.T, at, options string) {
	t.Helper()
	if os.Geteuid() != 0 {
		skips.Skip(t, "mounting needs root")
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "mode=0755,"+options); err != nil {
		skips.Skipf(t, "no tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// registryWithout is a registry that has no images.
func registryWithout(t *testing.T) (host string) {
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}}})
	}))
	t.Cleanup(r.Close)
	return strings.TrimPrefix(r.URL, "http://")
}

// TestHostilePlans: one agent meets them one after the other, and a good plan after each.
func TestHostilePlans(t *testing.T) {
	const shortPath = "/usr/sbin:/usr/bin:/sbin:/bin" // a long one would be cut in the error
	s := newScene(t, t.TempDir()).start("PATH=" + shortPath)
	for link, target := range map[string]string{"loop": s.path("pool"), "pool": s.path("loop"), "kernel": "/proc/self"} {
		if err := os.Symlink(target, s.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(s.path("taken", "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	tmpfs(t, s.path("readonly"), "size=1m,ro")
	registry := registryWithout(t)
	plain := func(path string) plans.Plan { return plans.Plan{Files: []plans.File{wantedFile(path, "x")}} }
	env := func(entries ...string) plans.Plan {
		in := shell("in", "true")
		in.Env = entries
		return plans.Plan{Instructions: []plans.OneTimeInstruction{in}}
	}
	for i, test := range []struct {
		name string
		plan plans.Plan
		// raw replaces the plan, and has NAME where another file's path belongs.
		raw  string
		want string
		// began says that the plan is sound, so that what is before its fault is done.
		began bool
	}{
		{name: "half of the JSON", raw: `{"files":[{"path":"NAME","content":"eA=="}`, want: "plan: not JSON, at byte "},
		{name: "a path below /proc", plan: plain("/proc/sys/vm/drop_caches"), want: `plan field files[1].path: "/proc/sys/vm/drop_caches" is below /proc, /sys or /dev, where the kernel keeps its own; an instruction can change what is there`},
		{name: "a path below /sys, in other words", plan: plain("/etc/../sys/power/state"), want: `plan field files[1].path: "/etc/../sys/power/state" is below /proc, /sys or /dev, where the kernel keeps its own; an instruction can change what is there`},
		{name: "the removal of /dev", plan: plans.Plan{Files: []plans.File{{Path: "/dev", Directory: true, Action: "delete"}}}, want: `plan field files[1].path: "/dev" is below /proc, /sys or /dev, where the kernel keeps its own; an instruction can change what is there`},
		{name: "a NUL in a path", plan: plain("/tmp/a\x00b"), want: "plan field files[1].path: has a NUL byte"},
		{name: "an entry of env without =", plan: env("A=1", "NOVALUE"), want: "plan field instructions[0].env[1]: is not of the form NAME=value"},
		{name: "an entry of env without a name", plan: env("=1"), want: "plan field instructions[0].env[0]: is not of the form NAME=value"},
		{name: "permissions in words", plan: plans.Plan{Files: []plans.File{{Path: s.path("x"), Permissions: "u=rw"}}}, want: `plan field files[1].permissions: "u=rw" is not an octal mode such as 0644`},
		{name: "a cycle of links", plan: plain(s.path("loop", "x")), want: "file " + s.path("loop", "x") + ": too many levels of symbolic links", began: true},
		{name: "a link to /proc", plan: plain(s.path("kernel", "x")), want: "file " + s.path("kernel", "x") + ": no such file or directory", began: true},
		{name: "a link to a device", plan: plain(s.path("kernel", "root", "dev", "null")), want: "file " + s.path("kernel", "root", "dev", "null") + ": a device, pipe or socket is there, which is not replaced", began: true},
		{name: "a read-only file system", plan: plain(s.path("readonly", "x")), want: "file " + s.path("readonly", "x") + ": read-only file system", began: true},
		{name: "a directory where a file belongs", plan: plain(s.path("taken")), want: "file " + s.path("taken") + ": is a directory", began: true},
		{name: "a command that is not there", plan: plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "in", Command: "no-such-command"}}}},
			want: `instruction in: command "no-such-command" is not in the agent's PATH ` + shortPath, began: true},
		{name: "an image that is not there", plan: plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "in", Image: registry + "/no/image:v1", Command: "true"}}}},
			want: "instruction in: fetch image " + registry + "/no/image:v1: ", began: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.t = t
			first, after := s.path(fmt.Sprint("first", i)), s.path(fmt.Sprint("after", i))
			test.plan.Files = append([]plans.File{wantedFile(first, "x")}, test.plan.Files...)
			test.plan.Instructions = append(test.plan.Instructions, shell("after", "echo ran >> "+after))
			plan := s.marshal(test.plan)
			if test.raw != "" {
				plan = strings.ReplaceAll(test.raw, "NAME", first)
			}
			s.fails(plan)
			got, _, _ := strings.Cut(s.failure(), "\n")
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("failed with %q, want %q", got, test.want)
			}
			s.reported(got)
			if s.exists(first) != test.began {
				t.Errorf("the file before the fault is there: %v, want %v", !test.began, test.began)
			}
			if n := s.runs(after); n != 0 {
				t.Errorf("the instruction after the fault ran %d times", n)
			}
			s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(first, "good "+strconv.Itoa(i))}}))
			if b, err := os.ReadFile(first); string(b) != fmt.Sprint("good ", i) {
				t.Errorf("a good plan after it: %q, %v", b, err)
			}
		})
	}
	s.t = t
	if strings.Contains(s.agent.out.String(), "panic") {
		t.Error("a panic is in the log")
	}
}

// TestPlansThatAreLarge are applied as far as they can be read, and reported when they cannot.
func TestPlansThatAreLarge(t *testing.T) {
	s := newScene(t, t.TempDir()).start()
	content := strings.Repeat("0123456789abcdef", 96<<10) // 1.5 MiB, 2 in base64
	large := s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("large"), content)}})
	if len(large) < 2<<20 {
		t.Fatalf("%d bytes", len(large))
	}
	t.Run("2 MiB", func(t *testing.T) {
		s.t = t
		s.succeeds(large)
		if b, err := os.ReadFile(s.path("large")); string(b) != content {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
	t.Run("more than the agent reads", func(t *testing.T) {
		s.t = t
		s.server.deliver(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("large"), "x"), wantedFile(s.path("other"), content+content)}}))
		const want = "is longer than 4194304 bytes"
		s.until("the status says so", func() bool { return s.said(want) })
		// The status is set an instant before the line is logged.
		s.until("the journal says so", func() bool { return s.logged(want) })
		if b, err := os.ReadFile(s.path("large")); string(b) != content {
			t.Errorf("changed by a plan that was not read: %d bytes, %v", len(b), err)
		}
		s.server.forget()
		s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("large"), "good")}}))
	})
	t.Run("more than the agent reads, in the directory", func(t *testing.T) {
		s.t = t
		s.until("the directory is there", func() bool { return s.exists(s.path("plans")) })
		if err := os.WriteFile(s.path("plans", "big.plan"), make([]byte, plans.MaxSize+1), 0o600); err != nil {
			t.Fatal(err)
		}
		s.until("it is refused", func() bool { return s.logged("its 4194305 bytes are more than the 4194304 allowed") })
	})
}

// TestTenThousandFiles on a disk in memory, where syncing costs nothing.
func TestTenThousandFiles(t *testing.T) {
	dir := t.TempDir()
	tmpfs(t, dir, "size=256m")
	s := newScene(t, dir).start("CATTLE_LOGLEVEL=warn")
	const many = 10_000
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{shell("count", "find "+s.path("many")+" -type f | wc -l")}}
	for i := range many {
		p.Files = append(p.Files, wantedFile(s.path("many", fmt.Sprintf("%02d", i%100), fmt.Sprint(i)), "0123456789"))
	}
	began := time.Now()
	s.succeeds(s.marshal(p))
	outputs, err := plans.DecodeOutputs([]byte(s.server.value("applied-output")))
	if err != nil || strings.TrimSpace(string(outputs["count"])) != strconv.Itoa(many) {
		t.Errorf("counted %q, %v", outputs["count"], err)
	}
	t.Logf("%v, %.1f MiB resident", time.Since(began).Round(time.Millisecond), float64(s.agent.resident(t))/1024)
}
