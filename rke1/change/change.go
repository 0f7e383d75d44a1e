// Package change decides how work on a cluster that is there begins, and how it goes on after an interruption: the
// rotation of certificates and of the encryption key, and the restore of a snapshot. Everything follows from the state, the
// config and the time. Nothing here has a host, a network or a store; rke1/engine does what is decided.
package change

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pemtext"
	"github.com/drover-project/drover/rke1/state"
)

// Cluster is what is decided from.
type Cluster struct {
	// Config is cluster.yml, after defaults and validation.
	Config *config.Cluster
	// Before is the cluster's state, nil for a new cluster.
	Before *state.State
	// Kubeconfig is where the administrator's kubeconfig is kept, for the state alone.
	Kubeconfig string
	// Certificates are the user's own; nil lets the engine issue them.
	Certificates pki.Bundle
}

// UnfinishedError is that other work was interrupted and has to end first.
type UnfinishedError struct {
	// What was interrupted.
	What string
}

func (e *UnfinishedError) Error() string { return e.What + " was interrupted and is not finished" }

// unfinished is that error with the step that goes on with it.
func unfinished(what string, goesOn advice.Step) error {
	return advice.With(&UnfinishedError{What: what}, goesOn)
}

// The work that leaves a cluster between two states, as UnfinishedError names it.
const (
	rotatingCA = "the rotation of the cluster's CA"
	restoring  = "the restore of a snapshot"
)

// Unfinished says which work has to end before anything else may begin; nil is none. The error has the advice by which that work is resumed.
func Unfinished(s *state.State) error {
	switch {
	case s == nil || s.Desired.Config == nil:
		return nil
	case s.Desired.Config.Restore.Restore:
		return unfinished(restoring, advice.Step{Kind: advice.ResumeRestore, Snapshot: s.Desired.Config.Restore.SnapshotName})
	case s.ChangesCA():
		return unfinished(rotatingCA, advice.Step{Kind: advice.ResumeCA})
	}
	return nil
}

// AsDeployed is the config that is deployed, with the ways to the hosts of the config of now: later work changes no more
// than it says, even if more was written into cluster.yml and not brought up yet. It returns an error with advice where nothing is deployed yet.
func AsDeployed(w Cluster) (*config.Cluster, error) {
	if w.Before == nil || w.Before.Current.Config == nil {
		return nil, advice.With(errors.New("nothing of the cluster is deployed yet"), advice.Step{Kind: advice.BringUp})
	}
	c := w.Before.Current.Config.WithoutChecksums()
	c.BastionHost, c.PrivateRegistries = w.Config.BastionHost, w.Config.PrivateRegistries
	c.Nodes = nil
	for _, n := range w.Before.Current.Config.Nodes {
		if i := slices.IndexFunc(w.Config.Nodes, func(now config.Node) bool { return now.Address == n.Address }); i >= 0 {
			now := w.Config.Nodes[i]
			n.Port, n.User, n.DockerSocket, n.SSHAgentAuth = now.Port, now.User, now.DockerSocket, now.SSHAgentAuth
			n.SSHKey, n.SSHKeyPath, n.SSHCert, n.SSHCertPath = now.SSHKey, now.SSHKeyPath, now.SSHCert, now.SSHCertPath
		}
		c.Nodes = append(c.Nodes, n)
	}
	return &c, nil
}

// Rotation is a rotation of certificates.
type Rotation struct {
	// Next is the state to save before anything is deployed.
	Next *state.State
	// Stages are the steps that are left. Changes are the certificates that were issued, none when the rotation goes on.
	Stages  []pki.Stage
	Changes []pki.Change
	// Resumed says that it was begun before.
	Resumed bool
	// Ended says that a certificate has ended which components show each other: nothing of the cluster works that
	// steps could keep working.
	Ended bool
}

// RotationOf decides it from the state and the time of the source. The state that is open is what rotate_certificates of
// the desired config says, where the rke CLI has the request for one. It returns an error with advice where other work is unfinished or nothing is
// deployed, and that of pki.Rotate.
func RotationOf(w Cluster, what pki.Rotation, src pki.Source) (*Rotation, error) {
	cfg, err := AsDeployed(w)
	if err != nil {
		return nil, err
	}
	before := w.Before
	if err := Unfinished(before); err != nil && !before.ChangesCA() {
		return nil, err
	}
	ro := &Rotation{}
	if open := before.Rotation(); open != nil {
		if open.CACertificates != what.CA || !what.CA && !slices.Equal(open.Services, what.Services) {
			return nil, unfinished("another rotation of certificates", resumes(open))
		}
		ro.Resumed = true
		goal := *before.Desired.Config // with the ways to the hosts of now
		goal.Nodes, goal.BastionHost, goal.PrivateRegistries = cfg.Nodes, cfg.BastionHost, cfg.PrivateRegistries
		ro.Next = &state.State{Desired: before.Desired, Current: before.Current}
		ro.Next.Desired.Config = &goal
	} else {
		cfg.Authentication.SANs = w.Config.Authentication.SANs
		var bundle pki.Bundle
		if bundle, ro.Changes, err = pki.Rotate(cfg, before.Current.Certificates, what, src, pki.Options{Kubeconfig: w.Kubeconfig}); err != nil {
			return nil, err
		}
		cfg.RotateCertificates = &config.RotateCertificates{CACertificates: what.CA, Services: what.Services}
		encryption := before.Desired.Encryption
		if encryption == "" || before.Current.Encryption == "" {
			encryption = before.Current.Encryption
		}
		ro.Next = &state.State{Desired: state.Part{Config: cfg, Certificates: bundle, Encryption: encryption}, Current: before.Current}
		current := *before.Current.Config
		current.RotateCertificates = nil // of a rotation that the rke CLI has finished
		ro.Next.Current.Config = &current
	}
	if ro.Ended, err = ended(before.Current.Certificates, src.Now); err != nil {
		return nil, err
	}
	if ro.Ended {
		ro.Stages = []pki.Stage{{Title: "deploy the certificates", Bundle: ro.Next.Desired.Certificates}}
		return ro, nil
	}
	ro.Stages, err = pki.Stages(before.Current.Certificates, ro.Next.Desired.Certificates)
	return ro, err
}

// resumes goes on with a rotation of certificates.
func resumes(open *config.RotateCertificates) advice.Step {
	if open.CACertificates {
		return advice.Step{Kind: advice.ResumeCA}
	}
	return advice.Step{Kind: advice.ResumeCertificates, Services: open.Services}
}

// ended says whether a certificate of a bundle has ended that components show each other.
func ended(b pki.Bundle, now time.Time) (bool, error) {
	all, err := pki.Expiries(b)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(e pki.Expiry) bool {
		return e.Name != pki.ServiceAccount && e.Name != pki.Admin && e.Expired(now)
	}), nil
}

// SameRoots says whether two texts hold the same certificates, in any order. The error says that a text holds no certificates.
func SameRoots(a, b string) (bool, error) {
	left, err := pemtext.Certificates(a)
	if err != nil {
		return false, fmt.Errorf("certificates: %s: %w", pki.CA, err)
	}
	right, err := pemtext.Certificates(b)
	if err != nil {
		return false, fmt.Errorf("certificates: %s: %w", pki.CA, err)
	}
	if len(left) != len(right) {
		return false, nil
	}
	for _, c := range left {
		if !slices.ContainsFunc(right, c.Equal) {
			return false, nil
		}
	}
	return true, nil
}

// Stops says that Secrets are encrypted and shall not be.
func Stops(w Cluster) bool {
	if w.Before == nil || w.Before.Current.Config == nil || w.Before.Current.Encryption == "" {
		return false
	}
	e := w.Config.Services.KubeAPI.SecretsEncryptionConfig
	return e == nil || !e.Enabled
}

// KeyRotation decides the state at the start of a rotation of the key, or of one that is open, and the texts to deploy. It returns an error with
// advice where no Secret is encrypted, other work is unfinished, or nothing is deployed.
func KeyRotation(w Cluster, random io.Reader) (next *state.State, steps []string, err error) {
	if _, err := AsDeployed(w); err != nil {
		return nil, nil, err
	}
	if err := Unfinished(w.Before); err != nil {
		return nil, nil, err
	}
	before := w.Before
	if before.Current.Encryption == "" || Stops(w) {
		return nil, nil, advice.With(errors.New("no Secret is encrypted"), advice.Step{Kind: advice.Encrypt})
	}
	rotating := before.Desired.Encryption
	if !state.RotatesKey(rotating) {
		rotating = before.Current.Encryption
	}
	if !state.RotatesKey(rotating) {
		if rotating, err = state.RotateKey(rotating, random); err != nil {
			return nil, nil, err
		}
	}
	next = &state.State{Desired: before.Desired, Current: before.Current}
	next.Desired.Config, next.Desired.Encryption = before.Current.Config, rotating
	steps, err = state.KeySteps(before.Current.Encryption, rotating)
	return next, steps, err
}

// Certificates are the user's own, or those that the engine issues. The errors are those of pki.Make and pki.Custom.
func Certificates(w Cluster, before pki.Bundle, src pki.Source) (pki.Bundle, []pki.Change, error) {
	o := pki.Options{Kubeconfig: w.Kubeconfig}
	if w.Certificates == nil {
		return pki.Make(w.Config, before, src, o)
	}
	certificates, err := pki.Custom(w.Config, w.Certificates, o)
	return certificates, nil, err
}

// Restored is the state at the start of the restore: the config of now, certificates and keys of the snapshot's time, and nothing
// deployed. stale says that Secrets have to be written again. It returns an error with advice where Secrets of the snapshot could not be read any
// more, or its certificates have ended.
func Restored(w Cluster, in *state.State, name string, src pki.Source, random io.Reader) (next *state.State, stale bool, err error) {
	was := in
	if was == nil {
		was = w.Before
	}
	part := was.LastDeployed()
	if e := w.Config.Services.KubeAPI.SecretsEncryptionConfig; part.Encryption != "" && (e == nil || !e.Enabled) {
		return nil, false, advice.With(errors.New("the Secrets in the snapshot are encrypted, and the config has no services.kube-api.secrets_encryption_config"),
			advice.Step{Kind: advice.EncryptMeanwhile})
	}
	over, err := ended(part.Certificates, src.Now)
	if err != nil {
		return nil, false, err
	}
	if over && w.Certificates == nil {
		return nil, false, advice.With(fmt.Errorf("certificates of the state in snapshot %s have ended", name), advice.Step{Kind: advice.KeepState})
	}
	certificates, _, err := Certificates(w, part.Certificates, src)
	if err != nil {
		return nil, false, err
	}
	cfg := *w.Config
	cfg.Restore = config.Restore{Restore: true, SnapshotName: name}
	next, err = state.Next(&state.State{Desired: state.Part{Encryption: part.Encryption}}, &cfg, certificates, random)
	if err != nil {
		return nil, false, err
	}
	again := w.Before != nil && w.Before.Desired.Config.Restore.Restore // the key may be one that the try before made
	return next, again || next.Desired.Encryption != part.Encryption, nil
}
