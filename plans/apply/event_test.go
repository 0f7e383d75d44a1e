package apply_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// ofKind is how many events there were of a kind.
func (o *observer) ofKind(kind apply.EventKind) (n int) {
	for _, e := range o.all() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// observer collects what the engine reports.
type observer struct {
	mu     sync.Mutex
	events []apply.Event
}

func (o *observer) observe(e apply.Event) {
	e.Data = bytes.Clone(e.Data)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *observer) all() []apply.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]apply.Event{}, o.events...)
}

// reported is one line an event; pieces of output that follow each other are one.
func (o *observer) reported() []string {
	var lines []string
	next := int64(-1)
	for _, e := range o.all() {
		if e.Kind != apply.InstructionOutput && e.Kind != apply.PeriodicOutput {
			next = -1
			line := fmt.Sprintf("%s %d %s attempt=%d code=%d %q %q", e.Kind, e.Instruction, e.Name, e.Attempt, e.ExitCode, e.Text, e.Remaining)
			if e.Result != nil {
				line += fmt.Sprintf(" succeeded=%v", e.Result.Succeeded)
			}
			lines = append(lines, line)
			continue
		}
		if e.Offset != next {
			lines = append(lines, fmt.Sprintf("output %d %s reported=%v at %d: ", e.Instruction, e.Stream, e.Reported, e.Offset))
		}
		lines[len(lines)-1] += string(e.Data)
		next = e.Offset + int64(len(e.Data))
	}
	return lines
}

func TestEventsOfAnApply(t *testing.T) {
	h := newHost(t)
	var seen observer
	h.options.Observe = seen.observe
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h.options.Now = func() time.Time { return at }
	nameless := shell("", "exit 3")
	nameless.SaveOutput = false
	p := plans.Plan{
		Files:        []plans.File{file("/etc/one", "1"), {Path: "/etc/gone", Action: plans.ActionDelete}},
		Instructions: []plans.OneTimeInstruction{shell("talk", "echo hello"), nameless, shell("never", "")},
	}
	e := h.engine()
	d := delivery(t, p)
	for range 2 { // the second time nothing happens, so nothing is reported
		if _, err := e.Apply(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(h.root("/etc/one")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.RestoreFiles(t.Context(), apply.Standing{Source: "remote", Checksum: d.Checksum, Plan: d.Plan}); err != nil {
		t.Fatal(err)
	}
	e.Periodic(t.Context(), apply.Standing{Plan: &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{periodic("beat", "exit 4")}}}, nil, true)
	want := []string{
		`apply-began -1  attempt=0 code=0 "" ["file /etc/one" "file /etc/gone" "instruction talk" "instruction instructions[1]" "instruction never"]`,
		`file-changed -1 /etc/one attempt=0 code=0 "" []`,
		`instruction-began 0 talk attempt=1 code=0 "" []`,
		"output 0 stdout reported=false at 0: hello\n",
		`instruction-ended 0 talk attempt=1 code=0 "" []`,
		`instruction-began 1 instructions[1] attempt=1 code=0 "" []`,
		`instruction-ended 1 instructions[1] attempt=1 code=3 "exit code 3" []`,
		`apply-ended -1  attempt=0 code=3 "instruction instructions[1]: exit code 3" [] succeeded=false`,
		`file-put-back -1 /etc/one attempt=0 code=0 "" []`,
		`periodic-began -1 beat attempt=1 code=0 "" []`,
		`periodic-ended -1 beat attempt=1 code=4 "exit code 4" []`,
	}
	if diff := cmp.Diff(want, seen.reported()); diff != "" {
		t.Error(diff)
	}
	for _, e := range seen.all()[:7] {
		if e.Source != "remote" || e.ID != d.ID || e.Checksum != d.Checksum || !e.Time.Equal(at) {
			t.Errorf("%+v", e)
		}
	}
}

// TestEventsOfWhatNeverRan: an instruction that cannot be staged ends without having begun.
func TestEventsOfWhatNeverRan(t *testing.T) {
	h := newHost(t)
	var seen observer
	h.options.Observe = seen.observe
	h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "a", Command: "no-such-command"}}}})
	lines := seen.reported()
	if len(lines) != 3 || !strings.HasPrefix(lines[1], `instruction-ended 0 a attempt=1 code=-1 "instruction a: command \"no-such-command\" is not in`) {
		t.Errorf("%q", lines)
	}
}

// progressing reports a step of each staging.
type progressing struct{}

func (progressing) Stage(_ context.Context, ref, _ string, progress func(string)) error {
	progress("image " + ref + ": layer 1 of 1")
	return nil
}

func TestProgressOfStaging(t *testing.T) {
	h := newHost(t)
	var seen observer
	h.options.Observe = seen.observe
	h.options.Images = progressing{}
	h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "a", Image: "i:1", Command: "true"}}}})
	if lines := seen.reported(); len(lines) < 2 || lines[1] != `progress 0 a attempt=1 code=0 "image i:1: layer 1 of 1" []` {
		t.Errorf("%q", lines)
	}
}

// logged are the lines of output in a log, as "stream line".
func logged(t *testing.T, log string) []string {
	t.Helper()
	var all []string
	for text := range strings.Lines(log) {
		var l struct{ Source, Plan, Instruction, Stream, Line, Msg string }
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg != "output" {
			continue
		}
		if l.Source != "remote" || len(l.Plan) != 12 || l.Instruction == "" {
			t.Errorf("attributes are missing: %s", text)
		}
		all = append(all, l.Instruction+" "+l.Stream+" "+l.Line)
	}
	return all
}

// TestOutputAcrossLivesOfTheAgent: each life reports the whole output at the same offsets and
// says what was reported before; the log has each line once, and none in halves, also when the
// life before was killed in the middle of one.
func TestOutputAcrossLivesOfTheAgent(t *testing.T) {
	for _, end := range []string{"while it runs", "while no agent lives"} {
		t.Run(end, func(t *testing.T) {
			h := newHost(t)
			fifo := h.fifo("go")
			p := plans.Plan{Instructions: []plans.OneTimeInstruction{
				h.counting("slow", `printf 'one\ntw'; sleep 0.3; printf 'err\nor' >&2; read x < `+fifo+`; printf 'o\n'; sleep 0.3; echo r >&2`),
			}}
			cmd := h.agentCommand(p, 0)
			cmd.Env = append(cmd.Env, logFile+"="+h.path("log"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			h.until("all that it prints is reported", func() bool {
				names := h.glob("work", "*", "*", "told")
				return len(names) == 1 && strings.HasPrefix(h.content(names[0]), fmt.Sprintf("%020d ", len("one\ntwerr\nor")))
			})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			firstLog := h.content(h.path("log"))
			if end == "while no agent lives" {
				if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				h.until("its result is there", func() bool { return len(h.glob("work", "*", "*", "result.json")) == 1 })
			} else {
				go func() {
					if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
						t.Error(err)
					}
				}()
			}
			var seen observer
			var log bytes.Buffer
			h.options.Observe = seen.observe
			h.options.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			if r := h.apply(p); !r.Succeeded || h.runs("slow") != "1" {
				t.Fatalf("%+v, attempts %q", r, h.runs("slow"))
			}
			var before, after string
			kinds := ""
			for _, e := range seen.all() {
				kinds += e.Kind.String() + " "
				if e.Kind != apply.InstructionOutput {
					continue
				}
				if e.Offset != int64(len(before)+len(after)) {
					t.Errorf("offset %d after %d bytes", e.Offset, len(before)+len(after))
				}
				if e.Reported {
					before += string(e.Data)
				} else {
					after += string(e.Data)
				}
			}
			if before != "one\ntwerr\nor" || after != "o\nr\n" {
				t.Errorf("reported before %q, new %q", before, after)
			}
			if !strings.HasPrefix(kinds, "apply-resumed instruction-attached instruction-output ") || !strings.HasSuffix(kinds, " instruction-ended apply-ended ") {
				t.Error(kinds)
			}
			if diff := cmp.Diff([]string{"slow stdout one", "slow stderr err"}, logged(t, firstLog)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"slow stdout two", "slow stderr orr"}, logged(t, log.String())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWhatACancelledInstructionStillPrints is reported, once.
func TestWhatACancelledInstructionStillPrints(t *testing.T) {
	h := newHost(t)
	var seen observer
	var log bytes.Buffer
	h.options.Observe = seen.observe
	h.options.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("slow", `trap 'echo bye; exit 1' TERM; exec 2>/dev/null; echo up; while :; do sleep 0.05; done`)}}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := h.engine().Apply(ctx, delivery(t, p)); err != nil {
			t.Error(err)
		}
	}()
	h.until("it is up", func() bool { return strings.Contains(strings.Join(seen.reported(), ""), "up") })
	cancel(apply.ErrCancelled)
	<-done
	text := strings.Join(seen.reported(), "|")
	if strings.Count(text, "up") != 1 || strings.Count(text, "bye") != 1 || !strings.Contains(text, "instruction-ended 0 slow") || !strings.Contains(text, "the plan was cancelled") {
		t.Error(text)
	}
	if diff := cmp.Diff([]string{"slow stdout up", "slow stdout bye"}, logged(t, log.String())); diff != "" {
		t.Error(diff)
	}
}
