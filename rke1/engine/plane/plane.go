// Package plane brings the containers of a host to what is wanted: what differs is a value, and is done container after container,
// each waited for until it works.
package plane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// BringPlane brings one plane of a host to what is wanted.
func BringPlane(r *run.Run, plane string) func(context.Context, *run.Host) error {
	return func(ctx context.Context, h *run.Host) error {
		_, err := Bring(ctx, r, h, plane)
		return err
	}
}

// Differences are those of a host in some planes: what differs, and what has to start again
// because its certificates are new.
func Differences(r *run.Run, h *run.Host, planes ...string) []diff.Difference {
	host := h.Desired
	host.Containers = slices.DeleteFunc(slices.Clone(host.Containers), func(c desired.Container) bool { return !slices.Contains(planes, c.Plane) })
	all := slices.DeleteFunc(diff.Of(h.Desired, h.Found), func(d diff.Difference) bool {
		return d.Kind != diff.Remove && !slices.ContainsFunc(host.Containers, func(c desired.Container) bool { return c.Name == d.Container })
	})
	if r.RestartsOnly {
		all = slices.DeleteFunc(all, func(d diff.Difference) bool { return d.Kind != nodeconfig.Start && d.Kind != nodeconfig.Restart })
	}
	for _, c := range host.Containers {
		changes := slices.ContainsFunc(all, func(d diff.Difference) bool { return d.Container == c.Name && d.Kind != nodeconfig.Discard })
		if is := Found(h, c.Name); !changes && is != nil && Renewed(r, h, *is) {
			all = append(all, diff.Difference{Host: h.Node.Address, Container: c.Name, Kind: nodeconfig.Restart, Reasons: []string{"what it reads is new"}, Found: is.ID})
		}
	}
	return all
}

// Found is a container that is on a host; nil when there is none of the name.
func Found(h *run.Host, name string) *nodeconfig.Container {
	i := slices.IndexFunc(h.Found.Containers, func(c nodeconfig.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Found.Containers[i]
}

// Bring brings planes of a host to what is wanted, container after container, and waits for
// each to work before the next. It says whether anything was changed. The errors are those of PerformOne and of the waits.
func Bring(ctx context.Context, r *run.Run, h *run.Host, planes ...string) (changed bool, err error) {
	todo := Differences(r, h, planes...)
	for _, d := range todo {
		if d.Kind != diff.Remove {
			continue
		}
		r.Line("remove/"+d.Container, "Removing container on host [%s]", h.Node.Address)
		if err := h.Discard(ctx, d.Container); err != nil {
			return changed, err
		}
		changed = true
	}
	for _, c := range h.Desired.Containers {
		if !slices.Contains(planes, c.Plane) {
			continue
		}
		touched, err := BringOne(ctx, r, h, c, todo)
		changed = changed || touched
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// BringOne does what there is to do for one container, and waits for it to work. The errors are those of PerformOne and of the waits.
func BringOne(ctx context.Context, r *run.Run, h *run.Host, c desired.Container, todo []diff.Difference) (touched bool, err error) {
	for _, d := range todo {
		if d.Container != c.Name || d.Kind == diff.Remove {
			continue
		}
		touched = true
		if err := PerformOne(ctx, r, h, d); err != nil {
			return touched, err
		}
	}
	if err := AwaitHealth(ctx, r, h, c); err != nil {
		return touched, err
	}
	if touched {
		if err := AwaitSocket(ctx, r, h, c); err != nil {
			return touched, err
		}
		linkLog(ctx, r, h, c.Name)
	}
	return touched, nil
}

// PerformOne does one difference. It returns a *run.TakenError for a container that is not the cluster's, and the host's error.
func PerformOne(ctx context.Context, r *run.Run, h *run.Host, d diff.Difference) error {
	action, ok := d.Action()
	if !ok {
		return &run.TakenError{Containers: []string{d.Container + " on host " + d.Host}}
	}
	if d.Container == desired.Etcd && (d.Kind == nodeconfig.Create || d.Kind == nodeconfig.Replace) {
		if err := fixEtcdData(ctx, r, h); err != nil {
			return err
		}
	}
	if err := h.Engine().Perform(ctx, action); err != nil {
		return fmt.Errorf("host %s: %w", h.Node.Address, err)
	}
	h.Schedules = h.Schedules || d.Container == desired.RollingSnapshots && (d.Kind == nodeconfig.Create || d.Kind == nodeconfig.Replace)
	switch d.Kind {
	case nodeconfig.Create, nodeconfig.Start:
		r.Line(planeTitle(h, d.Container), "Successfully started [%s] container on host [%s]", d.Container, h.Node.Address)
	case nodeconfig.Replace:
		r.Line(planeTitle(h, d.Container), "Successfully updated [%s] container on host [%s]", d.Container, h.Node.Address)
	case nodeconfig.Restart:
		r.Line("restart/"+d.Container, "Successfully restarted container on host [%s]", h.Node.Address)
	}
	return nil
}

// planeTitle is how log lines name the plane of a container.
func planeTitle(h *run.Host, container string) string {
	for _, c := range h.Desired.Containers {
		if c.Name == container {
			return c.Plane
		}
	}
	return config.RoleWorker
}

// linkLog makes the link by which log collectors find a container's log. It is a convenience:
// what hinders it is a warning.
func linkLog(ctx context.Context, r *run.Run, h *run.Host, name string) {
	if name == desired.Sidekick {
		return
	}
	if err := h.Engine().LinkLogOf(ctx, r.Work.Config.SystemImages.Alpine, name); err != nil && !errors.Is(err, context.Canceled) {
		r.Report.Warn(fmt.Sprintf("host [%s]: %v", h.Node.Address, err))
	}
}

// fixEtcdData gives the data directory to etcd's user, as etcd demands it.
func fixEtcdData(ctx context.Context, r *run.Run, h *run.Host) error {
	once, err := r.Plan.Once(h.Node.Address)
	if err != nil {
		return err
	}
	_, err = h.Run(ctx, onhost.Once{Process: once.FixPermissions()})
	return err
}
