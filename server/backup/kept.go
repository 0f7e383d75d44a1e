// The backups that a server is to make by itself, and those that there are.

package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// Schedule is what a server is to do by itself.
type Schedule struct {
	// Dir gets the files; empty makes none. It is made, mode 0700, when it is missing.
	Dir string
	// Every is the time from one backup to the next, Keep how many files stay.
	Every time.Duration
	Keep  int
	// Offsite gets each file, too, and keeps as many; nil has none.
	Offsite *Offsite
	// Seal encrypts them. Keys are put in where that is set.
	Seal Sealing
	Keys *Keys
}

// Check says what is wrong with a schedule. The error is for the person who wrote it.
func (s Schedule) Check() error {
	switch {
	case s.Dir == "":
		return nil
	case s.Every < time.Minute:
		return fmt.Errorf("a backup every %s is more often than once a minute", s.Every)
	case s.Keep < 1:
		return fmt.Errorf("%d backups are kept: at least 1 is", s.Keep)
	case s.Keys != nil && !s.Seal.Encrypts():
		return errors.New("backups with keys have to be encrypted: a reader of one has all secrets of the server")
	case s.Offsite != nil && !s.Seal.Encrypts():
		return errors.New("backups in a bucket have to be encrypted: a reader of the bucket has all clusters' settings")
	}
	return nil
}

// Kept is one file.
type Kept = apitypes.BackupFile

// Status is how scheduled backups stand.
type Status struct {
	apitypes.BackupStatus
	// Succeeded and Failed count the attempts since the server started.
	Succeeded int `json:"-"`
	Failed    int `json:"-"`
}

// abandoned is the age from which a half-written file is taken for one that a crash left.
const abandoned = 24 * time.Hour

// Name is that of the file of a backup made at a time.
func Name(at time.Time, seal Sealing) string {
	return prefix + at.UTC().Format(stamp) + seal.Suffix()
}

const prefix = "drover-"

// List is the backups in a directory, newest first. Other files are none of them. A directory that cannot be read is an error.
func List(dir string) ([]Kept, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	var files []Kept
	for _, e := range entries {
		at, ours := madeAt(e.Name())
		info, err := e.Info()
		if !ours || err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, Kept{Name: e.Name(), Made: at, Size: info.Size()})
	}
	slices.SortFunc(files, func(a, b Kept) int { return b.Made.Compare(a.Made) })
	return files, nil
}

// madeAt is when the backup of a name was made; false for what is not the name of one.
func madeAt(name string) (time.Time, bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	rest, plain := strings.CutSuffix(strings.TrimSuffix(rest, ".age"), ".tar")
	at, err := time.Parse(stamp, rest)
	return at, ours && plain && err == nil
}

// Prune removes the oldest backups beyond those that are kept, and what a crash left half-written.
// Its error is that of the first file that cannot be removed.
func Prune(dir string, keep int) error {
	files, err := List(dir)
	partial, globErr := filepath.Glob(filepath.Join(dir, prefix+"*.partial"))
	err = errors.Join(err, globErr)
	for _, path := range partial {
		at, ours := madeAt(strings.TrimSuffix(filepath.Base(path), ".partial"))
		if ours && len(files) > 0 && files[0].Made.Sub(at) > abandoned {
			err = errors.Join(err, os.Remove(path))
		}
	}
	for _, old := range files[min(keep, len(files)):] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old.Name)))
	}
	return err
}
