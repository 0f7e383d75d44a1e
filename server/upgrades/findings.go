// Package upgrades has a cluster go to another Kubernetes version: everything that may be in the way is looked at before
// anything changes, and said in one list. What then changes is a change of the cluster's document like any other.
package upgrades

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// Level is what a finding means.
type Level = apitypes.FindingLevel

// The levels.
const (
	Refused = apitypes.FindingRefused
	Warned  = apitypes.FindingWarned
)

// Finding is something about an upgrade that was found before it begins.
type Finding = apitypes.UpgradeFinding

// Codes of the findings that a person may accept: what is found may have been looked after in the meantime, and the
// cluster survives it where it was not.
const (
	RemovedAPIs = "removed-apis"
	DiskSpace   = "disk-space"
)

// Acceptable are those codes.
func Acceptable() []string { return []string{DiskSpace, RemovedAPIs} }

// API is a deprecated API that a client has asked the cluster for.
type API struct{ Group, Version, Resource, Removed string }

// Node is what a cluster's API says of a node's host.
type Node struct {
	Name string
	// Server says that it runs more than pods.
	Server bool
	// NotReady is why the node is not Ready; empty when it is.
	NotReady string
	// Pressure says that the kubelet reports too little room on its disks.
	Pressure bool
	// Free is how many bytes its file system has left, and Known that it was reported.
	Free  int64
	Known bool
}

// facts are what the findings are made of.
type facts struct {
	now     time.Time
	cluster records.Cluster
	to      string
	// known says that there are data of the version or of its neighbour, which is "" for the version's own, and nearest are
	// versions near it that have some.
	known     bool
	neighbour string
	nearest   []string
	// running are the versions that the cluster reports.
	running  []string
	machines []records.Machine
	details  map[string]observed.NodeDetails
	nodes    []Node
	apis     []API
	// unasked is why the cluster's API could not be asked; empty when it was.
	unasked string
	// newest is when the newest snapshot was taken that can be restored; zero without one. snapshot says that the upgrade
	// begins with one.
	newest   time.Time
	snapshot bool
	window   string
	windowed clusterspec.WindowState
	accepted []string
}

// finder collects findings.
type finder struct {
	facts
	found []Finding
}

func (f *finder) refuse(code, wayOut, format string, args ...any) {
	level := Refused
	if slices.Contains(f.accepted, code) {
		level = Warned
	}
	f.found = append(f.found, Finding{Code: code, Level: level, Text: fmt.Sprintf(format, args...), WayOut: wayOut})
}

func (f *finder) warn(code, wayOut, format string, args ...any) {
	f.found = append(f.found, Finding{Code: code, Level: Warned, Text: fmt.Sprintf(format, args...), WayOut: wayOut})
}

// find is what is found of an upgrade, what keeps it from beginning first.
func find(from facts) []Finding {
	f := &finder{facts: from}
	f.state()
	if f.cluster.Spec.RKE1() {
		f.rke1()
	} else {
		f.version()
	}
	f.etcd()
	f.hosts()
	f.deprecated()
	f.snapshots()
	slices.SortStableFunc(f.found, func(a, b Finding) int { return cmp.Compare(a.Level, b.Level) }) // refused, warned
	return f.found
}

// state is whether the cluster takes a change at all.
func (f *finder) state() {
	c := f.cluster
	switch {
	case !c.Deleting.IsZero():
		f.refuse("removing", "", "cluster %s is being removed", c.Name)
	case c.Status.Restoring != "":
		f.refuse("restoring", "drover operations show "+c.Status.Restoring+" has the reason; retry it, or restore anew", "the restore of cluster %s by operation %s has not come to its end", c.Name, c.Status.Restoring)
	case !c.Status.Initialized:
		f.refuse("not-up", "change the version in its document and apply that", "cluster %s has not been up yet, so there is nothing to upgrade", c.Name)
	}
	if c.Paused != nil {
		f.warn("paused", "drover clusters resume "+c.Name, "cluster %s is paused, and the upgrade waits until it is resumed", c.Name)
	}
	if f.window != "" && !f.windowed.Open {
		opens := "which does not open within two weeks"
		if !f.windowed.Change.IsZero() {
			opens = "which opens in " + f.windowed.Change.Sub(f.now).Round(time.Minute).String()
		}
		f.warn("window", "--now does not wait for it", "the upgrade waits for the maintenance window %s, %s", f.window, opens)
	}
}

// version is whether the cluster may have the version.
func (f *finder) version() {
	c, ls := f.cluster, "drover versions ls --cluster "+f.cluster.Name+" lists those that it may be upgraded to"
	switch {
	case !versions.WellFormed(f.to):
		f.refuse("version-form", ls, "%.60q is not a version, such as v1.34.4+k3s1", f.to)
		return
	case versions.RuntimeOf(f.to) != versions.RuntimeOf(c.Spec.KubernetesVersion):
		f.refuse("distribution", ls, "the distribution cannot be changed from that of %s to that of %s", c.Spec.KubernetesVersion, f.to)
		return
	case !f.known:
		f.refuse("version-unknown", ls+"; newer data come with drover server --version-data", "there are no data of version %s; known are %s", f.to, strings.Join(f.nearest, ", "))
	case f.neighbour != "":
		f.warn("version-neighbour", ls+"; newer data come with drover server --version-data", "there are no data of version %s; it is taken with the settings of %s", f.to, f.neighbour)
	}
	if len(f.running) == 0 {
		return
	}
	lowest, highest := slices.MinFunc(f.running, versions.Compare), slices.MaxFunc(f.running, versions.Compare)
	skips := versions.SkipsMinor(lowest, f.to)
	allowed := c.Annotations[clusterspec.AllowSkippedMinor] == "true"
	switch {
	case versions.Compare(f.to, highest) < 0:
		f.refuse("downgrade", "drover snapshots restore "+c.Name+" SNAPSHOT --mode kubernetesVersion goes back with a snapshot of then", "a cluster cannot go back from %s, which runs, to %s", highest, f.to)
	case skips && !allowed:
		f.refuse("skipped-minor", "go through each minor line: "+ls+"; or set the annotation "+clusterspec.AllowSkippedMinor+": \"true\"", "the way from %s, which runs, to %s leaves out a minor line, which Kubernetes does not support", lowest, f.to)
	case skips:
		f.warn("skipped-minor", "", "the way from %s, which runs, to %s leaves out a minor line, which Kubernetes does not support", lowest, f.to)
	}
	if lowest != highest {
		f.warn("mixed-versions", "drover clusters show "+c.Name, "the cluster runs versions from %s to %s: an upgrade before has not come to its end", lowest, highest)
	}
}

// etcd is whether etcd bears that its members restart.
func (f *finder) etcd() {
	members, sick := 0, []string{}
	for _, m := range f.machines {
		if !m.Roles.Etcd || !m.Deleting.IsZero() {
			continue
		}
		members++
		switch d, seen := f.details[m.UID]; {
		case m.Status.State != records.Active:
			sick = append(sick, fmt.Sprintf("%s is %s", named(m), m.Status.State))
		case seen && d.Voter == observed.VoterLearner:
			sick = append(sick, named(m)+" does not vote")
		}
	}
	switch {
	case len(sick) > 0:
		f.refuse("etcd-health", "drover why "+f.cluster.Name, "etcd is not well: %s of %d members", strings.Join(sick, ", "), members)
	case members == 2:
		f.warn("etcd-members", "add a third machine with the etcd role", "etcd has 2 members, and serves no requests while one of them restarts")
	case members == 1:
		f.warn("etcd-members", "", "etcd has one member, and the Kubernetes API does not answer while it restarts")
	}
}

func named(m records.Machine) string {
	if m.NodeName != "" && m.NodeName != m.Name {
		return m.Name + " (" + m.NodeName + ")"
	}
	return m.Name
}

// Room that an upgrade needs on a host: images and binaries of both versions are there at the same time.
const (
	leastRoom = 1 << 30
	goodRoom  = 5 << 30
)

// hosts are nodes that are not well, and their disks.
func (f *finder) hosts() {
	if f.unasked != "" {
		f.warn("api", "drover tunnels ls shows whether tunnels are open", "the Kubernetes API of cluster %s cannot be asked, so disks and deprecated APIs are not known: %s", f.cluster.Name, f.unasked)
	}
	for _, m := range f.machines {
		if !m.Roles.Etcd && m.Status.State != records.Active && m.Deleting.IsZero() {
			f.warn("machine-not-active", "drover why "+m.Name, "%s is %s: %s", named(m), m.Status.State, m.Status.Cause)
		}
	}
	for _, n := range f.nodes {
		const wayOut = "make room on its host (`crictl rmi --prune` removes unused images); --accept " + DiskSpace + " goes on all the same"
		switch {
		case n.Pressure:
			f.refuse(DiskSpace, wayOut, "node %s reports that its disk is full (DiskPressure)", n.Name)
		case n.Known && n.Free < leastRoom:
			f.refuse(DiskSpace, wayOut, "node %s has %s of disk left, and an upgrade needs %s", n.Name, size(n.Free), size(leastRoom))
		case n.Known && n.Free < goodRoom:
			f.warn(DiskSpace, "make room on its host", "node %s has %s of disk left", n.Name, size(n.Free))
		}
		if n.NotReady != "" && !f.of(n.Name) {
			f.warn("node-not-ready", "", "node %s is not Ready: %s", n.Name, n.NotReady)
		}
	}
}

// of says that a node is that of a machine that is reported already, or works.
func (f *finder) of(node string) bool {
	return slices.ContainsFunc(f.machines, func(m records.Machine) bool {
		return m.Status.Node != nil && m.Status.Node.Name == node && m.Status.State != records.Active
	})
}

func size(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// deprecated are APIs that clients use and that are about to go, or go with the version.
func (f *finder) deprecated() {
	var gone, going []string
	for _, a := range f.apis {
		minor, ok := minorOf(a.Removed)
		to, known := minorOf(strings.TrimPrefix(f.to, "v"))
		if !ok || !known {
			continue
		}
		name := strings.Trim(a.Group+"/"+a.Version, "/") + " " + a.Resource + " (gone in " + a.Removed + ")"
		if minor <= to {
			gone = append(gone, name)
		} else {
			going = append(going, name)
		}
	}
	slices.Sort(gone)
	slices.Sort(going)
	if len(gone) > 0 {
		f.refuse(RemovedAPIs, "have their clients use newer ones; API servers count since their start, so --accept "+RemovedAPIs+" goes on when that is done", "%s does not serve APIs that clients asked this cluster for: %s", f.to, strings.Join(slices.Compact(gone), ", "))
	}
	if len(going) > 0 {
		f.warn("deprecated-apis", "have their clients use newer ones before a later upgrade", "clients ask this cluster for APIs that go with a later version: %s", strings.Join(slices.Compact(going), ", "))
	}
}

// minorOf is 34 of 1.34 and of 1.34.4+k3s1.
func minorOf(release string) (int, bool) {
	major, rest, ok := strings.Cut(release, ".")
	text, _, _ := strings.Cut(rest, ".")
	minor, err := strconv.Atoi(text)
	return minor, ok && err == nil && major == "1"
}

// oldSnapshot is how old the newest snapshot may be before that is said.
const oldSnapshot = 24 * time.Hour

// snapshots are the way back.
func (f *finder) snapshots() {
	create := "drover snapshots create " + f.cluster.Name + " --wait"
	has := "there is no snapshot of the cluster's etcd"
	if !f.newest.IsZero() {
		has = fmt.Sprintf("the newest snapshot of the cluster's etcd is %s old", f.now.Sub(f.newest).Round(time.Minute))
	}
	switch old := f.now.Sub(f.newest) > oldSnapshot; {
	case f.snapshot && old:
		f.warn("snapshot", "", "%s; the upgrade begins with one", has)
	case !f.snapshot && f.cluster.Spec.RKE1():
		f.warn("snapshot", create+", or take the annotation "+clusterspec.NoSnapshot+" away", "%s, and the upgrade begins without one: there may be no way back", has)
	case !f.snapshot:
		f.warn("snapshot", create+", or leave --no-snapshot out", "%s, and the upgrade begins without one: there may be no way back", has)
	}
}
