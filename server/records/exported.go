// RKE1 clusters that are not the server's to change: exported to the rke command line, or imported and not yet taken up.

package records

import (
	"fmt"
	"time"
)

// Exported says that a cluster is in other hands, and since when.
type Exported struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
	// Imported says that it has never been in the server's: it was made by the rke command line, and nobody has said yet that
	// the server may begin.
	Imported bool `json:"imported,omitempty"`
}

// ExportedError says that something was asked for on a cluster that the server does not touch.
type ExportedError struct {
	Cluster string // its name
	Exported
}

func (e *ExportedError) Error() string {
	return fmt.Sprintf("%s, and the server does not touch it; `drover clusters resume %s` takes it up", e.Since(e.Cluster), e.Cluster)
}

// Since is a part of a sentence, as in "cluster prod was exported at 2026-11-22T12:00:00Z".
func (e Exported) Since(cluster string) string {
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
