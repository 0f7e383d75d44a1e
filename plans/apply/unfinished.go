// What ledgers say while no agent runs.

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Unfinished is a delivery that an agent began and has not ended.
type Unfinished struct {
	Source    string
	Checksum  string
	Started   time.Time
	Remaining []Task // the work left, in order
}

// ReadUnfinished reads the ledgers of a directory and changes nothing. It returns what it can
// read, and the errors of the rest. A directory that is not there has none.
func ReadUnfinished(ledgerDir string) (all []Unfinished, err error) {
	entries, err := os.ReadDir(ledgerDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for ledgers: %w", err)
	}
	var faults []error
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		path := filepath.Join(ledgerDir, entry.Name())
		l, err := readLedger(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			faults = append(faults, fmt.Errorf("read the ledger %s: %w", path, err))
		case l.Outcome == nil:
			all = append(all, Unfinished{Source: l.Source, Checksum: l.Checksum, Started: l.Begun, Remaining: l.remaining()})
		}
	}
	return all, errors.Join(faults...)
}
