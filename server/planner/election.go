// Which machine begins the cluster, and where others join.

package planner

import (
	"fmt"
	"hash/crc32"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// labelInitPin on a cluster names the machine, by what its host calls itself, that begins it.
const labelInitPin = "rke.cattle.io/init-node-machine-id"

// addresses finds where others may join through each server. What was known stays while nothing else is.
func (r *round) addresses() {
	for _, m := range r.members {
		if !m.isServer() {
			continue
		}
		if address := r.addressOf(m); address != "" {
			m.next.joinURL = r.distribution.JoinURL(address)
		}
	}
}

// addressOf is the address of a machine by what its node shows, what its host registered with, or what its
// own etcd reports; empty while none of them has one. An address that is in use stays while the node has it.
func (r *round) addressOf(m *member) string {
	if node, ok := r.API.Nodes[m.UID]; ok {
		shown := slices.DeleteFunc(slices.Clone(node.Addresses), func(a string) bool { _, err := netip.ParseAddr(a); return err != nil })
		if used := hostOf(m.next.joinURL); slices.Contains(shown, used) {
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
	return m.report.address
}

func hostOf(joinURL string) string {
	u, err := url.Parse(joinURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// elect keeps the machine that began the cluster while it can be that, and finds another one otherwise: one that others
// can join through, else the first. Once there is an etcd nobody begins another one.
func (r *round) elect() {
	began := r.cluster.initialized || slices.ContainsFunc(r.members, func(m *member) bool { return m.Roles.Etcd && m.next.member })
	var able, marked []*member
	for _, m := range r.staying {
		if !m.Roles.Etcd || began && !m.began() {
			continue
		}
		able = append(able, m)
		if m.next.init {
			marked = append(marked, m)
		}
	}
	for _, m := range r.members {
		m.next.init = false
	}
	r.began = began
	r.init = r.target()
	if r.init == nil {
		r.init = r.pinned(able)
	}
	if r.init == nil && (began || r.Cluster.Labels[labelInitPin] == "") {
		r.init = choose(able, marked)
	}
	if r.init != nil {
		r.init.next.init = true
	}
}

// began says that the machine has a part of the cluster's etcd: it has joined, or it is the one that began it.
func (m *member) began() bool { return m.next.member || m.hasPlan() && m.Status.JoinedTo == "" }

// pinned is the machine that the cluster's label names; nil when there is no such label, or no such machine.
func (r *round) pinned(able []*member) *member {
	id := r.Cluster.Labels[labelInitPin]
	for _, m := range able {
		if id != "" && m.MachineID == id {
			return m
		}
	}
	return nil
}

// choose takes one of the machines that can begin the cluster, or have taken part in its etcd since it began.
func choose(able, marked []*member) *member {
	joinable := func(m *member) bool { return m.hasPlan() && m.next.joinURL != "" }
	first := slices.IndexFunc(able, joinable)
	if len(marked) == 1 && (joinable(marked[0]) || first < 0) {
		return marked[0]
	}
	if first < 0 {
		// One that has begun goes on: a server of before drover knew of several began its cluster.
		first = slices.IndexFunc(able, func(m *member) bool { return m.hasPlan() && m.Status.JoinedTo == "" })
	}
	if first < 0 && len(able) > 0 {
		first = 0
	}
	if first < 0 {
		return nil
	}
	return able[first]
}

// serverOf is where a machine joins: where it has joined while somebody stays there, else the machine that
// begins the cluster, or for a worker one of the control planes. Empty for the machine that begins the
// cluster, and while there is nowhere to join.
func (r *round) serverOf(m *member) string {
	switch {
	case m == r.init:
		return ""
	case r.restoring() && m.isServer() && r.initURL() != "":
		return r.initURL()
	}
	var doors []string
	for _, other := range r.servers {
		if other != m && other.next.joinURL != "" && other.hasPlan() && (!other.Roles.Etcd || other.next.member || other == r.init) && (other == r.init || m.isServer() || other.Roles.ControlPlane) {
			doors = append(doors, other.next.joinURL)
		}
	}
	if m.hasPlan() && (slices.Contains(doors, m.next.joinedTo) || len(doors) == 0) {
		return m.next.joinedTo
	}
	if m.isServer() {
		if r.init != nil && r.usable(r.init) || len(doors) == 0 {
			return r.initURL()
		}
		return doors[0]
	}
	return pick(r.controlPlanes(m.hasPlan()), m.UID)
}

func (r *round) initURL() string {
	if r.init == nil || !r.init.hasPlan() {
		return ""
	}
	return r.init.next.joinURL
}

// controlPlanes are the URLs of control planes that work; of all when none does and others will do.
func (r *round) controlPlanes(others bool) []string {
	var all, good []string
	for _, m := range r.servers {
		if !m.Roles.ControlPlane || m.next.joinURL == "" || !m.hasPlan() {
			continue
		}
		all = append(all, m.next.joinURL)
		if r.usable(m) {
			good = append(good, m.next.joinURL)
		}
	}
	if len(good) > 0 || !others {
		all = good
	}
	slices.Sort(all)
	return all
}

// pick spreads machines over URLs by their UIDs, as Rancher's planner does.
func pick(urls []string, uid string) string {
	if len(urls) == 0 {
		return ""
	}
	return urls[int(uint64(crc32.ChecksumIEEE([]byte(uid)))*uint64(len(urls))>>32)]
}

// usable says that a server has taken its plan, that its parts are healthy, and that it is not lost.
func (r *round) usable(m *member) bool {
	if !m.hasPlan() || m.next.joinURL == "" || m.Status.State == records.Unavailable {
		return false
	}
	return m.report.healthy()
}

// named are machines as a cause names them, with their nodes, by which people may know them; at most three.
func named(all []*member) string {
	var names []string
	for _, m := range all {
		names = append(names, withNode(m.Machine))
	}
	return threeOf(names)
}

// withNode is the name of a machine, with that of its node where that is another one.
func withNode(m Machine) string {
	if node := nodeName(m); node != "" {
		return m.Name + " (" + node + ")"
	}
	return m.Name
}

// nodeName is the name of a machine's node, or the one that was asked for; empty where it is the machine's own, or not
// known.
func nodeName(m Machine) string {
	name := m.NodeName
	if m.Status.Node != nil {
		name = m.Status.Node.Name
	}
	if name == m.Name {
		return ""
	}
	return name
}

// describeServers are machines as Rancher's messages name them, at most three.
func describeServers(all []*member) string {
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	return threeOf(names)
}

// threeOf names up to three and counts the others, as Rancher's messages do.
func threeOf(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ","), len(names)-3)
}
