package drop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/drop"
)

// realSource is a source with the real engine.
func realSource(t testing.TB, dir string) *drop.Source {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	e, err := apply.New(apply.Options{
		Root: filepath.Join(dir, "root"), WorkDir: filepath.Join(dir, "work"), LedgerDir: filepath.Join(dir, "ledgers"),
		Supervisor: []string{self, supervise.Entry}, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return drop.New(drop.Options{Dir: filepath.Join(dir, "plans"), Engine: e, Logger: quiet})
}

// shellPlan is a plan that runs a line of shell.
func shellPlan(t testing.TB, script string) []byte {
	t.Helper()
	b, err := plans.Plan{Instructions: []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: "run", Command: "sh", Args: []string{"-c", script}}, SaveOutput: true,
	}}}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWithTheRealEngine drops a plan, stops the source in the middle of its instruction, and starts another.
func TestWithTheRealEngine(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	begun, release, count := filepath.Join(dir, "begun"), filepath.Join(dir, "release"), filepath.Join(dir, "count")
	life := func() (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		source := realSource(t, dir)
		go func() { ended <- source.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	wait := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !done(); {
			if time.Now().After(deadline) {
				t.Fatalf("never: %s", what)
			}
			<-time.After(2 * time.Millisecond)
		}
	}
	exists := func(path string) func() bool {
		return func() bool { _, err := os.Stat(path); return err == nil }
	}
	end := life()
	wait("the directory is there", exists(filepath.Join(dir, "plans")))
	script := fmt.Sprintf("echo run >> %s; touch %s; gate=%s; while test -d ${gate%%/*} && ! test -e $gate; do sleep 0.01; done; echo done", count, begun, release)
	if err := os.WriteFile(filepath.Join(dir, "plans", "a.plan"), shellPlan(t, script), 0o600); err != nil {
		t.Fatal(err)
	}
	wait("the instruction runs", exists(begun))
	end()
	end = life()
	defer end()
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var position struct {
		AppliedChecksum string
		Output          []byte
	}
	wait("the result is recorded", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "plans", "a.pos"))
		return err == nil && json.Unmarshal(b, &position) == nil && position.AppliedChecksum != ""
	})
	out, err := plans.DecodeOutputs(position.Output)
	if err != nil || string(out["run"]) != "done\n" {
		t.Errorf("output %q, %v", out, err)
	}
	if b, err := os.ReadFile(count); err != nil || strings.Count(string(b), "run") != 1 {
		t.Errorf("ran %q, %v", b, err)
	}
}

// BenchmarkDrop measures how long it takes from a plan put into the directory until its
// instruction runs.
func BenchmarkDrop(b *testing.B) {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "plans"), 0o700); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	source := realSource(b, dir)
	go func() { ended <- source.Run(ctx) }()
	pipe := filepath.Join(dir, "running")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		b.Fatal(err)
	}
	var running time.Duration
	n := 0
	for b.Loop() {
		n++
		temp := filepath.Join(dir, "temp")
		if err := os.WriteFile(temp, shellPlan(b, fmt.Sprintf("echo %d > %s", n, pipe)), 0o600); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := os.Rename(temp, filepath.Join(dir, "plans", "a.plan")); err != nil {
			b.Fatal(err)
		}
		if _, err := os.ReadFile(pipe); err != nil {
			b.Fatal(err)
		}
		running += time.Since(begin)
		for source.Status()[0].State != drop.Applied {
			<-time.After(time.Millisecond)
		}
	}
	b.ReportMetric(float64(running.Microseconds())/1000/float64(n), "ms/running")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
