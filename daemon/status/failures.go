// The last failures outlive the agent: a person who looks after a crash or an update wants to see
// what failed before it. They are in a small file of their own, because the history of
// applied plans is kept only where it is configured, has whole plans, and knows nothing of
// periodic instructions.

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

// MaxFailures is how many failures are remembered.
const MaxFailures = 5

// maxFailuresFile bounds the file, in bytes.
const maxFailuresFile = 1 << 20

// failuresFile is its content.
type failuresFile struct {
	Failures []Failure `json:"failures"`
}

// FailuresFile is where an agent with that directory of ledgers keeps its last failures.
func FailuresFile(ledgers string) string {
	return filepath.Join(filepath.Dir(ledgers), "failures.json")
}

// ReadFailures reads the last failures of the agent's lives so far, oldest first. A file
// that is not there has none.
func ReadFailures(path string) ([]Failure, error) {
	b, err := durable.ReadFile(path, maxFailuresFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var file failuresFile
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the last failures in %s: %w", path, err)
	}
	return file.Failures[max(len(file.Failures)-MaxFailures, 0):], nil
}

// WriteFailures keeps them for the agent's next life. One path must not be written by two
// callers at once.
func WriteFailures(path string, failures []Failure) error {
	if err := durable.WriteJSON(path, failuresFile{failures}, 0o600); err != nil {
		return fmt.Errorf("keep the last failures in %s: %w", path, err)
	}
	return nil
}

// Failed is the failures in words, as the whole status has them.
func Failed(failures []Failure, now time.Time) string {
	p := &page{}
	for _, f := range failures {
		Status{Now: now}.sayFailure(p, f)
	}
	return p.b.String()
}
