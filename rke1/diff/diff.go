// Package diff compares what should be on a host of an RKE1 cluster with what is there. Its result is printed by a dry run and
// performed by the engine: the same value.
//
// Wire source: rancher/rke docker IsContainerUpgradable for what is compared. Where that misses a change, this does not: a
// container is compared in any state, and those that borrow the volumes of a sidekick that changes follow it. What
// etcd was founded with is not compared once it has data.
package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

// Found is what a host has.
type Found struct {
	// Containers are all of the host, or at least those with nodeconfig.Label and those with a name of package wanted.
	Containers []nodeconfig.Container
	// Images has what those of desired.Host give to their containers that are on the host.
	Images map[string]nodeconfig.Base
	// EtcdData says that etcd has its data directory: what it was founded with is in there, and the flags for that mean nothing.
	EtcdData bool
}

// Kind is what a Difference asks for. The kinds of nodeconfig are among them.
type Kind = nodeconfig.Kind

// The kinds that a node agent does not have.
const (
	// Remove takes a container away that has no place on the host any more.
	Remove Kind = "remove"
	// Taken is a name that a foreign container has. Nothing can be done before a person removes or renames it.
	Taken Kind = "taken"
)

// Difference is one thing that is not as it should be. Those of a host are in the order in which they are to be mended.
type Difference struct {
	Host, Container string
	Kind            Kind
	// Reasons say what differs, without values that may be secret.
	Reasons []string
	// Process is the one to create, of Create and Replace. It has logins and environment in it: a secret.
	Process *nodeconfig.Process
	// Found is the ID of the container that is replaced, started, restarted, discarded, removed or in the way; of Create:
	// of the old one that an interrupted replacement left.
	Found string
}

// String is a line for people: 10.0.0.1 kubelet: replace (flag --v, image).
func (d Difference) String() string {
	line := d.Host + " " + d.Container + ": " + string(d.Kind)
	if len(d.Reasons) > 0 {
		line += " (" + strings.Join(d.Reasons, ", ") + ")"
	}
	return line
}

// Action is the difference as nodeconfig.Engine performs it; false for those that a node agent never has.
func (d Difference) Action() (nodeconfig.Action, bool) {
	return nodeconfig.Action{Kind: d.Kind, Name: d.Container, Process: d.Process, Found: d.Found, Reasons: d.Reasons},
		d.Kind != Remove && d.Kind != Taken
}

// services are the containers that go when their role goes. In this order: nginx-proxy has the port that the API server needs.
var services = []string{desired.NginxProxy, desired.Scheduler, desired.ControllerManager, desired.KubeAPIServer, desired.RollingSnapshots, desired.Etcd}

// Of compares a host with what it has. An empty list is a host that is as it should be.
func Of(h desired.Host, f Found) []Difference {
	byName := make(map[string]*nodeconfig.Container, len(f.Containers))
	for i := range f.Containers {
		byName[f.Containers[i].Name] = &f.Containers[i]
	}
	d := differ{host: h, found: f, byName: byName}
	for _, service := range services {
		is := byName[service]
		if is != nil && mine(is, service) && !slices.ContainsFunc(h.Containers, func(c desired.Container) bool { return c.Name == service }) {
			d.add(Difference{Container: service, Kind: Remove, Reasons: []string{"it has no place on this host"}, Found: is.ID})
		}
	}
	for i := range h.Containers {
		d.container(&h.Containers[i].Process)
	}
	return d.all
}

type differ struct {
	host        desired.Host
	found       Found
	byName      map[string]*nodeconfig.Container
	newSidekick bool
	all         []Difference
}

func (d *differ) add(one Difference) {
	one.Host = d.host.Address
	d.all = append(d.all, one)
}

// mine says whether a container is one of RKE1's: they carry their name as a label, except for the snapshots' of the peer.
func mine(c *nodeconfig.Container, name string) bool {
	return c.Labels[nodeconfig.Label] == name || name == desired.RollingSnapshots
}

func (d *differ) container(p *nodeconfig.Process) {
	is, old, half := d.byName[p.Name], d.byName[nodeconfig.OldPrefix+p.Name], d.byName[nodeconfig.NewPrefix+p.Name]
	if half != nil && mine(half, p.Name) {
		d.add(Difference{Container: p.Name, Kind: nodeconfig.Discard, Reasons: []string{"left by an interrupted replacement"}, Found: half.ID})
	}
	if old != nil && !mine(old, p.Name) {
		old = nil
	}
	switch {
	case is == nil:
		one := Difference{Container: p.Name, Kind: nodeconfig.Create, Reasons: []string{"it is not there"}, Process: p}
		if old != nil {
			one.Found = old.ID
		}
		d.newSidekick = d.newSidekick || p.Name == desired.Sidekick
		d.add(one)
		return
	case !mine(is, p.Name):
		d.add(Difference{Container: p.Name, Kind: Taken, Reasons: []string{"a container that is not of this cluster has this name"}, Found: is.ID})
		return
	}
	reasons := d.reasons(p, is)
	switch {
	case len(reasons) > 0:
		d.newSidekick = d.newSidekick || p.Name == desired.Sidekick
		d.add(Difference{Container: p.Name, Kind: nodeconfig.Replace, Reasons: reasons, Process: p, Found: is.ID})
	case p.Name == desired.Sidekick: // which is never started
	case is.Restarting:
		d.add(Difference{Container: p.Name, Kind: nodeconfig.Restart, Reasons: []string{"it starts again and again"}, Found: is.ID})
	case !is.Running:
		d.add(Difference{Container: p.Name, Kind: nodeconfig.Start, Reasons: []string{"it does not run"}, Found: is.ID})
	}
	if old != nil {
		d.add(Difference{Container: p.Name, Kind: nodeconfig.Discard, Reasons: []string{"left by an interrupted replacement"}, Found: old.ID})
	}
}

// reasons are what the peer compares, as sets: image, entrypoint, arguments, binds, SELinux labels and environment.
func (d *differ) reasons(p *nodeconfig.Process, is *nodeconfig.Container) []string {
	var reasons []string
	if p.Image != is.Image {
		reasons = append(reasons, "image "+is.Image+" → "+p.Image)
	}
	base, there := d.found.Images[p.Image]
	if !there {
		reasons = append(reasons, "image "+p.Image+" is not on the host")
	}
	entrypoint, args := p.Command, p.Args
	if len(entrypoint) == 0 {
		entrypoint = base.Entrypoint
		if len(args) == 0 {
			args = base.Cmd
		}
	}
	if there || len(p.Command) > 0 {
		reasons = append(reasons, words("command", entrypoint, is.Entrypoint, nil)...)
	}
	if there || len(p.Args) > 0 {
		var founding []string
		if p.Name == desired.Etcd && d.found.EtcdData {
			founding = []string{"--initial-cluster=", "--initial-cluster-state="}
		}
		reasons = append(reasons, words("argument", args, is.Cmd, founding)...)
	}
	reasons = append(reasons, entries("bind", p.Binds, is.Binds)...)
	reasons = append(reasons, entries("security option", p.SecurityOpt, slices.DeleteFunc(slices.Clone(is.SecurityOpt), func(s string) bool {
		return s == "label=disable" && !slices.Contains(p.SecurityOpt, s) // Docker's own word for a container without a label
	}))...)
	if there {
		reasons = append(reasons, variables(p.Env, base.Env, is.Env)...)
	}
	if d.newSidekick && slices.Contains(p.VolumesFrom, desired.Sidekick) {
		reasons = append(reasons, "its volumes are of a new "+desired.Sidekick)
	}
	return reasons
}

// words compares two lists of words as sets. Flags are named without their values; but for flags, words are named by what they are part of.
func words(what string, want, is, ignored []string) []string {
	ignore := func(word string) bool {
		return slices.ContainsFunc(ignored, func(prefix string) bool { return strings.HasPrefix(word, prefix) })
	}
	named := map[string]bool{}
	for _, word := range slices.Concat(minus(want, is), minus(is, want)) {
		if ignore(word) {
			continue
		}
		if key, _, _ := strings.Cut(word, "="); strings.HasPrefix(key, "--") {
			named["flag "+key] = true
		} else {
			named[what] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// entries compares two lists as sets and names what is more or less.
func entries(what string, want, is []string) []string {
	var reasons []string
	for _, entry := range minus(want, is) {
		reasons = append(reasons, what+" +"+entry)
	}
	for _, entry := range minus(is, want) {
		reasons = append(reasons, what+" -"+entry)
	}
	return reasons
}

// minus are the words of a that b does not have, sorted, each once.
func minus(a, b []string) []string {
	has := make(map[string]bool, len(b))
	for _, word := range b {
		has[word] = true
	}
	var more []string
	for _, word := range a {
		if !has[word] {
			more = append(more, word)
		}
	}
	slices.Sort(more)
	return slices.Compact(more)
}

// variables compares the environment with what is wanted on top of the image's, and names variables without values.
func variables(want, base, is []string) []string {
	should, found := environment(base, want), environment(is)
	named := map[string]bool{}
	for key, value := range should {
		if has, ok := found[key]; !ok || has != value {
			named["env "+key] = true
		}
	}
	for key := range found {
		if _, ok := should[key]; !ok {
			named["env "+key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(named), cmp.Compare)
}

// environment is lists of variables, the later ones on top. Empty entries, which some releases of the peer made, are none.
func environment(lists ...[]string) map[string]string {
	all := map[string]string{}
	for _, list := range lists {
		for _, entry := range list {
			if key, value, _ := strings.Cut(entry, "="); key != "" {
				all[key] = value
			}
		}
	}
	return all
}
