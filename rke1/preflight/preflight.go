// Package preflight looks at the hosts of a run before anything of the cluster is changed on them: what the config would do
// to a host, whether it can have the mounts of a kubelet, whether the ports of its components are free, and whether other
// hosts reach them. What it starts on hosts ends with it.
package preflight

import (
	"context"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// parallel is how many hosts are looked at at a time.
const parallel = 50

// Host is a host that answered.
type Host struct {
	*onhost.Host
	Node   config.Node
	Wanted desired.Host
	// Found are the containers that it has.
	Found []nodeconfig.Container
	// New says that it is new to the cluster, or has a new role.
	New bool
}

// Check is one look at all hosts.
type Check struct {
	Config *config.Cluster
	Plan   *desired.Plan
	Hosts  []*Host
	// NoPorts leaves the ports unchecked.
	NoPorts bool
	// Line is something that was done, Warn what a person should know of; the check goes on. Both are called from many goroutines.
	Line func(part, format string, args ...any)
	Warn func(text string)
	// Pause waits between two tries.
	Pause func(context.Context) error
}

// Run looks at the hosts that are new, and at how the others reach them. Its error is what has to be mended first.
func (c Check) Run(ctx context.Context) error {
	if err := c.Settings(); err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(c.Hosts), func(h *Host) bool { return !h.New })
	if len(fresh) > 0 {
		if err := onhost.Each(ctx, fresh, parallel, c.mounts); err != nil {
			return err
		}
	}
	switch {
	case c.NoPorts:
		return nil
	case len(fresh) == 0:
		c.Line("network", "No hosts added existing cluster, skipping port check")
		return nil
	}
	return c.ports(ctx, fresh)
}

// wants is the container of a name that should be on a host; nil when none should.
func (h *Host) wants(name string) *desired.Container {
	i := slices.IndexFunc(h.Wanted.Containers, func(c desired.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Wanted.Containers[i]
}

// has is the container of a name that is on a host; nil when none is.
func (h *Host) has(name string) *nodeconfig.Container {
	i := slices.IndexFunc(h.Found, func(c nodeconfig.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Found[i]
}

// runs says that a component of a role runs on the host already.
func (h *Host) runs(role string) bool {
	return slices.ContainsFunc(h.Found, func(is nodeconfig.Container) bool {
		if !is.Running {
			return false
		}
		w := h.wants(is.Name)
		return w == nil && role == config.RoleWorker || w != nil && w.Plane == role
	})
}

// shell is a container of the host with a script.
func (c Check) shell(name, script string, args ...string) nodeconfig.Process {
	image := c.Config.SystemImages.Alpine
	return nodeconfig.Process{
		Name: name, Image: image, ImageRegistryAuthConfig: c.Plan.Login(image), Command: append([]string{"sh", "-c", script, name}, args...), RestartPolicy: "no",
	}
}

// flag is the value of the last --name=value among words.
func flag(words []string, name string) (value string, set bool) {
	for _, word := range words {
		if v, is := strings.CutPrefix(word, "--"+name+"="); is {
			value, set = v, true
		}
	}
	return value, set
}

// variable is the value of the last NAME=value.
func variable(env []string, name string) (value string) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value = v
		}
	}
	return value
}
