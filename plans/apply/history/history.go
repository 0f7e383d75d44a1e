// Package history is that of applied plans: what was done to this host, when, and with what end. It
// is for people and for tools that know the original agent's files, and for a server that has
// forgotten how a delivery ended; the engine itself never reads a plan from it, so no fault here
// may hold a plan up.
//
// Wire source: rancher/system-agent, applied plan directory; keys and suffix are its own,
// the names are not: it names files by local time in seconds, so that two plans of one
// second share one, and writes them before it knows how the plan ends.
package history

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

// Entry is a file's content. Plan is null when an earlier life's plan was taken back.
type Entry struct {
	Plan     *plans.Plan
	Checksum string

	Source    string    `json:"source"`
	ID        string    `json:"id"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Succeeded bool      `json:"succeeded"`
	Reason    string    `json:"reason,omitempty"`
}

// Add writes an entry into dir, durably, and removes those of its source that are too many. key is
// the source as a part of a file's name. The errors are those of the file system.
func Add(dir, key string, a Entry) error {
	ours := func(name string) bool { return strings.Contains(name, "-applied.plan") }
	if err := durable.ClosedDir(dir, ours); err != nil {
		return err
	}
	names, err := appliedNames(dir)
	if err != nil {
		return err
	}
	name, again := sameApplied(dir, names, key, a)
	if !again {
		name = nextApplied(names, a.Ended) + "-" + key + appliedSuffix
		names = append(names, name)
	}
	if err := durable.WriteJSON(filepath.Join(dir, name), a, 0o600); err != nil {
		return fmt.Errorf("write the entry: %w", err)
	}
	for _, old := range outdated(names) {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old)))
	}
	return err
}

// Find is the newest entry of a source that is wanted. Entries that cannot be read are passed over.
func Find(dir, key string, wanted func(Entry) bool) (found Entry, ok bool) {
	files, err := os.ReadDir(dir) // sorted by name, so by time
	if err != nil {
		return Entry{}, false
	}
	for _, file := range slices.Backward(files) {
		m := appliedName.FindStringSubmatch(file.Name())
		if m == nil || m[2] != key || m[3] != "" {
			continue
		}
		var e Entry
		b, err := durable.ReadFile(filepath.Join(dir, file.Name()), maxApplied)
		if err == nil && json.Unmarshal(b, &e) == nil && wanted(e) {
			return e, true
		}
	}
	return Entry{}, false
}

// appliedNames are our files, oldest first. What a crash left half-written is removed.
func appliedNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name, so by time
	if err != nil {
		return nil, err
	}
	var names []string
	var failed error
	for _, entry := range entries {
		switch m := appliedName.FindStringSubmatch(entry.Name()); {
		case m == nil:
		case m[3] != "":
			failed = errors.Join(failed, os.Remove(filepath.Join(dir, entry.Name())))
		default:
			names = append(names, entry.Name())
		}
	}
	return names, failed
}

// sameApplied finds the entry that an earlier life wrote of this delivery before it died
// without writing the outcome down.
func sameApplied(dir string, names []string, source string, a Entry) (name string, ok bool) {
	for _, name := range slices.Backward(names) {
		if appliedName.FindStringSubmatch(name)[2] != source {
			continue
		}
		var last Entry
		b, err := durable.ReadFile(filepath.Join(dir, name), maxApplied)
		if err != nil || json.Unmarshal(b, &last) != nil {
			return "", false
		}
		return name, last.ID == a.ID && last.Checksum == a.Checksum && last.Began.Equal(a.Began)
	}
	return "", false
}

// nextApplied is the time in a new name: later than every name there is, even after the clock went back.
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
