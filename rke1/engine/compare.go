// What differs between what should be on the hosts and what is there. A dry run ends here
// and prints it; a run does it.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/ecr"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
)

// TakenError is that containers of somebody else have the names of the cluster's.
type TakenError struct{ Containers []string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("containers of somebody else have names that the cluster needs; remove or rename them (docker rename): %v", e.Containers)
}

// compare makes the plan and looks at every host. Nothing is changed before all of them are known.
func (r *run) compare(ctx context.Context) error {
	hosts := r.with("")
	var err error
	if r.registries, err = ecr.Registries(ctx, r.Addons.Transport, r.Now(), r.work.Config.PrivateRegistries); err != nil {
		r.Report.Warn(err.Error()) // hosts may have all images
	}
	if err := r.makePlan(); err != nil {
		return err
	}
	if err := each(ctx, hosts, parallel, r.look); err != nil {
		return err
	}
	taken := &TakenError{}
	for _, h := range hosts {
		for _, d := range diff.Of(h.desired, h.found) {
			if d.Kind == diff.Taken {
				taken.Containers = append(taken.Containers, d.Container+" on host "+h.node.Address)
			}
		}
	}
	if len(taken.Containers) > 0 {
		return taken
	}
	return r.announce(ctx, hosts)
}

// announce hands on what should be on the hosts.
func (r *run) announce(ctx context.Context, hosts []*host) error {
	if r.Planned == nil {
		return nil
	}
	all := make([]Planned, len(hosts))
	for i, h := range hosts {
		all[i] = Planned{Node: h.node, Host: h.desired, Certificates: pki.Bundle{}}
		for _, f := range pki.FilesFor(r.work.Config, h.node, h.prefix, r.bundle()) {
			entry := r.bundle()[f.Entry]
			if f.Entry == pki.CA && !h.node.Has(config.RoleControlPlane) {
				entry.KeyPEM = ""
			}
			all[i].Certificates[f.Entry] = entry
		}
	}
	return r.Planned(ctx, all)
}

// makePlan says what should be on the hosts that answered.
func (r *run) makePlan() error {
	facts := map[string]desired.Facts{}
	for _, h := range r.with("") {
		facts[h.node.Address] = h.facts
	}
	var err error
	r.plan, err = desired.New(desired.Input{Config: r.work.Config, Registries: r.registries, Versions: r.Versions, Hosts: facts, Encryption: r.encrypting()})
	if err != nil {
		return err
	}
	for _, h := range r.with("") {
		if h.desired, err = r.plan.Host(h.node.Address); err != nil {
			return err
		}
	}
	return nil
}

// look finds the containers and images of a host.
func (r *run) look(ctx context.Context, h *host) error {
	processes := map[string]nodeconfig.Process{}
	for _, name := range desired.Names() {
		processes[name] = nodeconfig.Process{Name: name}
	}
	containers, images, err := h.Engine().Survey(ctx, &nodeconfig.NodeConfig{Processes: processes}, h.desired.Images)
	if err != nil {
		return fmt.Errorf("look at host %s: %w", h.node.Address, err)
	}
	h.found = diff.Found{Containers: containers, Images: images}
	h.found.EtcdData = slices.ContainsFunc(containers, func(c nodeconfig.Container) bool { return c.Name == desired.Etcd })
	return nil
}

// differences are those of a host in some planes: what differs, and what has to start again
// because its certificates are new.
func (r *run) differences(h *host, planes ...string) []diff.Difference {
	host := h.desired
	host.Containers = slices.DeleteFunc(slices.Clone(host.Containers), func(c desired.Container) bool { return !slices.Contains(planes, c.Plane) })
	all := slices.DeleteFunc(diff.Of(h.desired, h.found), func(d diff.Difference) bool {
		return d.Kind != diff.Remove && !slices.ContainsFunc(host.Containers, func(c desired.Container) bool { return c.Name == d.Container })
	})
	if r.restartsOnly {
		all = slices.DeleteFunc(all, func(d diff.Difference) bool { return d.Kind != nodeconfig.Start && d.Kind != nodeconfig.Restart })
	}
	for _, c := range host.Containers {
		changes := slices.ContainsFunc(all, func(d diff.Difference) bool { return d.Container == c.Name && d.Kind != nodeconfig.Discard })
		if is := r.found(h, c.Name); !changes && is != nil && r.renewed(h, *is) {
			all = append(all, diff.Difference{Host: h.node.Address, Container: c.Name, Kind: nodeconfig.Restart, Reasons: []string{"what it reads is new"}, Found: is.ID})
		}
	}
	return all
}

func (r *run) found(h *host, name string) *nodeconfig.Container {
	i := slices.IndexFunc(h.found.Containers, func(c nodeconfig.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &h.found.Containers[i]
}

// bring brings planes of a host to what is wanted, container after container, and waits for
// each to work before the next. It says whether anything was changed.
func (r *run) bring(ctx context.Context, h *host, planes ...string) (changed bool, err error) {
	todo := r.differences(h, planes...)
	for _, d := range todo {
		if d.Kind != diff.Remove {
			continue
		}
		r.line("remove/"+d.Container, "Removing container on host [%s]", h.node.Address)
		if err := h.Discard(ctx, d.Container); err != nil {
			return changed, err
		}
		changed = true
	}
	for _, c := range h.desired.Containers {
		if !slices.Contains(planes, c.Plane) {
			continue
		}
		touched, err := r.bringOne(ctx, h, c, todo)
		changed = changed || touched
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// bringOne does what there is to do for one container, and waits for it to work.
func (r *run) bringOne(ctx context.Context, h *host, c desired.Container, todo []diff.Difference) (touched bool, err error) {
	for _, d := range todo {
		if d.Container != c.Name || d.Kind == diff.Remove {
			continue
		}
		touched = true
		if err := r.performOne(ctx, h, d); err != nil {
			return touched, err
		}
	}
	if err := r.awaitHealth(ctx, h, c); err != nil {
		return touched, err
	}
	if touched {
		if err := r.awaitSocket(ctx, h, c); err != nil {
			return touched, err
		}
		r.linkLog(ctx, h, c.Name)
	}
	return touched, nil
}

// performOne does one difference.
func (r *run) performOne(ctx context.Context, h *host, d diff.Difference) error {
	action, ok := d.Action()
	if !ok {
		return &TakenError{Containers: []string{d.Container + " on host " + d.Host}}
	}
	if d.Container == desired.Etcd && (d.Kind == nodeconfig.Create || d.Kind == nodeconfig.Replace) {
		if err := r.fixEtcdData(ctx, h); err != nil {
			return err
		}
	}
	if err := h.Engine().Perform(ctx, action); err != nil {
		return fmt.Errorf("host %s: %w", h.node.Address, err)
	}
	h.schedules = h.schedules || d.Container == desired.RollingSnapshots && (d.Kind == nodeconfig.Create || d.Kind == nodeconfig.Replace)
	switch d.Kind {
	case nodeconfig.Create, nodeconfig.Start:
		r.line(planeTitle(h, d.Container), "Successfully started [%s] container on host [%s]", d.Container, h.node.Address)
	case nodeconfig.Replace:
		r.line(planeTitle(h, d.Container), "Successfully updated [%s] container on host [%s]", d.Container, h.node.Address)
	case nodeconfig.Restart:
		r.line("restart/"+d.Container, "Successfully restarted container on host [%s]", h.node.Address)
	}
	return nil
}

// planeTitle is how log lines name the plane of a container.
func planeTitle(h *host, container string) string {
	for _, c := range h.desired.Containers {
		if c.Name == container {
			return c.Plane
		}
	}
	return config.RoleWorker
}

// linkLog makes the link by which log collectors find a container's log. It is a convenience:
// what hinders it is a warning.
func (r *run) linkLog(ctx context.Context, h *host, name string) {
	if name == desired.Sidekick {
		return
	}
	if err := h.Engine().LinkLogOf(ctx, r.work.Config.SystemImages.Alpine, name); err != nil && !errors.Is(err, context.Canceled) {
		r.Report.Warn(fmt.Sprintf("host [%s]: %v", h.node.Address, err))
	}
}
