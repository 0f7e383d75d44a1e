// Rotation of certificates: the new bundle is written down, and then deployed in steps after
// each of which every component trusts each other one. A run that was interrupted goes on with
// the step that hosts have not finished.

package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/rollout"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Rotate gives a deployed cluster new certificates, and goes on with a rotation that was interrupted. It needs every
// host. The state that it returns is the last that was saved, also beside an error; the administrator's kubeconfig that
// works is the one of its Current.
func Rotate(ctx context.Context, o run.Options, w run.Work, what pki.Rotation) (*state.State, error) {
	ro, err := change.RotationOf(w.Cluster(), what, o.Source())
	if err != nil {
		return w.Before, err
	}
	w.Config = ro.Next.Desired.Config
	r := run.New(o, w)
	defer r.Close()
	r.RestartsOnly, r.State = true, ro.Next
	r.Encryption = &w.Before.Current.Encryption
	phases := []run.Phase{
		{ID: "hosts", Title: "Reach the hosts", Run: func(ctx context.Context, r *run.Run) error { return reach.Every(ctx, r, "") }},
		comparePhase,
		{ID: "state", Title: "Keep the state", Run: func(ctx context.Context, r *run.Run) error { return rollout.BeginRotation(ctx, r, ro) }},
	}
	for i, s := range ro.Stages {
		title := fmt.Sprintf("Step %d of %d: %s", i+1, len(ro.Stages), s.Title)
		phases = append(phases, run.Phase{ID: fmt.Sprintf("step-%d", i+1), Title: title, Run: func(ctx context.Context, r *run.Run) error {
			r.Line("certificates", "%s", title)
			return rollout.RotationStep(ctx, r, s, !ro.Ended)
		}})
	}
	phases = append(phases, run.Phase{ID: "end", Title: "End", Run: rollout.EndRotation})
	err = r.Perform(ctx, phases)
	return r.LastSaved(), err
}

// PreviewRotate says what Rotate would do, a line each, and does nothing. The errors are those that Rotate would begin with.
func PreviewRotate(ctx context.Context, o run.Options, w run.Work, what pki.Rotation) ([]string, error) {
	ro, err := change.RotationOf(w.Cluster(), what, o.Source())
	if err != nil {
		return nil, err
	}
	w.Config = ro.Next.Desired.Config
	r := run.New(o, w)
	defer r.Close()
	r.State, r.Encryption = ro.Next, &w.Before.Current.Encryption
	if err := reach.Every(ctx, r, ""); err != nil {
		return nil, err
	}
	if err := reach.Compare(ctx, r); err != nil {
		return nil, err
	}
	var lines []string
	if ro.Resumed {
		lines = append(lines, "a rotation was interrupted and goes on")
	}
	from := w.Before.Current.Certificates
	for i, s := range ro.Stages {
		changed := func(entry string) bool {
			return from[entry].CertificatePEM != s.Bundle[entry].CertificatePEM || from[entry].KeyPEM != s.Bundle[entry].KeyPEM
		}
		lines = append(lines, fmt.Sprintf("step %d of %d: %s", i+1, len(ro.Stages), s.Title))
		var names []string
		for _, name := range run.SortedKeys(s.Bundle) {
			if changed(name) {
				names = append(names, name)
			}
		}
		lines = append(lines, "certificates that change: "+strings.Join(names, ", "))
		for _, h := range r.With("") {
			if line := plane.RestartLine(h, plane.Reading(h, changed)); line != "" {
				lines = append(lines, line)
			}
		}
		from = s.Bundle
	}
	return lines, nil
}
