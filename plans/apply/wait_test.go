package apply_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/test/skips"
)

// smallDisk mounts a file system of one MiB and fills it but for free bytes. The filler is returned.
func smallDisk(t *testing.T, at string, free int64) (filler string) {
	t.Helper()
	if os.Getuid() != 0 {
		skips.Skip(t, "mounting needs root")
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=1m"); err != nil {
		skips.Skipf(t, "no tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler = filepath.Join(at, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20-free), 0o600); err != nil {
		t.Fatal(err)
	}
	return filler
}

// applyUntil applies in the background and returns when a wait was reported.
func applyUntil(t *testing.T, h *host, ctx context.Context, p plans.Plan) (results chan apply.Result, errs chan error) {
	t.Helper()
	results, errs = make(chan apply.Result, 1), make(chan error, 1)
	e := h.engine()
	go func() {
		r, err := e.Apply(ctx, delivery(t, p))
		results <- r
		errs <- err
	}()
	h.until("the wait is named", func() bool { return len(h.waited()) > 0 })
	return results, errs
}

func TestADiskThatIsFull(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	tests := []struct {
		name, disk, waits string
	}{
		{"where a file belongs", "root/full", "/full/big"},
		{"where the ledger is", "ledgers", "LEDGER"},
		{"where instructions run", "work", "SANDBOX"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			p := plans.Plan{
				Files:        []plans.File{file("/a", "small"), file("/full/big", big), file("/z", "small")},
				Instructions: []plans.OneTimeInstruction{h.counting("in", "echo done")},
			}
			h.options.Images = stager(func(_ context.Context, _, dir string) error {
				return os.WriteFile(filepath.Join(dir, "layer"), []byte(big), 0o600)
			})
			p.Instructions[0].Image = "img"
			if test.disk == "ledgers" { // only what is too long for it
				p.Files = append(p.Files, file("/"+strings.Repeat("long/", 40), ""))
				for range 2000 {
					p.Files = append(p.Files, file("/a", "small"))
				}
			}
			filler := smallDisk(t, h.path(test.disk), 8<<10)
			results, errs := applyUntil(t, h, t.Context(), p)
			w := h.waited()[0]
			want := test.waits
			switch want {
			case "LEDGER":
				want = h.path("ledgers", "remote.json")
			case "SANDBOX":
				want = w.For
				if !strings.HasPrefix(w.For, h.path("work")+"/") || !strings.HasSuffix(w.For, "_0") {
					t.Errorf("waits for %s", w.For)
				}
			}
			got := w
			got.Since = time.Time{}
			if diff := cmp.Diff(apply.Wait{Source: "remote", For: want, Cause: "no space left on device", Next: "tried again until it can be written"}, got); diff != "" || w.Since.IsZero() {
				t.Error(diff)
			}
			if _, err := os.Stat(h.root("/z")); test.disk != "work" && err == nil {
				t.Error("went on without the file")
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			r := <-results
			if err := <-errs; err != nil || !r.Succeeded || h.runs("in") != "1" {
				t.Fatalf("%+v, %v, attempts %q", r.Failure, err, h.runs("in"))
			}
			if h.content(h.root("/full/big")) != big || h.content(h.root("/z")) != "small" {
				t.Error("a file is not as wanted")
			}
			waits := h.waited()
			if waits[len(waits)-1] != (apply.Wait{Source: "remote"}) {
				t.Errorf("the end of the wait was not reported: %+v", waits)
			}
		})
	}
}

func TestStoppedWhileTheDiskIsFull(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{Files: []plans.File{file("/full/big", strings.Repeat("x", 300<<10))}, Instructions: []plans.OneTimeInstruction{h.counting("in", "")}}
	filler := smallDisk(t, h.root("/full"), 8<<10)
	ctx, cancel := context.WithCancel(t.Context())
	_, errs := applyUntil(t, h, ctx, p)
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	names, err := os.ReadDir(h.root("/full"))
	if err != nil || len(names) != 1 {
		t.Errorf("left on the full disk: %v, %v", names, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if r := h.apply(p); !r.Succeeded || h.runs("in") != "1" {
		t.Errorf("%+v", r)
	}
}

func TestOnePlanAtATime(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	e := h.engine()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := e.Apply(t.Context(), delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "read x < "+fifo+"; touch "+h.path("ended"))}}))
		first <- err
	}()
	h.until("the first runs", func() bool { return h.runs("slow") != "" })
	local := func(d *apply.Delivery) { d.Source = "local.plan" }
	go func() {
		r, err := e.Apply(t.Context(), delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("other", "ls "+h.path("ended"))}}, local))
		if err == nil && !r.Succeeded {
			err = errors.New(r.Failure.Reason)
		}
		second <- err
	}()
	h.until("the second waits", func() bool { return len(h.waited()) > 0 })
	if w := h.waited()[0]; w.Source != "local.plan" || w.For != "another plan" || w.Cause != "one plan at a time is applied" {
		t.Errorf("%+v", w)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
}

func TestInterlocks(t *testing.T) {
	t.Run("active while at work, with time and pid", func(t *testing.T) {
		h := newHost(t)
		seen := h.path("seen")
		h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{shell("look", "cat "+h.path("interlock/applyinator-active")+" > "+seen)}})
		first, rest, _ := strings.Cut(h.content(seen), "\n")
		if _, err := time.Parse(time.UnixDate, first); err != nil || !strings.HasPrefix(rest, "pid ") {
			t.Errorf("%q %q %v", first, rest, err)
		}
		if _, err := os.Stat(h.path("interlock/applyinator-active")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there after: %v", err)
		}
	})
	t.Run("what a killed agent left is cleared at the start", func(t *testing.T) {
		h := newHost(t)
		if err := os.MkdirAll(h.path("interlock"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.path("interlock/applyinator-active"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir()) // the original looks into its own working directory
		h.engine()
		if _, err := os.Stat(h.path("interlock/applyinator-active")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
	})
	for _, content := range []string{"", "no date"} {
		t.Run("an installer is about to restart the agent, "+content, func(t *testing.T) {
			h := newHost(t)
			pending := h.path("interlock/restart-pending")
			if err := os.MkdirAll(h.path("interlock"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(pending, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			results, errs := applyUntil(t, h, t.Context(), plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("in", "")}})
			w := h.waited()[0]
			if w.For != pending || w.Cause != "an installer is about to restart the agent" || h.runs("in") != "" {
				t.Errorf("%+v", w)
			}
			if _, err := os.Stat(h.path("interlock/applyinator-active")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the installer would wait for the agent that waits for it: %v", err)
			}
			if _, err := time.Parse(time.UnixDate, strings.TrimSpace(h.content(pending))); err != nil {
				t.Errorf("the first look is not noted: %v", err)
			}
			if err := os.Remove(pending); err != nil {
				t.Fatal(err)
			}
			if r, err := <-results, <-errs; err != nil || !r.Succeeded || h.runs("in") != "1" {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	ago := time.Now().Add(-5*time.Minute - 2*time.Second)
	zone := time.FixedZone("EST", -5*3600)
	defer func(was *time.Location) { time.Local = was }(time.Local)
	time.Local = zone // of the host
	for _, test := range []struct {
		name string
		at   time.Time
	}{
		{"an installer that never came back", ago.UTC()},
		{"the same, noted in the host's zone by the original agent", ago.In(zone)},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			pending := h.path("interlock/restart-pending")
			if err := os.MkdirAll(h.path("interlock"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(pending, []byte(test.at.Format(time.UnixDate)), 0o644); err != nil {
				t.Fatal(err)
			}
			if r := h.apply(plans.Plan{}); !r.Succeeded || len(h.waited()) > 0 {
				t.Errorf("%+v %+v", r, h.waited())
			}
			if _, err := os.Stat(pending); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("still there: %v", err)
			}
		})
	}
}

func TestPruneRemovesOnlyWhatIsOursAndOver(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	// A running instruction in the oldest directory, whose ledger was forgotten.
	running := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", "read x < "+fifo)}}
	agent := begun(t, h, running)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if err := h.engine().Forget("remote"); err != nil {
		t.Fatal(err)
	}
	local := func(d *apply.Delivery) { d.Source = "kept" }
	h.apply(plans.Plan{}, local)
	for _, name := range []string{"20251121-101010", "data", "20260101T000000.000000000Z.bak"} {
		if err := os.MkdirAll(h.path("work", name, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(h.path("work", "20260101T000000.000000000Z"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := list(t, h.path("work"))
	for i := range 6 {
		h.apply(plans.Plan{}, id("uid-"+string(rune('a'+i))))
	}
	e := h.engine()
	if err := e.PruneNow(); err != nil {
		t.Fatal(err)
	}
	after := list(t, h.path("work"))
	if len(after) != len(before)+apply.RunsKept {
		t.Errorf("%d more directories stay, want %d: %v", len(after)-len(before), apply.RunsKept, after)
	}
	have := map[string]bool{}
	for _, name := range after {
		have[name] = true
	}
	for _, name := range before {
		if !have[name] {
			t.Errorf("%s was removed", name)
		}
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.settle() // it writes its result where the test's directory is removed
}

func TestPreserveWorkDir(t *testing.T) {
	h := newHost(t)
	h.options.PreserveWorkDir = true
	for i := range 7 {
		h.apply(plans.Plan{}, id("uid-"+string(rune('a'+i))))
	}
	if names := list(t, h.path("work")); len(names) != 7 {
		t.Errorf("%v", names)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestPruneSparesARunningPeriodicInstruction(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	e := h.engine()
	got := make(chan map[string]plans.PeriodicOutput, 1)
	go func() {
		got <- e.Periodic(t.Context(), apply.Standing{Plan: &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{
			periodic("p", "touch here; touch "+h.path("runs")+"; read x < "+fifo+"; ls"),
		}}}, nil, true)
	}()
	h.until("it runs", func() bool { _, err := os.Stat(h.path("runs")); return err == nil })
	for i := range apply.RunsKept + 1 {
		if _, err := e.Apply(t.Context(), delivery(t, plans.Plan{}, id("uid-"+string(rune('a'+i))))); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.PruneNow(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := string((<-got)["p"].Stdout); out != "here\n" {
		t.Errorf("its directory has %q", out)
	}
}
