// Starting everything again that reads what is new on its host.

package rollout

import (
	"context"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
)

// restartPlanes starts everything again that reads what is new on its host: etcd one member at a time, API servers one
// after the other, then the workers. With one gone, gated waits for all members before the next goes; where the members cannot
// work together anyway, because their certificates have ended, they are restarted together.
func restartPlanes(ctx context.Context, r *run.Run, gated bool) error {
	if err := run.Each(ctx, r.With(""), run.Parallel, r.On(reach.Look)); err != nil {
		return err
	}
	if len(r.Work.Config.Services.Etcd.ExternalURLs) == 0 {
		members := r.With(config.RoleEtcd)
		if gated {
			if err := plane.RollEtcd(ctx, r, members); err != nil {
				return err
			}
		} else if err := run.Each(ctx, members, run.Parallel, plane.BringPlane(r, config.RoleEtcd)); err != nil {
			return err
		}
		if err := plane.AllHealthy(ctx, r, members); err != nil {
			return err
		}
	}
	for _, h := range r.With(config.RoleControlPlane) {
		if err := r.SafePoint(); err != nil {
			return err
		}
		if err := plane.BringPlane(r, config.RoleControlPlane)(ctx, h); err != nil {
			return err
		}
	}
	if err := api.Open(ctx, r); err != nil {
		return err
	}
	limit, err := unavailable(r, config.RoleWorker, strategy(r).MaxUnavailableWorker, "10%")
	if err != nil {
		return err
	}
	return run.Each(ctx, r.With(""), limit, func(ctx context.Context, h *run.Host) error {
		changed, err := plane.Bring(ctx, r, h, config.RoleWorker)
		if err != nil || !changed {
			return err
		}
		return api.AwaitReady(ctx, r, h)
	})
}
