// Which containers have to change: a pure decision from what is wanted and what is found.

package nodeconfig

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-connections/nat"
)

// The labels that say which process a container is.
const (
	Label       = "io.rancher.rke.container.name"
	formerLabel = "io.cattle.process.name"
)

// Names of containers with a part of their own.
const (
	Sidekick = "service-sidekick" // lends its volumes; it is created and never started
	ShareMnt = "share-mnt"
)

// Prefixes of names. While a container is replaced, the new one waits under NewPrefix and the
// old one is kept under OldPrefix, the name that RKE gives it too.
const (
	NewPrefix = "new-"
	OldPrefix = "old-"
)

// Container is a container that was found on the host.
type Container struct {
	ID, Name    string // Name without the slash
	Image       string // as its creator wrote it
	Entrypoint  []string
	Cmd         []string
	Env         []string
	Binds       []string
	VolumesFrom []string
	NetworkMode string
	PidMode     string
	Privileged  bool
	User        string
	Labels      map[string]string
	Ports       nat.PortMap // published
	SecurityOpt []string
	// Running is true for one that restarts again and again, too, which Restarting says.
	Running    bool
	Restarting bool
	// Started is when it did last, by the host's clock; zero when never.
	Started time.Time
	LogPath string
	// Base is what the container has from its image; nil when the image is gone.
	Base *Base
}

// Base is what an image gives to its containers.
type Base struct {
	Entrypoint, Cmd, Env []string
	Labels               map[string]string
	User                 string
}

// Kind is what an Action does.
type Kind string

// The kinds of actions.
const (
	Create  Kind = "create"  // and start, unless it is the sidekick
	Replace Kind = "replace" // with one that is created first; the old one comes back when the new one does not start
	Start   Kind = "start"
	Restart Kind = "restart" // its certificates are new
	Discard Kind = "discard" // what an interrupted Replace left over
)

// Action is one step on the way from what is found to what is wanted.
type Action struct {
	Kind    Kind
	Name    string   // of the process
	Process *Process `json:",omitempty"` // of Create and Replace
	Found   string   `json:",omitempty"` // ID of the container that is replaced, started, restarted or discarded; of Create: of the old one that an interrupted Replace left
	Reasons []string `json:",omitempty"` // of Replace: what differs, without values
}

// Plan says what has to be done, in order. renewed says that certificates have changed,
// so that those who read them once have to start again. An empty plan means that the host
// is as wanted. Containers that are not wanted any more are left alone.
func Plan(wanted *NodeConfig, found []Container, renewed bool) []Action {
	var plan []Action
	newSidekick := false
	for _, name := range order(wanted.Processes) {
		p := wanted.Processes[name]
		has := pick(name, found)
		for _, stale := range has.stale {
			plan = append(plan, Action{Kind: Discard, Name: name, Found: stale.ID})
		}
		steps := decide(p, has, newSidekick, renewed)
		if name == Sidekick && len(steps) > 0 && steps[0].Kind == Replace {
			newSidekick = true
		}
		plan = append(plan, steps...)
		if has.old != nil && has.main != nil {
			plan = append(plan, Action{Kind: Discard, Name: name, Found: has.old.ID})
		}
	}
	return plan
}

// order puts first what others need.
func order(processes map[string]Process) []string {
	rank := map[string]int{Sidekick: -2, ShareMnt: -1}
	names := slices.Collect(maps.Keys(processes))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) })
	return names
}

// has are the containers of one process.
type has struct {
	main  *Container
	old   *Container  // what a Replace kept
	stale []Container // what a Replace had not yet put in its place
}

func pick(name string, found []Container) has {
	var h has
	for i := range found {
		c := &found[i]
		mine := cmp.Or(c.Labels[Label], c.Labels[formerLabel]) == name
		switch {
		case c.Name == name:
			h.main = c
		case c.Name == NewPrefix+name && mine:
			h.stale = append(h.stale, *c)
		case c.Name == OldPrefix+name && mine:
			h.old = c
		case mine && h.main == nil:
			h.main = c
		}
	}
	return h
}

// restarted are the processes that read certificates at their start alone.
var restarted = []string{"kubelet", "kube-proxy"}

func decide(p Process, h has, newSidekick, renewed bool) []Action {
	name := p.Name
	if h.main == nil {
		a := Action{Kind: Create, Name: name, Process: &p}
		if h.old != nil {
			a.Found = h.old.ID
		}
		return []Action{a}
	}
	reasons := Differences(p, *h.main)
	if newSidekick && slices.ContainsFunc(p.VolumesFrom, func(s string) bool { return volume(s) == Sidekick }) {
		reasons = append(reasons, Sidekick+" is a new one")
	}
	switch {
	case len(reasons) > 0:
		return []Action{{Kind: Replace, Name: name, Process: &p, Found: h.main.ID, Reasons: reasons}}
	case name == Sidekick:
		return nil
	case !h.main.Running && name != ShareMnt: // which stops itself when its work is done
		return []Action{{Kind: Start, Name: name, Found: h.main.ID}}
	case renewed && slices.Contains(restarted, name):
		return []Action{{Kind: Restart, Name: name, Found: h.main.ID}}
	}
	return nil
}

func volume(s string) string {
	name, _, _ := strings.Cut(s, ":")
	return name
}

// Differences names what about a container is not as wanted. Values are left out: they
// can be secret.
func Differences(p Process, c Container) []string {
	var d []string
	differ := func(what string, different bool) {
		if different {
			d = append(d, what)
		}
	}
	entrypoint, cmd := merged(p, c.Base)
	differ("image", p.Image != c.Image)
	if entrypoint != nil || c.Base != nil {
		differ("command", !sameSet(entrypoint, c.Entrypoint))
	}
	if cmd != nil || c.Base != nil || p.Command != nil {
		differ("args", !slices.Equal(cmd, c.Cmd))
	}
	d = append(d, envDifferences(p.Env, c)...)
	differ("binds", !slices.Equal(p.Binds, c.Binds))
	differ("networkMode", network(p.NetworkMode) != network(c.NetworkMode))
	differ("pidMode", p.PidMode != c.PidMode)
	differ("privileged", p.Privileged != c.Privileged)
	differ("volumesFrom", !slices.Equal(p.VolumesFrom, c.VolumesFrom))
	d = append(d, labelDifferences(labels(p), c)...)
	differ("publish", !samePorts(p.Publish, c.Ports))
	user := p.User
	if user == "" && c.Base != nil {
		user = c.Base.User
	}
	differ("user", user != c.User && (user != "" || c.Base != nil))
	return d
}

// merged is what Docker makes of a process's command and the image's.
func merged(p Process, base *Base) (entrypoint, cmd []string) {
	entrypoint, cmd = p.Command, p.Args
	if len(entrypoint) == 0 && base != nil {
		entrypoint = base.Entrypoint
		if len(cmd) == 0 {
			cmd = base.Cmd
		}
	}
	return entrypoint, cmd
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// envDifferences compares with wanted and the image's environment together, so that a
// variable that is not wanted any more is noticed.
func envDifferences(wanted []string, c Container) []string {
	want, is := environment(wanted), environment(c.Env)
	if c.Base != nil {
		base := environment(c.Base.Env)
		maps.Copy(base, want)
		want = base
	}
	var d []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, there := is[key]; !there || value != want[key] {
			d = append(d, "env "+key)
		}
	}
	if c.Base == nil {
		return d // what else is there may be the image's
	}
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if _, there := want[key]; !there {
			d = append(d, "env "+key+" is not wanted any more")
		}
	}
	return d
}

func environment(list []string) map[string]string {
	m := map[string]string{}
	for _, e := range list {
		key, value, _ := strings.Cut(e, "=")
		m[key] = value
	}
	return m
}

func labelDifferences(wanted map[string]string, c Container) []string {
	want := wanted
	if c.Base != nil {
		want = maps.Clone(c.Base.Labels)
		if want == nil {
			want = map[string]string{}
		}
		maps.Copy(want, wanted)
	}
	var d []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, there := c.Labels[key]; !there || value != want[key] {
			d = append(d, "label "+key)
		}
	}
	return d
}

// labels are the wanted ones, with the one that says which process this is.
func labels(p Process) map[string]string {
	l := map[string]string{Label: p.Name}
	maps.Copy(l, p.Labels)
	return l
}

// network knows one name for Docker's usual network.
func network(mode string) string {
	if mode == "" || mode == "default" {
		return "bridge"
	}
	return mode
}

func samePorts(publish []string, is nat.PortMap) bool {
	_, want, err := nat.ParsePortSpecs(publish)
	if err != nil {
		return false // Decode refuses it
	}
	return slices.Equal(portLines(want), portLines(is))
}

func portLines(m nat.PortMap) []string {
	var lines []string
	for port, bindings := range m {
		for _, b := range bindings {
			lines = append(lines, string(port)+" "+b.HostIP+" "+b.HostPort)
		}
	}
	slices.Sort(lines)
	return lines
}
