package apply_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// clock is a clock that the test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// history is a host that keeps one, with its clock.
func history(t *testing.T) (*host, *clock) {
	h := newHost(t)
	c := &clock{time.Date(2026, 3, 29, 0, 59, 59, 500, time.UTC)}
	h.options.Now = c.now
	return h, c
}

// applied are the names in the history.
func (h *host) applied() []string {
	h.t.Helper()
	for _, e := range h.engines {
		e.FinishHistory()
	}
	entries, err := os.ReadDir(h.options.AppliedDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func of(source, id string) func(*apply.Delivery) {
	return func(d *apply.Delivery) { d.Source, d.ID = source, id }
}

// TestHistorySaysHowAPlanEnded: success and failure, under the original's keys and our own.
func TestHistorySaysHowAPlanEnded(t *testing.T) {
	h, _ := history(t)
	ok := plans.Plan{Files: []plans.File{file("/etc/one", "1")}}
	bad := plans.Plan{Instructions: []plans.OneTimeInstruction{shell("a", "exit 3")}}
	h.apply(ok, of("remote", "uid-1"))
	h.apply(bad, of("sub/Some plan.plan", "uid-2"))
	want := []string{"20260329-005959.000000500-remote-applied.plan", "20260329-005959.000000501-_50097009048dfdd9dbcb445ba40b72b7-applied.plan"}
	if diff := cmp.Diff(want, h.applied()); diff != "" {
		t.Fatal(diff)
	}
	for i, p := range []plans.Plan{ok, bad} {
		path := filepath.Join(h.options.AppliedDir, want[i])
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Error(info.Mode(), err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(h.content(path)), &got); err != nil {
			t.Fatal(err)
		}
		b, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var plan any
		if err := json.Unmarshal(b, &plan); err != nil {
			t.Fatal(err)
		}
		expected := []map[string]any{
			{"source": "remote", "id": "uid-1", "succeeded": true},
			{"source": "sub/Some plan.plan", "id": "uid-2", "succeeded": false, "reason": "instruction a: exit code 3"},
		}[i]
		expected["Plan"], expected["Checksum"] = plan, plans.Checksum(b)
		expected["began"], expected["ended"] = "2026-03-29T00:59:59.0000005Z", "2026-03-29T00:59:59.0000005Z"
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Error(diff)
		}
	}
	if info, err := os.Stat(h.options.AppliedDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
}

// TestHistoryIsThereBeforeTheNextPlan: an entry is added behind the report of an end, and before anything else is begun.
func TestHistoryIsThereBeforeTheNextPlan(t *testing.T) {
	h, _ := history(t)
	begun := 0
	h.options.Observe = func(e apply.Event) {
		if e.Kind != apply.ApplyBegan {
			return
		}
		entries, err := os.ReadDir(h.options.AppliedDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) != begun {
			t.Errorf("plan %d begins, and the history has %d entries, %v", begun+1, len(entries), err)
		}
		begun++
	}
	e := h.engine()
	for i := range 3 {
		if _, err := e.Apply(t.Context(), delivery(t, plans.Plan{}, of("remote", fmt.Sprint("uid-", i)))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHistoryIsNotChurned by plans that are asked for again and again in turn.
func TestHistoryIsNotChurned(t *testing.T) {
	h, _ := history(t)
	e := h.engine()
	for range 3 {
		for i := range 4 {
			d := delivery(t, plans.Plan{Files: []plans.File{file(fmt.Sprintf("/etc/%d", i), "x")}}, of(fmt.Sprintf("plan-%d", i), "uid-1"))
			if _, err := e.Apply(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if _, err := e.RestoreFiles(t.Context(), apply.Standing{Source: d.Source, Checksum: d.Checksum, Plan: d.Plan}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if names := h.applied(); len(names) != 4 {
		t.Errorf("%q", names)
	}
}

// TestHistoryIsInOrder whatever the clock does, and every plan has a file of its own.
func TestHistoryIsInOrder(t *testing.T) {
	h, c := history(t)
	e := h.engine()
	var order []string
	for i, step := range []time.Duration{0, 0, time.Second, -24 * time.Hour, time.Nanosecond, 48 * time.Hour, -time.Hour} {
		c.at = c.at.Add(step)
		if _, err := e.Apply(t.Context(), delivery(t, plans.Plan{}, of(fmt.Sprintf("p%d", i%3), fmt.Sprint("uid-", i)))); err != nil {
			t.Fatal(err)
		}
		fresh := slices.DeleteFunc(h.applied(), func(name string) bool { return slices.Contains(order, name) })
		if len(fresh) != 1 {
			t.Fatalf("after %d: %q", i, fresh)
		}
		order = append(order, fresh[0])
	}
	if !slices.IsSorted(order) {
		t.Errorf("%q", order)
	}
}

// TestHistoryKeepsTheNewestOfEachSource, and leaves files alone that are not its own.
func TestHistoryKeepsTheNewestOfEachSource(t *testing.T) {
	h, c := history(t)
	e := h.engine()
	if err := os.Mkdir(h.options.AppliedDir, 0o755); err != nil {
		t.Fatal(err)
	}
	foreign := []string{"20200101-000000-applied.plan", "20200101-000000.000000000-remote-applied.plan.bak", "notes"}
	for _, name := range append([]string{"20200101-000000.000000000-remote-applied.plan.tmp"}, foreign...) {
		if err := os.WriteFile(filepath.Join(h.options.AppliedDir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do := func(source string, i int) {
		c.at = c.at.Add(time.Minute)
		if _, err := e.Apply(t.Context(), delivery(t, plans.Plan{}, of(source, fmt.Sprint("uid-", i)))); err != nil {
			t.Fatal(err)
		}
	}
	do("quiet", 0)
	for i := range 70 {
		do("busy", i)
	}
	count := map[string]int{}
	for _, name := range h.applied() {
		switch {
		case slices.Contains(foreign, name):
			count["foreign"]++
		case strings.HasSuffix(name, "-busy-applied.plan"):
			count["busy"]++
		case strings.HasSuffix(name, "-quiet-applied.plan"):
			count["quiet"]++
		default:
			count[name]++
		}
	}
	if diff := cmp.Diff(map[string]int{"foreign": 3, "busy": 64, "quiet": 1}, count); diff != "" {
		t.Error(diff)
	}
}

// TestHistoryIsClosedToOthers, but not a directory that has more in it than the history.
func TestHistoryIsClosedToOthers(t *testing.T) {
	for foreign, want := range map[string]os.FileMode{"20200101-000000-applied.plan": 0o700, "syslog": 0o755} {
		h, _ := history(t)
		if err := os.Mkdir(h.options.AppliedDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.options.AppliedDir, foreign), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h.apply(plans.Plan{})
		entries := h.applied()
		info, err := os.Stat(h.options.AppliedDir)
		if err != nil || info.Mode().Perm() != want || len(entries) != 2 {
			t.Errorf("beside %s: %v %v, %q", foreign, info.Mode(), err, h.applied())
		}
	}
}

// TestHistoryThatCannotBeWritten is no reason to hold a plan up.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	h, _ := history(t)
	var log bytes.Buffer
	h.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := os.WriteFile(h.options.AppliedDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := h.engine()
	if r, err := e.Apply(t.Context(), delivery(t, plans.Plan{})); err != nil || !r.Succeeded {
		t.Errorf("%+v, %v", r, err)
	}
	e.FinishHistory()
	if !strings.Contains(log.String(), "applied plan is not added to the history") {
		t.Error(log.String())
	}
}
