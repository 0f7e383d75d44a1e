// Whether the source of a delivery knows its outcome, noted beside the ledger. It is not
// synced: without it an outcome is reported once more, and nothing runs twice.

package apply

import (
	"fmt"
	"os"
	"strings"

	"github.com/drover-project/drover/plans/durable"
)

func reportedPath(ledger string) string { return strings.TrimSuffix(ledger, ".json") + ".reported" }

// Reported notes that a source knows the outcome of its newest delivery, so that it is not to
// be reported again when the source asks for the same once more. The errors are those of the file system.
func (e *Engine) Reported(source, id string) error {
	path := reportedPath(e.ledgerPath(source))
	err := os.WriteFile(path+".tmp", []byte(id), 0o600)
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return fmt.Errorf("note that the outcome is reported: %w", err)
	}
	return nil
}

// isReported says whether that was noted of a delivery.
func (e *Engine) isReported(source, id string) bool {
	b, err := durable.ReadFile(reportedPath(e.ledgerPath(source)), maxLedgerSize)
	return err == nil && string(b) == id
}
