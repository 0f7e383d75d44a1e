package apply_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

func TestApplyAWholePlan(t *testing.T) {
	h := newHost(t)
	dir := file("/etc/demo", "")
	dir.Directory, dir.Permissions = true, "0750"
	conf := file("/etc/demo/conf", "key=val\n")
	conf.Permissions = "0640"
	old := plans.File{Path: "/etc/demo/old", Action: plans.ActionDelete}
	if err := os.MkdirAll(h.root("/etc/demo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.root("/etc/demo/old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unsaved := shell("quiet", "echo not asked for")
	unsaved.SaveOutput = false
	p := plans.Plan{
		Files:        []plans.File{dir, conf, old},
		Instructions: []plans.OneTimeInstruction{shell("step-a", "echo hi; echo there >&2"), unsaved},
	}
	got := h.apply(p)
	want := apply.Result{Succeeded: true, Outputs: map[string][]byte{"step-a": []byte("hi\nthere\n")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := h.content(h.root("/etc/demo/conf")); got != "key=val\n" {
		t.Errorf("content %q", got)
	}
	for path, want := range map[string]fs.FileMode{"/etc/demo": fs.ModeDir | 0o750, "/etc/demo/conf": 0o640} {
		if info, err := os.Stat(h.root(path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := os.Stat(h.root("/etc/demo/old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not removed: %v", err)
	}
	if info, err := os.Stat(h.options.LedgerDir); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("ledger directory: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(h.options.LedgerDir, "remote.json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("ledger: %v, %v", info.Mode(), err)
	}
}

func TestTheSameDeliveryIsDoneOnce(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "echo out"), h.counting("b", "echo no; exit 3")}}
	first := h.apply(p)
	again := h.apply(p) // another life of the agent
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	if h.runs("a") != "1" || h.runs("b") != "1" {
		t.Errorf("runs %q %q", h.runs("a"), h.runs("b"))
	}
	// The same bytes delivered anew run anew, with the attempt number of the delivery.
	h.apply(p, id("uid-2"), func(d *apply.Delivery) { d.Attempt = 7 })
	if h.runs("a") != "1 7" || h.runs("b") != "1 7" {
		t.Errorf("runs %q %q", h.runs("a"), h.runs("b"))
	}
}

func TestFailures(t *testing.T) {
	tests := []struct {
		name    string
		plan    func(h *host) plans.Plan
		failure apply.Failure
		outputs map[string]string
		ran     string // of the instruction "next"
	}{
		{
			name: "an instruction fails",
			plan: func(h *host) plans.Plan {
				failing := shell("step-b", "echo tried; echo why >&2; exit 7")
				failing.SaveOutput = false
				return plans.Plan{Instructions: []plans.OneTimeInstruction{shell("step-a", "echo a"), failing, h.counting("next", "")}}
			},
			failure: apply.Failure{Instruction: "step-b", Reason: "instruction step-b: exit code 7", Output: []byte("tried\nwhy\n"), ExitCode: 7},
			outputs: map[string]string{"step-a": "a\n", "step-b": "tried\nwhy\n", plans.FailureOutput: "instruction step-b: exit code 7\n"},
		},
		{
			name: "one without a name",
			plan: func(h *host) plans.Plan {
				failing := shell("", "echo tried; kill -9 $$")
				failing.SaveOutput = false
				return plans.Plan{Instructions: []plans.OneTimeInstruction{failing, h.counting("next", "")}}
			},
			failure: apply.Failure{Instruction: "instructions[0]", Reason: "instruction instructions[0]: ended by signal SIGKILL", Output: []byte("tried\n"), ExitCode: -1},
			outputs: map[string]string{plans.FailureOutput: "instruction instructions[0]: ended by signal SIGKILL\ntried\n"},
		},
		{
			name: "no such command",
			plan: func(h *host) plans.Plan {
				in := plans.OneTimeInstruction{Instruction: plans.Instruction{Name: "x", Command: "no-such-command-here"}}
				return plans.Plan{Instructions: []plans.OneTimeInstruction{in, h.counting("next", "")}}
			},
			failure: apply.Failure{Instruction: "x", Reason: `instruction x: command "no-such-command-here" is not in the agent's PATH ` + os.Getenv("PATH"), ExitCode: -1},
			outputs: map[string]string{plans.FailureOutput: `instruction x: command "no-such-command-here" is not in the agent's PATH ` + os.Getenv("PATH") + "\n"},
		},
		{
			name: "a file cannot be written",
			plan: func(h *host) plans.Plan {
				return plans.Plan{Files: []plans.File{file("/a", "first"), file("/a/b", "x"), file("/c", "")}, Instructions: []plans.OneTimeInstruction{h.counting("next", "")}}
			},
			failure: apply.Failure{Reason: "file /a/b: not a directory", ExitCode: -1},
			outputs: map[string]string{plans.FailureOutput: "file /a/b: not a directory\n"},
		},
		{
			name: "an image without a stager",
			plan: func(h *host) plans.Plan {
				in := plans.OneTimeInstruction{Instruction: plans.Instruction{Name: "install", Image: "example.org/x:1"}}
				return plans.Plan{Instructions: []plans.OneTimeInstruction{in, h.counting("next", "")}}
			},
			failure: apply.Failure{Instruction: "install", Reason: "instruction install: fetch image example.org/x:1: this agent cannot fetch images", ExitCode: -1},
			outputs: map[string]string{plans.FailureOutput: "instruction install: fetch image example.org/x:1: this agent cannot fetch images\n"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			got := h.apply(test.plan(h))
			if got.Succeeded || got.Failure == nil {
				t.Fatalf("%+v", got)
			}
			if diff := cmp.Diff(test.failure, *got.Failure); diff != "" {
				t.Error(diff)
			}
			outputs := map[string]string{}
			for name, out := range got.Outputs {
				outputs[name] = string(out)
			}
			if diff := cmp.Diff(test.outputs, outputs); diff != "" {
				t.Error(diff)
			}
			if h.runs("next") != "" {
				t.Error("the next instruction ran")
			}
			if _, err := os.Stat(h.root("/c")); err == nil {
				t.Error("a file after the fault was written")
			}
		})
	}
}

func TestAFailingFileLeavesTheOldOne(t *testing.T) {
	h := newHost(t)
	h.apply(plans.Plan{Files: []plans.File{file("/d/f", "old")}})
	bad := file("/d", "not a directory any more")
	if r := h.apply(plans.Plan{Files: []plans.File{bad}}, id("uid-2")); r.Failure == nil || r.Failure.Reason != "file /d: is a directory" {
		t.Errorf("%+v", r.Failure)
	}
	if got := h.content(h.root("/d/f")); got != "old" {
		t.Errorf("content %q", got)
	}
}

func TestRedirectedFiles(t *testing.T) {
	const name, really = "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "/var/lib/agent/etc/k3s/config.yaml.d/50-rancher.yaml"
	p := plans.Plan{Files: []plans.File{file(name, "token: x\n"), file("/etc/rancher/other", "plain")}}
	check := func(t *testing.T, h *host) {
		t.Helper()
		if got := h.content(h.root(really)); got != "token: x\n" {
			t.Errorf("content %q", got)
		}
		if text, err := os.Readlink(h.root(name)); err != nil || text != really {
			t.Errorf("link to %q, %v", text, err)
		}
		if info, err := os.Lstat(h.root("/etc/rancher/other")); err != nil || !info.Mode().IsRegular() {
			t.Errorf("a file beside the prefix is %v, %v", info.Mode(), err)
		}
	}
	t.Run("new, again, and removed", func(t *testing.T) {
		h := newHost(t)
		h.apply(p)
		check(t, h)
		if changed, err := h.engine().RestoreFiles(t.Context(), standingOf(t, p)); err != nil || changed != nil {
			t.Errorf("again: changed %v, %v", changed, err)
		}
		h.apply(plans.Plan{Files: []plans.File{{Path: name, Action: plans.ActionDelete}}}, id("uid-2"))
		for _, path := range []string{name, really} {
			if _, err := os.Lstat(h.root(path)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	t.Run("a regular file of the original agent is taken over", func(t *testing.T) {
		h := newHost(t)
		if err := os.MkdirAll(filepath.Dir(h.root(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.root(name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		h.apply(p)
		check(t, h)
	})
	t.Run("both directories are one", func(t *testing.T) {
		h := newHost(t)
		if err := os.MkdirAll(h.root("/etc/rancher"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(h.root("/var/lib/agent/etc/k3s"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/var/lib/agent/etc/k3s", h.root("/etc/rancher/k3s")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			h.apply(p, id(time.Now().String()))
			if info, err := os.Lstat(h.root(really)); err != nil || !info.Mode().IsRegular() || h.content(h.root(really)) != "token: x\n" {
				t.Fatalf("%v, %v", info.Mode(), err)
			}
		}
	})
}

func TestRestoreFiles(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{
		Files:        []plans.File{file("/a", "1"), file("/b", "2"), file("/c", "3")},
		Instructions: []plans.OneTimeInstruction{h.counting("once", "")},
	}
	h.apply(p)
	if err := os.Remove(h.root("/a")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.root("/c"), []byte("tampered"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := h.engine().RestoreFiles(t.Context(), standingOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/a", "/c"}, changed); diff != "" {
		t.Error(diff)
	}
	if h.content(h.root("/a")) != "1" || h.content(h.root("/c")) != "3" || h.runs("once") != "1" {
		t.Error("not put back, or the instruction ran again")
	}
}

func TestInstructionEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy:3128")
	t.Setenv("KUBECONFIG", "/root/secret")
	t.Setenv("LC_ALL", "C")
	h := newHost(t)
	h.options.Path = os.Getenv("PATH")
	in := shell("env", "env; pwd; cat; umask")
	in.Env = []string{"MODE=fast", "PATH=/evil", "CATTLE_AGENT_ATTEMPT_NUMBER=99", "HTTPS_PROXY=http://other:1", "MODE=faster"}
	d := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{in}}, func(d *apply.Delivery) { d.Attempt = 3 })
	result, err := h.engine().Apply(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	out := strings.Split(string(result.Outputs["env"]), "\n")
	has := map[string]bool{}
	for _, line := range out {
		has[line] = true
	}
	runs, err := filepath.Glob(filepath.Join(h.options.WorkDir, "*", d.Checksum+"_0"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	sandbox := runs[0]
	for _, want := range []string{
		"MODE=faster", "HTTPS_PROXY=http://other:1", "LC_ALL=C", "CATTLE_AGENT_ATTEMPT_NUMBER=3",
		"CATTLE_AGENT_EXECUTION_PWD=" + sandbox, "PATH=" + os.Getenv("PATH") + ":" + sandbox, sandbox,
	} {
		if !has[want] {
			t.Errorf("no line %q in\n%s", want, result.Outputs["env"])
		}
	}
	for _, line := range out {
		if strings.HasPrefix(line, "KUBECONFIG=") || line == "MODE=fast" || line == "PATH=/evil" {
			t.Errorf("line %q", line)
		}
	}
	if info, err := os.Stat(sandbox); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("sandbox: %v, %v", info.Mode(), err)
	}
}

func TestWhatAnInstructionRuns(t *testing.T) {
	tests := []struct {
		name string
		in   plans.Instruction
		want string // output, or the reason after "!"
	}{
		{"run.sh of the image by default", plans.Instruction{Image: "img"}, "from the image:\n"},
		{"with arguments", plans.Instruction{Image: "img", Args: []string{"a b", "c"}}, "from the image: a b c\n"},
		{"a path of the sandbox", plans.Instruction{Image: "img", Command: "./run.sh", Args: []string{"x"}}, "from the image: x\n"},
		{"the sandbox is at the end of PATH for a shell", plans.Instruction{Image: "img", Command: "sh", Args: []string{"-c", "run.sh y"}}, "from the image: y\n"},
		{"but not for the command itself", plans.Instruction{Image: "img", Command: "run.sh"}, "!command \"run.sh\" is not in the agent's PATH /usr/bin:/bin"},
		{"an absolute path", plans.Instruction{Command: "/bin/echo", Args: []string{"z"}}, "z\n"},
		{"no image and no command", plans.Instruction{}, "!fork/exec SANDBOX/run.sh: no such file or directory"},
		{"a script", plans.Instruction{Script: "#!/bin/sh -e\necho \"$1\" script\n", Args: []string{"my"}}, "my script\n"},
		{"a script without an interpreter", plans.Instruction{Script: "echo plain $1", Args: []string{"too"}}, "plain too\n"},
		{"a script beats the command", plans.Instruction{Script: "echo script", Command: "/bin/false"}, "script\n"},
		{"a script of an unknown interpreter", plans.Instruction{Script: "#!/no/such\n"}, "!fork/exec TRY/script: no such file or directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.options.Path = "/usr/bin:/bin"
			h.options.Images = stager(func(_ context.Context, ref, dir string) error {
				if ref != "img" {
					t.Errorf("image %q", ref)
				}
				return os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\necho from the image: $*\n"), 0o755)
			})
			test.in.Name = "x"
			d := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: test.in, SaveOutput: true}}})
			result, err := h.engine().Apply(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			want, fails := strings.CutPrefix(test.want, "!")
			if !fails {
				if !result.Succeeded || string(result.Outputs["x"]) != want {
					t.Errorf("output %q, %+v", result.Outputs["x"], result.Failure)
				}
				return
			}
			dirs, err := filepath.Glob(filepath.Join(h.options.WorkDir, "*", d.Checksum+"_0"))
			if err != nil || len(dirs) != 1 {
				t.Fatal(dirs, err)
			}
			want = "instruction x: " + strings.NewReplacer("SANDBOX", dirs[0], "TRY", dirs[0]+".1").Replace(want)
			if result.Failure == nil || result.Failure.Reason != want || result.Failure.ExitCode != -1 {
				t.Errorf("%+v, want %q", result.Failure, want)
			}
		})
	}
}

type stager func(ctx context.Context, ref, dir string) error

func (s stager) Stage(ctx context.Context, ref, dir string, _ func(string)) error {
	return s(ctx, ref, dir)
}

func TestOutputsFitTogether(t *testing.T) {
	tests := []struct {
		name  string
		sizes map[string]int
		want  map[string]int // at most, without the line that reports the cut
	}{
		{"all fit", map[string]int{"a": 40, "b": 60}, map[string]int{"a": 40, "b": 60}},
		{"one is long", map[string]int{"a": 10, "b": 1000}, map[string]int{"a": 10, "b": 90}},
		{"all are long", map[string]int{"a": 500, "b": 500, "c": 500, "d": 1}, map[string]int{"a": 33, "b": 33, "c": 33, "d": 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			outputs := map[string][]byte{}
			for name, n := range test.sizes {
				outputs[name] = []byte(strings.Repeat("x", n))
			}
			apply.Fit(outputs, 100)
			got := map[string]int{}
			for name, out := range outputs {
				got[name] = strings.Count(string(out), "x")
			}
			for name, want := range test.want {
				// Halves are kept of the beginning and the end.
				if got[name] > want || got[name] < want-1 {
					t.Errorf("%s has %d, want %d", name, got[name], want)
				}
			}
		})
	}
}

// TestBigOutputIsBounded: what of it fits into a Secret its source finds out.
func TestBigOutputIsBounded(t *testing.T) {
	h := newHost(t)
	big := func(name string) plans.OneTimeInstruction {
		return shell(name, "echo begin; head -c 1048576 /dev/zero | tr '\\0' x; echo; echo end")
	}
	result := h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{big("a"), big("b"), big("c"), shell("d", "echo small")}})
	sum := 0
	for _, name := range []string{"a", "b", "c"} {
		out := string(result.Outputs[name])
		sum += len(out)
		if !strings.HasPrefix(out, "begin\n") || !strings.HasSuffix(out, "\nend\n") || !strings.Contains(out, " bytes cut]") {
			t.Errorf("%s: %d bytes from %q to %q", name, len(out), out[:10], out[len(out)-10:])
		}
	}
	if sum > 2049<<10 || sum < 2000<<10 || string(result.Outputs["d"]) != "small\n" {
		t.Errorf("%d bytes together, %q", sum, result.Outputs["d"])
	}
}

func TestNew(t *testing.T) {
	tests := []struct {
		name   string
		change func(*apply.Options)
		want   string
	}{
		{"no work directory", func(o *apply.Options) { o.WorkDir = "" }, "apply: no work directory is set"},
		{"no ledger directory", func(o *apply.Options) { o.LedgerDir = "" }, "apply: no ledger directory is set"},
		{"no supervisor", func(o *apply.Options) { o.Supervisor = nil }, "apply: no supervisor command is set"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options(t.TempDir())
			test.change(&o)
			if _, err := apply.New(o); err == nil || err.Error() != test.want {
				t.Errorf("error %v", err)
			}
		})
	}
}
