// Rotation of certificates: the new bundle is written down, and then deployed in steps after
// each of which every component trusts each other one. A run that was interrupted goes on with
// the step that hosts have not finished.

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Rotate gives a deployed cluster new certificates, and goes on with a rotation that was interrupted. It needs every
// host. The state that it returns is the last that was saved, also beside an error; the administrator's kubeconfig that
// works is the one of its Current.
func Rotate(ctx context.Context, o Options, w Work, what pki.Rotation) (*state.State, error) {
	ro, err := change.RotationOf(w.cluster(), what, o.Source())
	if err != nil {
		return w.Before, err
	}
	w.Config = ro.Next.Desired.Config
	r := newRun(o, w)
	defer r.close()
	r.restartsOnly, r.state = true, ro.Next
	r.encryption = &w.Before.Current.Encryption
	phases := []phase{
		{"hosts", "Reach the hosts", func(r *run, ctx context.Context) error { return r.reachAll(ctx, "") }},
		{"compare", "Compare with what runs", (*run).compare},
		{"state", "Keep the state", func(r *run, ctx context.Context) error { return r.beginRotation(ctx, ro) }},
	}
	for i, s := range ro.Stages {
		title := fmt.Sprintf("Step %d of %d: %s", i+1, len(ro.Stages), s.Title)
		phases = append(phases, phase{fmt.Sprintf("step-%d", i+1), title, func(r *run, ctx context.Context) error {
			r.line("certificates", "%s", title)
			return r.rotationStep(ctx, s, !ro.Ended)
		}})
	}
	phases = append(phases, phase{"end", "End", (*run).endRotation})
	err = r.perform(ctx, phases)
	return r.lastSaved(), err
}

func (r *run) beginRotation(ctx context.Context, ro *change.Rotation) error {
	if ro.Resumed {
		r.line("certificates", "Going on with the rotation that was interrupted")
	}
	for _, c := range ro.Changes {
		r.line("", "%s", c.Line)
	}
	if ro.Ended {
		r.Report.Warn("certificates of the cluster have ended, so that it does not work; all components get the new ones at once")
	}
	if err := r.save(ctx, ro.Next); err != nil {
		return err
	}
	r.line("", "Rebuilding Kubernetes cluster with rotated certificates")
	return nil
}

// rotationStep deploys one bundle everywhere, restarts what reads it, and notes that hosts have it.
func (r *run) rotationStep(ctx context.Context, s pki.Stage, gated bool) error {
	trusted := r.before.Current.Certificates[pki.CA]
	r.certificates, r.api = s.Bundle, nil
	if err := r.deployFiles(ctx); err != nil {
		return err
	}
	if err := r.restartPlanes(ctx, gated); err != nil {
		return err
	}
	same, err := change.SameRoots(trusted.CertificatePEM, s.Bundle[pki.CA].CertificatePEM)
	if err != nil {
		return err
	}
	if !same {
		if err := r.awaitTrust(ctx, s.Bundle[pki.CA].CertificatePEM); err != nil {
			return err
		}
		if err := r.restartPods(ctx); err != nil {
			return err
		}
		r.Report.Warn("pods of your own that talk to the API have the CA of before in memory: restart them before the next step, or when they fail")
	}
	next := &state.State{Desired: r.state.Desired, Current: r.state.Current}
	next.Current.Certificates = s.Bundle
	if err := r.keep(ctx, next); err != nil {
		return err
	}
	r.before.Current.Certificates = s.Bundle
	return nil
}

// awaitTrust waits until pods that start now are given the CA.
func (r *run) awaitTrust(ctx context.Context, ca string) error {
	for attempt := 1; ; attempt++ {
		err := r.api.PodsTrust(ctx, ca)
		if err == nil {
			return nil
		}
		if late := new(kube.TrustError); !errors.As(err, &late) || attempt == etcdTries {
			return err
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
}

// endRotation notes that it is over.
func (r *run) endRotation(ctx context.Context) error {
	c := *r.state.Desired.Config
	c.RotateCertificates = nil
	next := r.state.Desired
	next.Config = &c
	encryption := r.state.Current.Encryption
	s := &state.State{Desired: next, Current: next}
	s.Current.Encryption = encryption
	if err := r.keep(ctx, s); err != nil {
		return err
	}
	r.line("", "Successfully rotated certificates for the cluster")
	return nil
}

// PreviewRotate says what Rotate would do, a line each, and does nothing.
func PreviewRotate(ctx context.Context, o Options, w Work, what pki.Rotation) ([]string, error) {
	ro, err := change.RotationOf(w.cluster(), what, o.Source())
	if err != nil {
		return nil, err
	}
	w.Config = ro.Next.Desired.Config
	r := newRun(o, w)
	defer r.close()
	r.state, r.encryption = ro.Next, &w.Before.Current.Encryption
	if err := r.reachAll(ctx, ""); err != nil {
		return nil, err
	}
	if err := r.compare(ctx); err != nil {
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
		for _, name := range sortedKeys(s.Bundle) {
			if changed(name) {
				names = append(names, name)
			}
		}
		lines = append(lines, "certificates that change: "+strings.Join(names, ", "))
		for _, h := range r.with("") {
			if line := restartLine(h, reading(h, changed)); line != "" {
				lines = append(lines, line)
			}
		}
		from = s.Bundle
	}
	return lines, nil
}
