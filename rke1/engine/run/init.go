// The state that a run makes.

package run

import (
	"crypto/rand"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Init makes the next state of a cluster from its config, and does nothing on hosts. It returns an error with advice where work is unfinished, and
// those of certificates that cannot be made or read.
func Init(w Work, src pki.Source) (*state.State, []pki.Change, error) {
	var before pki.Bundle
	if w.Before != nil {
		before = w.Before.Desired.Certificates
	}
	if err := change.Unfinished(w.Before); err != nil {
		return nil, nil, err
	}
	certificates, changes, err := change.Certificates(w.Cluster(), before, src)
	if err != nil {
		return nil, nil, err
	}
	next, err := state.Next(w.Before, w.Config, certificates, rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	return next, changes, nil
}
