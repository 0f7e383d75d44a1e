// Package migrate says what a move of an RKE1 cluster to RKE2 would need: for the cluster and host
// by host, what is carried over by a setting, what a person has to do, and what has no equivalent.
// It decides from values and changes nothing; what a running cluster adds is read by package live.
//
// Source of RKE2's settings: its server and agent configuration reference, docs.rke2.io.
package migrate

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/config"
)

// Level is what an Item asks for.
type Level string

// The levels, the least first.
const (
	// Same needs nothing: RKE2 does the same by itself.
	Same Level = "same"
	// Set is carried over by a setting or a file of RKE2.
	Set Level = "set"
	// Do is work for a person, before or during the move.
	Do Level = "do"
	// Without has no equivalent in RKE2.
	Without Level = "without"
)

// Item is one thing about the cluster, or about one of its hosts.
type Item struct {
	// Host is the address of a host, "" for the cluster.
	Host  string `json:"host,omitempty"`
	Topic string `json:"topic"`
	Level Level  `json:"level"`
	// Found is what there is, Needs what RKE2 wants instead. Neither has secrets in it.
	Found string `json:"found"`
	Needs string `json:"needs,omitempty"`
	// Settings are the keys of RKE2's config.yaml that are meant.
	Settings []string `json:"settings,omitempty"`
}

// Report is the whole plan. It is what `drover rke migrate plan` prints as JSON.
type Report struct {
	Cluster string `json:"cluster"`
	From    string `json:"from"`
	// To is the version of RKE2 to go to, "" when there is none yet.
	To string `json:"to,omitempty"`
	// Live says that the running cluster was looked at.
	Live  bool   `json:"live"`
	Items []Item `json:"items"`
}

// Input is what a plan is made of.
type Input struct {
	// Config is after defaults. Known are the version data that filled it.
	Config *config.Cluster
	// Releases are the versions of RKE2 that there are, as v1.30.5+rke2r1, in any order.
	Releases []string
	// Live is what the running cluster has; nil when it was not looked at.
	Live *Live
}

// Live is what a running cluster has that its files do not say.
type Live struct {
	Nodes   []Node
	Volumes []Volume
	// DockerPods are pods, NAMESPACE/NAME, that mount Docker's socket or its directory.
	DockerPods []string
}

// Node is a node as Kubernetes sees it.
type Node struct {
	Name string // in lower case
	// OS is what the host calls itself, Runtime docker://20.10.24.
	OS, Runtime, Kubelet string
	Ready                bool
}

// Volume is a persistent volume.
type Volume struct {
	Name string
	// Kind is the name of its source in the API, such as hostPath or csi; Driver names the driver of csi and
	// flexVolume.
	Kind, Driver string
	// Claim is NAMESPACE/NAME of what uses it, or "".
	Claim string
	// Nodes are the names of those to which it is bound, as far as it says so.
	Nodes []string
}

// planner gathers items.
type planner struct {
	Input
	c     *config.Cluster
	items []Item
}

func (p *planner) add(i Item) { p.items = append(p.items, i) }

func (p *planner) set(topic, found, needs string, settings ...string) {
	p.add(Item{Topic: topic, Level: Set, Found: found, Needs: needs, Settings: settings})
}

func (p *planner) do(topic, found, needs string, settings ...string) {
	p.add(Item{Topic: topic, Level: Do, Found: found, Needs: needs, Settings: settings})
}

func (p *planner) without(topic, found, needs string) {
	p.add(Item{Topic: topic, Level: Without, Found: found, Needs: needs})
}

// Plan says what the move would need. Items of the cluster come first, then those of each host in the
// order of the config.
func Plan(in Input) *Report {
	p := &planner{Input: in, c: in.Config}
	to := p.version()
	for _, topic := range []func(){
		p.move, p.network, p.ranges, p.ingress, p.metrics, p.dns, p.addons, p.registries, p.access, p.encryption, p.audit, p.admission,
		p.cloud, p.etcd, p.snapshots, p.args, p.docker, p.storage,
	} {
		topic()
	}
	for _, n := range in.Config.Nodes {
		p.host(n)
	}
	return &Report{Cluster: in.Config.ClusterName, From: in.Config.KubernetesVersion, To: to, Live: in.Live != nil, Items: p.items}
}

// Count is how many items have a level.
func (r *Report) Count(l Level) int {
	n := 0
	for _, i := range r.Items {
		if i.Level == l {
			n++
		}
	}
	return n
}

// Hosts are the addresses that items are about, in their order.
func (r *Report) Hosts() []string {
	var hosts []string
	for _, i := range r.Items {
		if i.Host != "" && !slices.Contains(hosts, i.Host) {
			hosts = append(hosts, i.Host)
		}
	}
	return hosts
}

// Summary is one line about all of it.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d carried over by settings, %d to do, %d without an equivalent; nothing was changed", r.Count(Set), r.Count(Do), r.Count(Without))
}
