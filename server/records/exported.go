// RKE1 clusters that are not the server's to change: exported to the rke command line, or imported and not yet taken up.

package records

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// Exported says that a cluster is in other hands, and since when.
type Exported = apitypes.Exported

// ExportedError says that something was asked for on a cluster that the server does not touch.
type ExportedError struct {
	Cluster string // its name
	Exported
}

func (e *ExportedError) Error() string {
	return fmt.Sprintf("%s, and the server does not touch it; `drover clusters resume %s` takes it up", ExportedSince(e.Exported, e.Cluster), e.Cluster)
}

// ExportedSince is a part of a sentence, as in "cluster prod was exported at 2026-11-22T12:00:00Z".
func ExportedSince(e Exported, cluster string) string {
	what := "exported"
	if e.Imported {
		what = "imported"
	}
	return fmt.Sprintf("cluster %s was %s at %s", cluster, what, e.At.UTC().Format(time.RFC3339))
}

// MayChange is nil when a cluster is the server's to change, and an *ExportedError otherwise.
func (c Cluster) MayChange() error {
	if c.Exported == nil {
		return nil
	}
	return &ExportedError{Cluster: c.Name, Exported: *c.Exported}
}
