// The control plane, and the way of both planes through the hosts of a running cluster.

package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/kube"
)

// controlPlane starts a new cluster's API servers together; on a running cluster hosts take turns.
func (r *run) controlPlane(ctx context.Context) error {
	if r.work.UpdateOnly {
		return r.openAPI(ctx)
	}
	r.line("controlplane", "Building up Controller Plane..")
	hosts := r.with(config.RoleControlPlane)
	bring := func(ctx context.Context, h *host) error {
		_, err := r.bring(ctx, h, config.RoleControlPlane)
		return err
	}
	if r.fresh() {
		if err := each(ctx, hosts, parallel, bring); err != nil {
			return err
		}
		r.line("controlplane", "Successfully started Controller Plane..")
		return r.openAPI(ctx)
	}
	// A control plane that does not answer at all is mended before anybody is asked to leave his node.
	if err := r.openAPI(ctx); err != nil {
		r.Report.Warn("the cluster's API does not answer; its control plane is brought to what it should be without cordons: " + err.Error())
		if err := each(ctx, hosts, 1, bring); err != nil {
			return err
		}
		return r.openAPI(ctx)
	}
	limit, err := r.room(hosts, config.RoleControlPlane, r.strategy().MaxUnavailableControlplane, "1", config.RoleControlPlane, config.RoleWorker)
	if err != nil {
		return err
	}
	if err := r.roll(ctx, hosts, limit, config.RoleControlPlane, config.RoleWorker); err != nil {
		return err
	}
	r.line("controlplane", "Successfully upgraded Controller Plane..")
	return nil
}

// workerPlane does the same for kubelets and proxies. Hosts of the control plane had theirs in
// their turn when the cluster was running already.
func (r *run) workerPlane(ctx context.Context) error {
	r.line("worker", "Building up Worker Plane..")
	hosts := r.with("")
	if r.fresh() {
		if err := each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
			_, err := r.bring(ctx, h, config.RoleWorker)
			return err
		}); err != nil {
			return err
		}
		r.line("worker", "Successfully started Worker Plane..")
		return nil
	}
	var etcd, workers []*host
	for _, h := range hosts {
		switch {
		case h.node.Has(config.RoleControlPlane):
		case h.node.Has(config.RoleEtcd):
			etcd = append(etcd, h)
		default:
			workers = append(workers, h)
		}
	}
	if err := r.roll(ctx, etcd, 1, config.RoleWorker); err != nil {
		return err
	}
	limit, err := r.room(workers, config.RoleWorker, r.strategy().MaxUnavailableWorker, "10%", config.RoleWorker)
	if err != nil {
		return err
	}
	if err := r.roll(ctx, workers, limit, config.RoleWorker); err != nil {
		return err
	}
	r.line("worker", "Successfully upgraded Worker Plane..")
	return nil
}

func (r *run) strategy() config.UpgradeStrategy {
	if s := r.work.Config.UpgradeStrategy; s != nil {
		return *s
	}
	return config.UpgradeStrategy{}
}

// room is how many hosts may have their turn at a time. Where nothing changes nobody has to be away for it, whatever
// other hosts are.
func (r *run) room(hosts []*host, role, text, usual string, planes ...string) (int, error) {
	changes := slices.ContainsFunc(hosts, func(h *host) bool { return len(r.differences(h, planes...)) > 0 })
	if !changes {
		return parallel, nil
	}
	return r.unavailable(role, text, usual)
}

// unavailable is how many hosts of a role may be away at a time, those that cannot be reached included.
func (r *run) unavailable(role, text, usual string) (int, error) {
	all := r.nodesWith(role)
	if role == config.RoleWorker {
		all = slices.DeleteFunc(all, func(n config.Node) bool { return n.Has(config.RoleControlPlane) || n.Has(config.RoleEtcd) })
	}
	if len(all) == 0 {
		return 1, nil
	}
	if text == "" {
		text = usual
	}
	limit, err := share(text, len(all))
	if err != nil {
		return 0, fmt.Errorf("upgrade_strategy of role %s: %w", role, err)
	}
	away := 0
	for _, n := range all {
		if r.down[n.Address] != nil {
			away++
		}
	}
	if away >= limit && away > 0 {
		return 0, fmt.Errorf("cannot proceed with upgrade of %s: %d of its hosts cannot be reached, and upgrade_strategy allows %d to be away", role, away, limit)
	}
	r.line("", "Setting maxUnavailable for %s nodes to: %d", role, limit-away)
	return min(limit-away, parallel), nil
}

// share is a number, or a percentage of a number rounded down, and at least 1.
func share(text string, of int) (int, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 || percent && n > 100 {
		return 0, fmt.Errorf("%q is neither a number above 0 nor a percentage up to 100%%", text)
	}
	if percent {
		n = int(math.Floor(float64(of) * float64(n) / 100))
	}
	return max(n, 1), nil
}

// roll brings hosts of a running cluster to what is wanted, so many at a time. What fails on one
// host is counted; when as many failed as may be away, the run ends.
func (r *run) roll(ctx context.Context, hosts []*host, limit int, planes ...string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := &counter{limit: limit, stop: stop}
	err := each(ctx, r.brokenFirst(ctx, hosts), limit, func(ctx context.Context, h *host) error {
		if err := r.safePoint(); err != nil {
			stop(err)
			return nil
		}
		if err := r.turn(ctx, h, planes); err != nil && ctx.Err() == nil {
			failed.add(err)
			r.fail(fmt.Errorf("host %s could not be brought to what is wanted: %w", h.node.Address, err))
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// turn is one host's: it is cordoned and drained only when something of it changes.
func (r *run) turn(ctx context.Context, h *host, planes []string) error {
	_, was := find(r.deployed(), h.node.Address)
	todo := r.differences(h, planes...)
	if len(todo) == 0 || !was {
		_, err := r.bring(ctx, h, planes...)
		if err == nil && was {
			err = r.release(ctx, h)
		}
		return err
	}
	todo, err := r.mend(ctx, h, planes, todo)
	if err != nil {
		return err
	}
	if disturbs(todo) {
		if err := r.vacate(ctx, h); err != nil {
			return err
		}
	}
	if _, err := r.bring(ctx, h, planes...); err != nil {
		return err
	}
	if err := r.awaitReady(ctx, h); err != nil {
		return err
	}
	return r.release(ctx, h)
}

// mend starts what does not run of the things to do on a host, and returns the others. Nobody is disturbed by that, and pods may need
// it to leave: those of a host whose kubelet stands still, or has no API server because a replacement of it was interrupted, never end.
// Where the sidekick is to be replaced everything that has its volumes goes with it, as one.
func (r *run) mend(ctx context.Context, h *host, planes []string, todo []diff.Difference) ([]diff.Difference, error) {
	if concerns(todo, desired.Sidekick) {
		return todo, nil
	}
	mended := false
	for _, c := range h.desired.Containers {
		if is := r.found(h, c.Name); is != nil && is.Running && !is.Restarting || !concerns(todo, c.Name) {
			continue
		}
		if _, err := r.bringOne(ctx, h, c, todo); err != nil {
			return nil, err
		}
		mended = true
	}
	if !mended {
		return todo, nil
	}
	if err := r.look(ctx, h); err != nil {
		return nil, err
	}
	return r.differences(h, planes...), nil
}

func concerns(todo []diff.Difference, container string) bool {
	return slices.ContainsFunc(todo, func(d diff.Difference) bool { return d.Container == container })
}

// disturbs says that pods of a host may notice a change. That of its way to the API servers, which each new control plane host brings
// to all workers, they do not.
func disturbs(todo []diff.Difference) bool {
	return slices.ContainsFunc(todo, func(d diff.Difference) bool { return d.Container != desired.NginxProxy })
}

// vacate cordons a host's node, and drains it where the config says so. A host without a node has no pods.
func (r *run) vacate(ctx context.Context, h *host) error {
	name := nodeName(h.node)
	err := r.api.Cordon(ctx, name)
	if missing := new(kube.NodeMissingError); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	if drain := r.strategy().Drain; drain != nil && *drain {
		input := config.DrainInput{GracePeriod: -1, Timeout: 120}
		if i := r.strategy().DrainInput; i != nil {
			input = *i
		}
		return r.api.Drain(ctx, name, input)
	}
	return nil
}

// release undoes the cordon of this run or of one that was interrupted.
func (r *run) release(ctx context.Context, h *host) error {
	err := r.api.Uncordon(ctx, nodeName(h.node))
	if missing := new(kube.NodeMissingError); errors.As(err, &missing) {
		return nil
	}
	return err
}

// awaitReady waits until a host's node is ready.
func (r *run) awaitReady(ctx context.Context, h *host) error {
	name := nodeName(h.node)
	for attempt := 1; ; attempt++ {
		message := ""
		nodes, err := r.api.Nodes(ctx)
		if err == nil {
			node, there := nodes[name]
			ready := false
			if message = "it has not registered"; there {
				ready, message = kube.Ready(node)
			}
			if ready {
				return nil
			}
			err = errors.New(message)
		}
		if attempt == etcdTries {
			return fmt.Errorf("node %s is not Ready: %w", name, err)
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
}

// brokenFirst puts hosts first whose nodes are not ready: a change may be what mends them.
func (r *run) brokenFirst(ctx context.Context, hosts []*host) []*host {
	nodes, err := r.api.Nodes(ctx)
	if err != nil {
		return hosts
	}
	rank := func(h *host) int {
		if ready, _ := kube.Ready(nodes[nodeName(h.node)]); ready {
			return 1
		}
		return 0
	}
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b *host) int { return rank(a) - rank(b) })
	return hosts
}
