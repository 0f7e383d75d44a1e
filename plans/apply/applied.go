// The history of applied plans: what was done to this host, when, and with what end. It
// is for people and for tools that know the original agent's files; the engine itself
// never reads a plan from it, so no fault here may hold a plan up.
//
// Wire source: rancher/system-agent, applied plan directory; keys and suffix are its own,
// the names are not: it names files by local time in seconds, so that two plans of one
// second share one, and writes them before it knows how the plan ends.

package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/durable"
)

const (
	// appliedLayout begins a file's name: UTC, in an order that sorts, also among the names
	// of the original agent.
	appliedLayout = "20060102-150405.000000000"
	appliedSuffix = "-applied.plan"
	// appliedKept is how many stay of one source, appliedMost of all together.
	appliedKept = 64
	appliedMost = 1024
	// maxApplied is far more than a plan and what is noted of it.
	maxApplied = 2 * plans.MaxSize
)

// appliedName is the time and the source.
var appliedName = regexp.MustCompile(`^(\d{8}-\d{6}\.\d{9})-([a-z0-9_][a-z0-9-]*)-applied\.plan(\.tmp)?$`)

// applied is a file's content. Plan is null when an earlier life's plan was taken back.
type applied struct {
	Plan     *plans.Plan
	Checksum string

	Source    string    `json:"source"`
	ID        string    `json:"id"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Succeeded bool      `json:"succeeded"`
	Reason    string    `json:"reason,omitempty"`
}

// historyEntry is an entry of the history that is to be written.
type historyEntry struct {
	file durable.File
	old  []string // paths of entries that are too many after it
}

// entry is what the history gets of the delivery, whose outcome is known; nil when there is
// no history, or it cannot be written, which is logged.
func (w *work) entry(o outcome) *historyEntry {
	if w.AppliedDir == "" {
		return nil
	}
	l := w.ledger
	h, err := w.historyEntry(applied{
		Plan: w.d.Plan, Checksum: l.Checksum, Source: l.Source, ID: l.ID,
		Began: l.Begun, Ended: o.Ended, Succeeded: o.Succeeded, Reason: o.Reason,
	})
	if err != nil {
		w.historyFailed(err)
		return nil
	}
	return h
}

func (w *work) historyFailed(err error) {
	w.log.Error("applied plan is not added to the history", "directory", w.AppliedDir, "error", err)
}

func (e *Engine) historyEntry(a applied) (*historyEntry, error) {
	ours := func(name string) bool { return strings.Contains(name, "-applied.plan") }
	if err := closedDir(e.AppliedDir, ours); err != nil {
		return nil, err
	}
	names, err := e.appliedNames()
	if err != nil {
		return nil, err
	}
	source := fileKey(a.Source)
	name, again := e.sameApplied(names, source, a)
	if !again {
		name = nextApplied(names, a.Ended) + "-" + source + appliedSuffix
		names = append(names, name)
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the entry: %w", err)
	}
	h := &historyEntry{file: durable.File{Path: filepath.Join(e.AppliedDir, name), Data: append(b, '\n'), Mode: 0o600}}
	for _, old := range outdated(names) {
		h.old = append(h.old, filepath.Join(e.AppliedDir, old))
	}
	return h, nil
}

// shorten removes the entries that are too many.
func (h *historyEntry) shorten() error {
	var failed error
	for _, old := range h.old {
		failed = errors.Join(failed, os.Remove(old))
	}
	return failed
}

// appliedNames are our files, oldest first. What a crash left half-written is removed.
func (e *Engine) appliedNames() ([]string, error) {
	entries, err := os.ReadDir(e.AppliedDir) // sorted by name, so by time
	if err != nil {
		return nil, err
	}
	var names []string
	var failed error
	for _, entry := range entries {
		switch m := appliedName.FindStringSubmatch(entry.Name()); {
		case m == nil:
		case m[3] != "":
			failed = errors.Join(failed, os.Remove(filepath.Join(e.AppliedDir, entry.Name())))
		default:
			names = append(names, entry.Name())
		}
	}
	return names, failed
}

// sameApplied finds the entry that an earlier life wrote of this delivery before it died
// without writing the outcome down.
func (e *Engine) sameApplied(names []string, source string, a applied) (name string, ok bool) {
	for _, name := range slices.Backward(names) {
		if appliedName.FindStringSubmatch(name)[2] != source {
			continue
		}
		var last applied
		b, err := durable.ReadFile(filepath.Join(e.AppliedDir, name), maxApplied)
		if err != nil || json.Unmarshal(b, &last) != nil {
			return "", false
		}
		return name, last.ID == a.ID && last.Checksum == a.Checksum && last.Began.Equal(a.Began)
	}
	return "", false
}

// nextApplied is the time in a new name: later than every name there is, whatever the clock says.
func nextApplied(names []string, now time.Time) string {
	if len(names) > 0 {
		newest, err := time.Parse(appliedLayout, appliedName.FindStringSubmatch(names[len(names)-1])[1])
		if err == nil && !now.After(newest) {
			now = newest.Add(time.Nanosecond)
		}
	}
	return now.UTC().Format(appliedLayout)
}

// outdated are the names that are too many.
func outdated(names []string) []string {
	var old []string
	seen := map[string]int{}
	kept := 0
	for _, name := range slices.Backward(names) {
		source := appliedName.FindStringSubmatch(name)[2]
		if seen[source]++; seen[source] > appliedKept || kept == appliedMost {
			old = append(old, name)
		} else {
			kept++
		}
	}
	return old
}

// closedDir makes a directory that only its owner may look into. One that was there is
// closed to others, unless it holds more than the agent's own: a configuration may name
// /var/log. The files in it are the owner's alone in any case.
func closedDir(dir string, ours func(name string) bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !ours(entry.Name()) {
			return nil
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close the directory to others: %w", err)
	}
	return nil
}
