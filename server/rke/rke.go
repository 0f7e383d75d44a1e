// Package rke is what the server remembers of a cluster of RKE1, as it is kept in the store: its state, which has all keys of the cluster, and what others are
// shown of it without reading it.
package rke

import (
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/records"
)

const (
	// maxPlain is the largest state that is kept as it is, in bytes. Larger ones are compressed: both halves of a state have
	// mostly the same certificates.
	maxPlain = 900 << 10
	// maxPacked bounds what is kept compressed, in bytes, below what one transaction of the store takes: about 5,000 hosts
	// whose kubelets serve with certificates of their own. An external etcd and that takes less says so.
	maxPacked = 5 << 20
)

// TooLargeError is that a state is larger than what the store keeps of one cluster.
type TooLargeError struct{ Size, Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the cluster's state has %d bytes compressed, and the store keeps at most %d of one cluster: make it of fewer hosts, or leave out services.kubelet.generate_serving_certificate, "+
		"by which each host has a certificate in it", e.Size, e.Limit)
}

// State reads the state of a record; nil of none. The error says that a stored state cannot be read.
func State(r *records.RKEState) (*state.State, error) {
	if r == nil || len(r.State)+len(r.Packed) == 0 {
		return nil, nil
	}
	text, err := Text(*r)
	if err != nil {
		return nil, err
	}
	s, err := state.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state as it is stored: %w", err)
	}
	return s, nil
}

// Text is the content of cluster.rkestate that a record has, without line breaks. The error says that it cannot be unpacked.
func Text(r records.RKEState) ([]byte, error) {
	if len(r.Packed) == 0 {
		return r.State, nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(state.MaxSize), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpack the cluster's state: %w", err)
	}
	defer d.Close()
	text, err := d.DecodeAll(r.Packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack the cluster's state as it is stored: %w", err)
	}
	return text, nil
}

// with is a record with another state.
func with(r records.RKEState, text []byte) (records.RKEState, error) {
	if r.State, r.Packed = text, nil; len(text) <= maxPlain {
		return r, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithWindowSize(zstd.MaxWindowSize>>3), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return r, fmt.Errorf("pack the cluster's state: %w", err)
	}
	defer e.Close()
	r.State, r.Packed = nil, e.EncodeAll(text, nil)
	if len(r.Packed) > maxPacked {
		return r, &TooLargeError{Size: len(r.Packed), Limit: maxPacked}
	}
	return r, nil
}

// Record is a state as it is kept, with what the record before says beside it. A state that would lose the cluster is refused.
func Record(before records.RKEState, s *state.State) (records.RKEState, error) {
	was, err := State(&before)
	if err != nil {
		return before, err
	}
	if was != nil {
		if err := s.MayReplace(was); err != nil {
			return before, err
		}
	}
	return Replaced(before, s)
}

// Replaced is Record of a state that may be that of a snapshot, from before the CA was another. The errors are those of state.State.Check and of packing.
func Replaced(before records.RKEState, s *state.State) (records.RKEState, error) {
	if err := s.Check(state.Against{}); err != nil {
		return before, err
	}
	text, err := state.Compact(s)
	if err != nil {
		return before, err
	}
	next, err := with(before, text)
	if err != nil {
		return before, err
	}
	next.Hosts = nil
	for _, part := range []*config.Cluster{s.Desired.Config, s.Current.Config} {
		if part == nil {
			continue
		}
		for _, n := range part.Nodes {
			next.Hosts = append(next.Hosts, n.Address)
		}
	}
	slices.Sort(next.Hosts)
	next.Hosts = slices.Compact(next.Hosts)
	if next.Ends, err = ends(s.LastDeployed().Certificates); err != nil {
		return before, err
	}
	return next, nil
}

// ends is when each certificate of a bundle ends.
func ends(b pki.Bundle) (map[string]time.Time, error) {
	all, err := pki.Expiries(b)
	if err != nil {
		return nil, err
	}
	m := make(map[string]time.Time, len(all))
	for _, e := range all {
		m[e.Name] = e.NotAfter.UTC()
	}
	return m, nil
}
