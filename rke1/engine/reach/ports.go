// What is looked at and fetched before anything is changed on the hosts.

package reach

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/preflight"
)

// Check looks at hosts that are new or have a new role. The errors are those of preflight: each names host and port.
func Check(ctx context.Context, r *run.Run) error { return Preflight(r).Run(ctx) }

// Preflight is what is looked at before anything is changed.
func Preflight(r *run.Run) preflight.Check {
	c := preflight.Check{Config: r.Work.Config, Plan: r.Plan, NoPorts: r.Work.DisablePortCheck, Line: r.Line, Warn: func(text string) { r.Report.Warn(text) }, Pause: r.Wait}
	for _, h := range r.With("") {
		was, there := run.Find(r.Deployed(), h.Node.Address)
		fresh := !there || slices.ContainsFunc(h.Node.Role, func(role string) bool { return !was.Has(role) })
		c.Hosts = append(c.Hosts, &preflight.Host{Host: h.Host, Node: h.Node, Wanted: h.Desired, Found: h.Found.Containers, New: fresh})
	}
	return c
}

// Images fetches what is not on the hosts yet, all at the same time, before anything stops. The error names the host whose pull has failed.
func Images(ctx context.Context, r *run.Run) error {
	r.Line("", "Pre-pulling kubernetes images")
	err := run.Each(ctx, r.With(""), run.Parallel, func(ctx context.Context, h *run.Host) error {
		for _, image := range h.Desired.Images {
			if _, there := h.Found.Images[image]; there {
				continue
			}
			base, err := h.Engine().Pull(ctx, image, r.Plan.Login(image))
			if err != nil {
				return fmt.Errorf("host %s: %w", h.Node.Address, err)
			}
			r.Line("", "Pulled image [%s] on host [%s]", image, h.Node.Address)
			h.Found.Images[image] = *base
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Line("", "Kubernetes images pulled successfully")
	return nil
}
