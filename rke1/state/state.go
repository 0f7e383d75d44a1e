// Package state is cluster.rkestate, the only memory of an RKE1 cluster: read, checked before
// it is relied on, and written so that neither a crash nor a worse state takes the place
// of a good one. Its bytes are those of the rke CLI, which can take a cluster over at any time.
//
// Wire source: rancher/rke v1.6 cluster/state.go (schema, file names), k8s/state.go (Secret).
package state

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/drover-project/drover/plans/jsonfault"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
)

// MaxSize bounds a state, in bytes. One of a thousand hosts whose kubelets serve with certificates
// has a quarter of it.
const MaxSize = 64 << 20

// Where a cluster keeps its own state: a Secret, whose one key has the Secret's name and whose
// content is Compact. The rke CLI before 1.4.19, 1.5.10 and 1.6.0 had a ConfigMap of the same name
// there, which is to be deleted: everybody could read it.
const (
	SecretNamespace = "kube-system"
	SecretName      = "full-cluster-state"
	SecretKey       = "full-cluster-state"
)

// State is what a cluster shall be and what it was last known to be. All of it is secret.
type State struct {
	// Desired is made at the start of a run.
	Desired Part `json:"desiredState"`
	// Current is what was deployed. Without a Config, nothing has been yet.
	Current Part `json:"currentState"`
}

// Part is one of the two.
type Part struct {
	Config       *config.Cluster `json:"rkeConfig,omitempty"`
	Certificates pki.Bundle      `json:"certificatesBundle,omitempty"`
	// Encryption is the text of an EncryptionConfiguration; "" where Secrets are not encrypted.
	Encryption string `json:"encryptionConfig,omitempty"`
}

// Next is the state at the start of a run: the config and the certificates that are wanted now, and
// what was deployed. before is nil for a new cluster; certificates are those of pki.Make,
// pki.Rotate or pki.Custom. random makes an encryption key if one is needed. Its errors are those of certificates that do not parse.
func Next(before *State, cfg *config.Cluster, certificates pki.Bundle, random io.Reader) (*State, error) {
	if before == nil {
		before = &State{}
	}
	known := before.Desired.Encryption
	if known == "" && before.Current.Encryption != "" {
		// Encryption was on its way out and comes back: a new key could not read what is there.
		known = before.Current.Encryption
		if own, err := Writing(known); err == nil {
			known = own
		}
	}
	encryption, err := Encryption(cfg, known, random)
	if err != nil {
		return nil, err
	}
	return &State{
		Desired: Part{Config: cfg, Certificates: certificates, Encryption: encryption},
		Current: before.Current,
	}, nil
}

// Deployed is the state after what is desired was deployed.
func (s *State) Deployed() *State { return &State{Desired: s.Desired, Current: s.Desired} }

// LastDeployed is what was deployed last; of a state that never came so far, what was wanted.
func (s *State) LastDeployed() Part {
	if s.Current.Config != nil {
		return s.Current
	}
	return s.Desired
}

// ChangesCA says whether the cluster is on its way to another CA: pki.Stages of the two bundles has
// the steps that are left.
func (s *State) ChangesCA() bool {
	from, to := s.Current.Certificates[pki.CA], s.Desired.Certificates[pki.CA]
	return from.CertificatePEM != "" && from.CertificatePEM != to.CertificatePEM
}

// Rotation is the rotation of certificates that was begun and is not finished; nil is none. The rke CLI leaves rotateCertificates
// in both parts of a state whose rotation it has finished, until its next run.
func (s *State) Rotation() *config.RotateCertificates {
	if s.Desired.Config != nil && s.Desired.Config.RotateCertificates != nil {
		asked, done := s.Desired.Config.RotateCertificates, (*config.RotateCertificates)(nil)
		if s.Current.Config != nil {
			done = s.Current.Config.RotateCertificates
		}
		// Every run of the rke CLI makes the administrator's certificate anew.
		same := func(is, was pki.Certificate) bool { return is == was || is.Name == pki.Admin && was.Name == pki.Admin }
		if done == nil || asked.CACertificates != done.CACertificates || !slices.Equal(asked.Services, done.Services) ||
			!maps.EqualFunc(s.Desired.Certificates, s.Current.Certificates, same) {
			return asked
		}
	}
	if s.ChangesCA() {
		return &config.RotateCertificates{CACertificates: true}
	}
	return nil
}

// Decode reads a state without looking at what it says; Check does. Its error quotes nothing
// of the text.
func Decode(b []byte) (*State, error) {
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%d bytes long, at most %d are read", len(b), MaxSize)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, jsonfault.Plain(err)
	}
	return &s, nil
}

// Encode is the content of the file: two spaces of indentation, no newline at the end. Its error is that of encoding/json.
func Encode(s *State) ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the state: %w", err)
	}
	return b, nil
}

// Compact is the content of the Secret in the cluster, and of the file beside an etcd snapshot. Its error is that of encoding/json.
func Compact(s *State) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the state: %w", err)
	}
	return b, nil
}
