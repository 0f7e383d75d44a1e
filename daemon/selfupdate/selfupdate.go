// Package selfupdate replaces the agent on its own host and takes the new one back when
// it does not work.
//
// One actor decides, and it is not the new binary: the one it replaces, kept beside it as
// <program>.previous and run as a unit of its own (rancher-system-agent-update.service).
// That unit is enabled before anything is changed, so the decision also outlives kills
// and reboots. What is about to be done stands in a file first (intent.json); every step
// looks at the host anew and can be done twice. What came of it stands in last.json.
//
// The agent itself knows nothing of updates: it writes down that it is healthy
// (health.json), always, and readers compare.
package selfupdate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

// Names on the host.
const (
	// Service is the agent's unit.
	Service = "rancher-system-agent.service"
	// WatchService is the unit that decides on an update; it exists as long as one is under way.
	WatchService = "rancher-system-agent-update.service"
	// WatchCommand is the agent's command that this unit runs, with the directory as argument.
	WatchCommand = "self-update-watch"

	previousSuffix = ".previous"
	schema         = 1
	maxRecord      = 64 << 10
)

// Dir is the directory of an agent's updates, given the directory of its ledger.
func Dir(ledger string) string { return filepath.Join(filepath.Dir(ledger), "update") }

// Health is what a running agent says of itself (health.json).
type Health struct {
	// PID and Boot, the boot id, say which life it is about.
	PID  int    `json:"pid"`
	Boot string `json:"boot"`
	// Version is that of the agent.
	Version string `json:"version"`
	// Remote says that it has a server, Connected that it has reached it once in this life.
	Remote    bool `json:"remote"`
	Connected bool `json:"connected"`
}

// Intent is an update under way (intent.json).
type Intent struct {
	Schema int `json:"schema"`
	// ID names the update in Last.
	ID    string    `json:"id"`
	Begun time.Time `json:"begun"`
	// Program is what the service runs; Staged, beside it, is the new one until it takes its
	// place, and Previous a copy of the old one.
	Program  string `json:"program"`
	Staged   string `json:"staged"`
	Previous string `json:"previous"`
	// Old and New are the SHA-256 of the two, in hexadecimal.
	Old        string `json:"oldChecksum"`
	New        string `json:"newChecksum"`
	OldVersion string `json:"oldVersion"`
	NewVersion string `json:"newVersion"`
	// Connect asks that the new agent reaches its server, as the old one had.
	Connect bool `json:"connect"`
	// Within is how long the new agent may take, in seconds; Deadline is when that is over
	// unless the host goes down meanwhile. In each boot the time begins anew.
	Within   int       `json:"withinSeconds"`
	Deadline time.Time `json:"deadline"`
	Boot     string    `json:"boot"`
	// Until is the deadline in seconds of Boot's uptime, which no set clock moves.
	Until float64 `json:"until"`
	Boots int     `json:"boots"`
	// InPlace says that the program is the place of a mount and is written over: what a crash leaves of it is neither of the two.
	InPlace bool `json:"inPlace,omitempty"`
	// Back is why the new agent goes back; empty as long as it does not.
	Back string `json:"back,omitempty"`
}

// Last is how the last update ended (last.json).
type Last struct {
	ID         string    `json:"id"`
	Ended      time.Time `json:"ended"`
	OldVersion string    `json:"oldVersion"`
	NewVersion string    `json:"newVersion"`
	// Updated says that the new agent stays. Otherwise Reason says why it does not.
	Updated bool   `json:"updated"`
	Reason  string `json:"reason,omitempty"`
}

// Err is nil after a good update.
func (l Last) Err() error {
	if l.Updated {
		return nil
	}
	return fmt.Errorf("the update from %s to %s was taken back at %s: %s", l.OldVersion, l.NewVersion, l.Ended.UTC().Format(time.RFC3339), l.Reason)
}

func intentFile(dir string) string { return filepath.Join(dir, "intent.json") }
func healthFile(dir string) string { return filepath.Join(dir, "health.json") }
func lastFile(dir string) string   { return filepath.Join(dir, "last.json") }

// WriteHealth is for the agent. The errors are those of making the directory and of writing.
func WriteHealth(dir string, h Health) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of updates: %w", err)
	}
	if err := durable.WriteJSON(healthFile(dir), h, 0o600); err != nil {
		return fmt.Errorf("write down the agent's health: %w", err)
	}
	return nil
}

// ReadLast says how the last update ended; ok is false when there was none. The error says that the record cannot be read.
func ReadLast(dir string) (last Last, ok bool, err error) {
	ok, err = readRecord(lastFile(dir), &last)
	return last, ok, err
}

// TakenBack is what an agent reports of its last update: nil when that succeeded or there was none. An
// agent that was just put back finds the reason in the intent, whose end it is itself a part of. The second error says that a record cannot be read.
func TakenBack(dir string) (fault error, err error) {
	var in Intent
	if ok, err := readRecord(intentFile(dir), &in); err != nil {
		return nil, err
	} else if ok && in.Back == "" {
		return nil, nil // another one is under way, and this agent may be its outcome
	} else if ok {
		return fmt.Errorf("the update from %s to %s was taken back: %s", in.OldVersion, in.NewVersion, in.Back), nil
	}
	last, ok, err := ReadLast(dir)
	if err != nil || !ok {
		return nil, err
	}
	return last.Err(), nil
}

// readRecord reads one of our JSON files; ok is false when it is not there.
func readRecord(path string, into any) (ok bool, err error) {
	b, err := durable.ReadFile(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("read %s: it is no record of this agent (%w); remove it", path, err)
	}
	return true, nil
}

// checksum is the SHA-256 of a file in hexadecimal; empty when there is none.
func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyProgram puts a copy of a program in a place, whole or not at all.
func copyProgram(from, to string) error {
	temp := to + ".tmp"
	err := overwrite(from, temp, os.O_CREATE)
	if err == nil {
		err = os.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy %s to %s: %w", from, to, err), removeAll(temp))
	}
	return durable.SyncDir(filepath.Dir(to))
}

// overwrite writes one program over another.
func overwrite(from, to string, flag int) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC|flag, 0o700) // #nosec G302 -- a program
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Chmod(0o755), dst.Sync(), dst.Close())
}

// removeAll removes files that may not be there.
func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// BootID names the present boot of the host. The error says that the kernel's file cannot be read.
func BootID() (string, error) {
	b, err := durable.ReadFile("/proc/sys/kernel/random/boot_id", 100)
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
