// Which sources the engine holds something of, so that a source can find what it left
// behind in an earlier life.

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// Sources lists the sources that have a ledger, sorted. Ledgers that cannot be read are
// left out; Apply and Pending say what is wrong with them.
func (e *Engine) Sources() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(e.LedgerDir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the ledgers: %w", err)
	}
	var sources []string
	for _, path := range paths {
		l, err := readLedger(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			e.Logger.Debug("ledger cannot be read", "ledger", path, "error", err)
		case e.ledgerPath(l.Source) == path:
			sources = append(sources, l.Source)
		}
	}
	slices.Sort(sources)
	return sources, nil
}
