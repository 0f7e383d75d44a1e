package apply_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// outputLines are the lines of output in a log with what names them, as "level instruction stream line".
func outputLines(t *testing.T, log string) (all []string) {
	t.Helper()
	for text := range strings.Lines(log) {
		var l struct{ Level, Source, Plan, Instruction, Stream, Line, Msg string }
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg == "output" {
			if l.Source != "remote" || l.Plan != "0123456789ab" {
				t.Errorf("attributes are missing: %s", text)
			}
			all = append(all, fmt.Sprintf("%s %s %s %s", l.Level, l.Instruction, l.Stream, l.Line))
		}
	}
	return all
}

// TestPeriodicOutputInTheLog: a run is worth a line when it failed or says something new.
func TestPeriodicOutputInTheLog(t *testing.T) {
	h := newHost(t)
	var log bytes.Buffer
	h.options.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{periodic("beat", ". "+h.path("script"))}}
	standing := apply.Standing{Source: "remote", Checksum: "0123456789abcdef", Plan: p}
	e := h.engine()
	for _, run := range []struct {
		name, script string
		want         []string
	}{
		{"the first", "echo one; echo two >&2", []string{"INFO beat stdout one", "INFO beat stderr two"}},
		{"the same again", "echo one; echo two >&2", []string{"DEBUG beat stdout one", "DEBUG beat stderr two"}},
		{"something else", "echo one; printf three >&2", []string{"INFO beat stdout one", "INFO beat stderr three"}},
		{"a failure", "echo no; exit 1", []string{"INFO beat stdout no"}},
		{"the same failure", "echo no; exit 1", []string{"INFO beat stdout no"}},
		{"the same words, but well", "echo no", []string{"DEBUG beat stdout no"}},
		{"nothing", "true", nil},
	} {
		if err := os.WriteFile(h.path("script"), []byte(run.script), 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		e.Periodic(t.Context(), standing, nil, true)
		if diff := cmp.Diff(run.want, outputLines(t, log.String())); diff != "" {
			t.Errorf("%s: %s", run.name, diff)
		}
	}
}

// TestPeriodicOutputIsObserved: every run is reported as it goes, both streams in the order they
// came, under an ID of its own.
func TestPeriodicOutputIsObserved(t *testing.T) {
	h := newHost(t)
	var seen observer
	h.options.Observe = seen.observe
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{periodic("beat", "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three")}}
	e := h.engine()
	ids := map[string]int{}
	for range 2 {
		e.Periodic(t.Context(), apply.Standing{Source: "remote", Checksum: "sum", Plan: p}, nil, true)
	}
	run := []string{
		`periodic-began -1 beat attempt=1 code=0 "" []`,
		"output -1 stdout reported=false at 0: one\ntwo\nthree\n",
		`periodic-ended -1 beat attempt=1 code=0 "" []`,
	}
	if diff := cmp.Diff(append(run, run...), seen.reported()); diff != "" {
		t.Error(diff)
	}
	for _, event := range seen.all() {
		ids[event.ID]++
		if event.Source != "remote" || event.Checksum != "sum" || event.Time.IsZero() {
			t.Errorf("%+v", event)
		}
	}
	if len(ids) != 2 || ids[""] > 0 {
		t.Errorf("ids %v", ids)
	}
}

// TestOutputOfAPeriodicInstructionThatIsKilled was reported until then.
func TestOutputOfAPeriodicInstructionThatIsKilled(t *testing.T) {
	h := newHost(t)
	var seen observer
	h.options.Observe = seen.observe
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{periodic("beat", "echo up; exec sleep 600")}}
	go func() {
		h.until("it is reported", func() bool { return strings.Contains(strings.Join(seen.reported(), ""), "up\n") })
		cancel()
	}()
	h.engine().Periodic(ctx, standing(p), nil, true)
	if n := seen.ofKind(apply.PeriodicOutput); n != 1 {
		t.Errorf("reported %d times: %q", n, seen.reported())
	}
}
