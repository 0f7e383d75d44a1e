// What later work on a cluster has in common: it is done on what is deployed, not on what
// cluster.yml has become meanwhile, and it may not begin while other work is half done.

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/kube"
)

// reachAll reaches every host of some roles, "" being all: what they would miss could not be made up for later.
func (r *run) reachAll(ctx context.Context, roles ...string) error {
	if err := r.reachSome(ctx); err != nil {
		return err
	}
	var missing []error
	for _, address := range sortedKeys(r.down) {
		n, _ := find(r.work.Config.Nodes, address)
		for _, role := range roles {
			if role == "" || n.Has(role) {
				missing = append(missing, r.down[address])
				break
			}
		}
	}
	if len(missing) > 0 {
		return advice.With(fmt.Errorf("this needs every host, and nothing was changed: %w", errors.Join(missing...)), advice.Step{Kind: advice.DropLostHosts})
	}
	r.warnDown()
	return nil
}

// restartPlanes starts everything again that reads what is new on its host: etcd one member at a time, API servers one
// after the other, then the workers. With one gone, gated waits for all members before the next goes; where the members cannot
// work together anyway, because their certificates have ended, they are restarted together.
func (r *run) restartPlanes(ctx context.Context, gated bool) error {
	if err := each(ctx, r.with(""), parallel, r.look); err != nil {
		return err
	}
	if len(r.work.Config.Services.Etcd.ExternalURLs) == 0 {
		members := r.with(config.RoleEtcd)
		if gated {
			if err := r.rollEtcd(ctx, members); err != nil {
				return err
			}
		} else if err := each(ctx, members, parallel, r.bringPlane(config.RoleEtcd)); err != nil {
			return err
		}
		if err := r.allHealthy(ctx, members); err != nil {
			return err
		}
	}
	for _, h := range r.with(config.RoleControlPlane) {
		if err := r.safePoint(); err != nil {
			return err
		}
		if err := r.bringPlane(config.RoleControlPlane)(ctx, h); err != nil {
			return err
		}
	}
	if err := r.openAPI(ctx); err != nil {
		return err
	}
	limit, err := r.unavailable(config.RoleWorker, r.strategy().MaxUnavailableWorker, "10%")
	if err != nil {
		return err
	}
	return each(ctx, r.with(""), limit, func(ctx context.Context, h *host) error {
		changed, err := r.bring(ctx, h, config.RoleWorker)
		if err != nil || !changed {
			return err
		}
		return r.awaitReady(ctx, h)
	})
}

// bringPlane brings one plane of a host to what is wanted.
func (r *run) bringPlane(plane string) func(context.Context, *host) error {
	return func(ctx context.Context, h *host) error {
		_, err := r.bring(ctx, h, plane)
		return err
	}
}

// restartPods restarts the cluster's own pods, which keep in memory what is no longer so.
func (r *run) restartPods(ctx context.Context) error {
	r.line("restart", "Restarting network, ingress, and metrics pods")
	n, err := r.api.DeletePods(ctx, kube.ClusterPods())
	if err != nil {
		return err
	}
	r.line("restart", "%d pods restart", n)
	return nil
}

// reading are the containers of a host that read one of some certificates, in the order in which they run.
func reading(h *host, changed func(entry string) bool) []string {
	var names []string
	for _, c := range h.desired.Containers {
		for _, entry := range entriesOf(c.Name, h) {
			if changed(entry) {
				names = append(names, c.Name)
				break
			}
		}
	}
	return names
}

// restartLine is a line of a preview: what restarts on a host; "" when nothing does.
func restartLine(h *host, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return h.node.Address + " restart: " + strings.Join(names, ", ")
}

// apiServers are the hosts' API servers in the words of a preview.
func apiServers(hosts []*host) []string {
	var lines []string
	for _, h := range hosts {
		lines = append(lines, restartLine(h, []string{desired.KubeAPIServer}))
	}
	return lines
}
