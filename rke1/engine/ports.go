// What is looked at and fetched before anything is changed on the hosts.

package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/preflight"
)

// checkHosts looks at hosts that are new or have a new role.
func (r *run) checkHosts(ctx context.Context) error { return r.preflight().Run(ctx) }

func (r *run) preflight() preflight.Check {
	c := preflight.Check{Config: r.work.Config, Plan: r.plan, NoPorts: r.work.DisablePortCheck, Line: r.line, Warn: func(text string) { r.Report.Warn(text) }, Pause: r.pause}
	for _, h := range r.with("") {
		was, there := find(r.deployed(), h.node.Address)
		fresh := !there || slices.ContainsFunc(h.node.Role, func(role string) bool { return !was.Has(role) })
		c.Hosts = append(c.Hosts, &preflight.Host{Host: h.Host, Node: h.node, Wanted: h.desired, Found: h.found.Containers, New: fresh})
	}
	return c
}

// pullImages fetches what is not on the hosts yet, all at the same time, before anything stops.
func (r *run) pullImages(ctx context.Context) error {
	r.line("", "Pre-pulling kubernetes images")
	err := each(ctx, r.with(""), parallel, func(ctx context.Context, h *host) error {
		for _, image := range h.desired.Images {
			if _, there := h.found.Images[image]; there {
				continue
			}
			base, err := h.Engine().Pull(ctx, image, r.plan.Login(image))
			if err != nil {
				return fmt.Errorf("host %s: %w", h.node.Address, err)
			}
			r.line("", "Pulled image [%s] on host [%s]", image, h.node.Address)
			h.found.Images[image] = *base
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.line("", "Kubernetes images pulled successfully")
	return nil
}
