// Package runbed makes runs of RKE1's engine for tests of what decides without a host.
package runbed

import (
	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Node is a node with roles. Its internal address and its name are made of its address.
func Node(address string, roles ...string) config.Node {
	return config.Node{Address: address, InternalAddress: "10." + address, HostnameOverride: "Host-" + address, Role: roles}
}

// Of is a run over a cluster that was deployed with some nodes and shall have others, whose hosts all answered.
func Of(was, will []config.Node) *run.Run {
	r := run.New(run.Options{Report: Quiet{}}, run.Work{Config: &config.Cluster{Nodes: will}, Before: &state.State{Current: state.Part{Config: &config.Cluster{Nodes: was}}}})
	r.State = &state.State{Desired: state.Part{Config: r.Work.Config, Certificates: pki.Bundle{}}}
	for _, n := range will {
		r.Hosts[n.Address] = &run.Host{Node: n, Prefix: "/"}
	}
	return r
}

// Quiet is a report that is not read.
type Quiet struct{}

// Phase is not read.
func (Quiet) Phase(string, string) {}

// Line is not read.
func (Quiet) Line(string) {}

// Warn is not read.
func (Quiet) Warn(string, ...advice.Step) {}
