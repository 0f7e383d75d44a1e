// Rotation of certificates: the new bundle is written down, and then deployed in steps after
// each of which every component trusts each other one. A run that was interrupted goes on with
// the step that hosts have not finished.

package rollout

import (
	"context"
	"errors"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// BeginRotation writes down what is rotated. The error is that of saving the state.
func BeginRotation(ctx context.Context, r *run.Run, ro *change.Rotation) error {
	if ro.Resumed {
		r.Line("certificates", "Going on with the rotation that was interrupted")
	}
	for _, c := range ro.Changes {
		r.Line("", "%s", c.Line)
	}
	if ro.Ended {
		r.Report.Warn("certificates of the cluster have ended, so that it does not work; all components get the new ones at once")
	}
	if err := r.SaveState(ctx, ro.Next); err != nil {
		return err
	}
	r.Line("", "Rebuilding Kubernetes cluster with rotated certificates")
	return nil
}

// RotationStep deploys one bundle everywhere, restarts what reads it, and notes that hosts have it. The errors are those of the hosts, of pods that
// do not get the new CA, and of saving the state; the step can be run again.
func RotationStep(ctx context.Context, r *run.Run, s pki.Stage, gated bool) error {
	trusted := r.Before.Current.Certificates[pki.CA]
	r.Certificates, r.API = s.Bundle, nil
	if err := plane.DeployFiles(ctx, r); err != nil {
		return err
	}
	if err := restartPlanes(ctx, r, gated); err != nil {
		return err
	}
	same, err := change.SameRoots(trusted.CertificatePEM, s.Bundle[pki.CA].CertificatePEM)
	if err != nil {
		return err
	}
	if !same {
		if err := awaitTrust(ctx, r, s.Bundle[pki.CA].CertificatePEM); err != nil {
			return err
		}
		if err := api.RestartPods(ctx, r); err != nil {
			return err
		}
		r.Report.Warn("pods of your own that talk to the API have the CA of before in memory: restart them before the next step, or when they fail")
	}
	next := &state.State{Desired: r.State.Desired, Current: r.State.Current}
	next.Current.Certificates = s.Bundle
	if err := api.Keep(ctx, r, next); err != nil {
		return err
	}
	r.Before.Current.Certificates = s.Bundle
	return nil
}

// awaitTrust waits until pods that start now are given the CA.
func awaitTrust(ctx context.Context, r *run.Run, ca string) error {
	for attempt := 1; ; attempt++ {
		err := r.API.PodsTrust(ctx, ca)
		if err == nil {
			return nil
		}
		if late := new(kube.TrustError); !errors.As(err, &late) || attempt == run.EtcdTries {
			return err
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
}

// EndRotation notes that it is over. The error is that of saving the state.
func EndRotation(ctx context.Context, r *run.Run) error {
	c := *r.State.Desired.Config
	c.RotateCertificates = nil
	next := r.State.Desired
	next.Config = &c
	encryption := r.State.Current.Encryption
	s := &state.State{Desired: next, Current: next}
	s.Current.Encryption = encryption
	if err := api.Keep(ctx, r, s); err != nil {
		return err
	}
	r.Line("", "Successfully rotated certificates for the cluster")
	return nil
}
