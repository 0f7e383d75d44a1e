// The directories that instructions run in, and their removal. The work directory
// itself comes from a configuration file that may be wrong, so nothing but directories
// with names of our own making is ever removed from it.

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/supervise"
)

const (
	// runLayout is the name of one apply's directory: UTC, in an order that sorts.
	runLayout = "20060102T150405.000000000Z"
	// runsKept is how many directories of ended applies stay for inspection.
	runsKept = 4
)

var runName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z$`)

// runs are the directories in use that no ledger may speak of yet.
type runs struct {
	mu    sync.Mutex
	inUse map[string]bool
}

func (r *runs) use(name string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inUse == nil {
		r.inUse = map[string]bool{}
	}
	r.inUse[name] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.inUse, name)
	}
}

// newRun makes a directory for one apply or one round of periodic instructions. It is not
// pruned before done is called.
func (e *Engine) newRun() (name string, done func(), err error) {
	if err := os.MkdirAll(e.WorkDir, 0o755); err != nil {
		return "", nil, err
	}
	at := e.Now().UTC()
	for range 1000 {
		name := at.Format(runLayout)
		done := e.runs.use(name)
		err := os.Mkdir(filepath.Join(e.WorkDir, name), 0o755)
		if err == nil {
			return name, done, nil
		}
		done()
		if !errors.Is(err, fs.ErrExist) {
			return "", nil, err
		}
		at = at.Add(time.Nanosecond)
	}
	return "", nil, fmt.Errorf("no free name for a directory in %s", e.WorkDir)
}

// sandbox is the working directory of an instruction.
func (e *Engine) sandbox(l *ledger, i int) string {
	return filepath.Join(e.WorkDir, l.Run, fmt.Sprintf("%s_%d", l.Checksum, i))
}

// tryDir is where the supervisor of the instruction's last try keeps its files: beside the
// sandbox, so that it is not in the instruction's way.
func (e *Engine) tryDir(l *ledger, i int) string {
	return fmt.Sprintf("%s.%d", e.sandbox(l, i), l.Instructions[i].Tries)
}

// prune removes directories of ended applies, in the background and one at a time.
func (e *Engine) prune() {
	if e.PreserveWorkDir || !e.pruning.CompareAndSwap(false, true) {
		return
	}
	e.background.Go(func() {
		defer e.pruning.Store(false)
		if err := e.pruneNow(); err != nil {
			e.Logger.Warn("old working directories cannot be removed", "directory", e.WorkDir, "error", err)
		}
	})
}

func (e *Engine) pruneNow() error {
	entries, err := os.ReadDir(e.WorkDir) // sorted by name, so by time
	if err != nil {
		return err
	}
	used, err := e.usedRuns()
	if err != nil {
		return err
	}
	var old []string
	for _, entry := range entries {
		if entry.IsDir() && runName.MatchString(entry.Name()) {
			old = append(old, entry.Name())
		}
	}
	var failed error
	for _, name := range old[:max(len(old)-runsKept, 0)] {
		dir := filepath.Join(e.WorkDir, name)
		if !used[name] && !supervised(dir) {
			failed = errors.Join(failed, os.RemoveAll(dir))
		}
	}
	return failed
}

// usedRuns are the directories in use and those that ledgers speak of.
func (e *Engine) usedRuns() (map[string]bool, error) {
	names, err := filepath.Glob(filepath.Join(e.LedgerDir, "*.json"))
	if err != nil {
		return nil, err
	}
	e.runs.mu.Lock()
	used := maps.Clone(e.runs.inUse)
	e.runs.mu.Unlock()
	if used == nil {
		used = map[string]bool{}
	}
	for _, name := range names {
		l, err := readLedger(name)
		var damaged *damagedError
		if errors.Is(err, fs.ErrNotExist) || errors.As(err, &damaged) {
			continue
		}
		if err != nil {
			return nil, err // a newer agent's ledger: its directories are not ours to remove
		}
		used[l.Run] = true
	}
	return used, nil
}

// supervised says whether a supervisor still works in one of the run's directories.
func supervised(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), ".") && supervise.Alive(filepath.Join(dir, entry.Name())) {
			return true
		}
	}
	return false
}
