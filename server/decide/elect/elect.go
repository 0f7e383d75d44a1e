// Package elect finds which machine begins the cluster, where others may join, and the gates that keep all machines from getting plans. It
// sets Init, Began, Gate and JoinURL of each server.
package elect

import (
	"net/netip"
	"slices"

	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/report"
)

// LabelInitPin on a cluster names the machine, by what its host calls itself, that begins it.
const LabelInitPin = "rke.cattle.io/init-node-machine-id"

// Run is the stage.
func Run(p *pass.Pass) {
	addresses(p)
	elect(p)
	p.Gate = gates(p)
}

// addresses finds where others may join through each server. What was known stays while nothing else is.
func addresses(p *pass.Pass) {
	for _, m := range p.Members {
		if !m.IsServer() {
			continue
		}
		if address := addressOf(p, m); address != "" {
			m.Next.JoinURL = p.Distribution.JoinURL(address)
		}
	}
}

// addressOf is the address of a machine by what its node shows, what its host registered with, or what its
// own etcd reports; empty while none of them has one. An address that is in use stays while the node has it.
func addressOf(p *pass.Pass, m *pass.Member) string {
	if node, ok := p.API.Nodes[m.UID]; ok {
		shown := slices.DeleteFunc(slices.Clone(node.Addresses), func(a string) bool { _, err := netip.ParseAddr(a); return err != nil })
		if used := report.HostOf(m.Next.JoinURL); slices.Contains(shown, used) {
			return used
		}
		for _, a := range m.InternalAddress {
			if slices.Contains(shown, a) {
				return a
			}
		}
		if len(shown) > 0 {
			return shown[0]
		}
	}
	if len(m.InternalAddress) > 0 {
		return m.InternalAddress[0]
	}
	return m.Report.Address
}

// elect keeps the machine that began the cluster while it can be that, and finds another one otherwise: one that others
// can join through, else the first. Once there is an etcd no machine begins another one.
func elect(p *pass.Pass) {
	began := p.Verdict.Initialized || slices.ContainsFunc(p.Members, func(m *pass.Member) bool { return m.Roles.Etcd && m.Next.Member })
	var able, marked []*pass.Member
	for _, m := range p.Staying {
		if !m.Roles.Etcd || began && !takesPart(m) {
			continue
		}
		able = append(able, m)
		if m.Next.Init {
			marked = append(marked, m)
		}
	}
	for _, m := range p.Members {
		m.Next.Init = false
	}
	p.Began = began
	p.Init = p.Target()
	if p.Init == nil {
		p.Init = pinned(p, able)
	}
	if p.Init == nil && (began || p.Cluster.Labels[LabelInitPin] == "") {
		p.Init = choose(able, marked)
	}
	if p.Init != nil {
		p.Init.Next.Init = true
	}
}

// takesPart says that the machine has a part of the cluster's etcd: it has joined, or it is the one that began it.
func takesPart(m *pass.Member) bool { return m.Next.Member || m.HasPlan() && m.Status.JoinedTo == "" }

// pinned is the machine that the cluster's label names; nil when there is no such label, or no such machine.
func pinned(p *pass.Pass, able []*pass.Member) *pass.Member {
	id := p.Cluster.Labels[LabelInitPin]
	for _, m := range able {
		if id != "" && m.MachineID == id {
			return m
		}
	}
	return nil
}

// choose takes one of the machines that can begin the cluster, or have taken part in its etcd since it began.
func choose(able, marked []*pass.Member) *pass.Member {
	joinable := func(m *pass.Member) bool { return m.HasPlan() && m.Next.JoinURL != "" }
	first := slices.IndexFunc(able, joinable)
	if len(marked) == 1 && (joinable(marked[0]) || first < 0) {
		return marked[0]
	}
	if first < 0 {
		// A server that has begun goes on: a server of before drover knew of several began its cluster.
		first = slices.IndexFunc(able, func(m *pass.Member) bool { return m.HasPlan() && m.Status.JoinedTo == "" })
	}
	if first < 0 && len(able) > 0 {
		first = 0
	}
	if first < 0 {
		return nil
	}
	return able[first]
}
