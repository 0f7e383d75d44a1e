// Package rollout brings the control plane and the workers to what the config says, and the way of both through the hosts of a
// running cluster.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
)

// ControlPlane starts a new cluster's API servers together; on a running cluster hosts take turns. It returns the errors of the hosts, and that of a
// max_unavailable that cannot be read.
func ControlPlane(ctx context.Context, r *run.Run) error {
	if r.Work.UpdateOnly {
		return api.Open(ctx, r)
	}
	r.Line("controlplane", "Building up Controller Plane..")
	hosts := r.With(config.RoleControlPlane)
	bring := func(ctx context.Context, h *run.Host) error {
		_, err := plane.Bring(ctx, r, h, config.RoleControlPlane)
		return err
	}
	if r.Fresh() {
		if err := run.Each(ctx, hosts, run.Parallel, bring); err != nil {
			return err
		}
		r.Line("controlplane", "Successfully started Controller Plane..")
		return api.Open(ctx, r)
	}
	// A control plane that does not answer at all is mended before any node is drained.
	if err := api.Open(ctx, r); err != nil {
		r.Report.Warn("the cluster's API does not answer; its control plane is brought to what it should be without cordons: " + err.Error())
		if err := run.Each(ctx, hosts, 1, bring); err != nil {
			return err
		}
		return api.Open(ctx, r)
	}
	limit, err := room(r, hosts, config.RoleControlPlane, strategy(r).MaxUnavailableControlplane, "1", config.RoleControlPlane, config.RoleWorker)
	if err != nil {
		return err
	}
	if err := Roll(ctx, r, hosts, limit, config.RoleControlPlane, config.RoleWorker); err != nil {
		return err
	}
	r.Line("controlplane", "Successfully upgraded Controller Plane..")
	return nil
}

// Workers does the same for kubelets and proxies. Hosts of the control plane had theirs in
// their turn when the cluster was running already. It returns the errors of the hosts, and that of a max_unavailable that cannot be read.
func Workers(ctx context.Context, r *run.Run) error {
	r.Line("worker", "Building up Worker Plane..")
	hosts := r.With("")
	if r.Fresh() {
		if err := run.Each(ctx, hosts, run.Parallel, func(ctx context.Context, h *run.Host) error {
			_, err := plane.Bring(ctx, r, h, config.RoleWorker)
			return err
		}); err != nil {
			return err
		}
		r.Line("worker", "Successfully started Worker Plane..")
		return nil
	}
	var etcd, workers []*run.Host
	for _, h := range hosts {
		switch {
		case h.Node.Has(config.RoleControlPlane):
		case h.Node.Has(config.RoleEtcd):
			etcd = append(etcd, h)
		default:
			workers = append(workers, h)
		}
	}
	if err := Roll(ctx, r, etcd, 1, config.RoleWorker); err != nil {
		return err
	}
	limit, err := room(r, workers, config.RoleWorker, strategy(r).MaxUnavailableWorker, "10%", config.RoleWorker)
	if err != nil {
		return err
	}
	if err := Roll(ctx, r, workers, limit, config.RoleWorker); err != nil {
		return err
	}
	r.Line("worker", "Successfully upgraded Worker Plane..")
	return nil
}

func strategy(r *run.Run) config.UpgradeStrategy {
	if s := r.Work.Config.UpgradeStrategy; s != nil {
		return *s
	}
	return config.UpgradeStrategy{}
}

// room is how many hosts may have their turn at a time. Where no host changes, all may have it at
// the same time, also when other hosts cannot be reached.
func room(r *run.Run, hosts []*run.Host, role, text, usual string, planes ...string) (int, error) {
	changes := slices.ContainsFunc(hosts, func(h *run.Host) bool { return len(plane.Differences(r, h, planes...)) > 0 })
	if !changes {
		return run.Parallel, nil
	}
	return unavailable(r, role, text, usual)
}

// unavailable is how many hosts of a role may be away at a time, those that cannot be reached included.
func unavailable(r *run.Run, role, text, usual string) (int, error) {
	all := r.NodesWith(role)
	if role == config.RoleWorker {
		all = slices.DeleteFunc(all, func(n config.Node) bool { return n.Has(config.RoleControlPlane) || n.Has(config.RoleEtcd) })
	}
	if len(all) == 0 {
		return 1, nil
	}
	text = cmp.Or(text, usual)
	limit, err := share(text, len(all))
	if err != nil {
		return 0, fmt.Errorf("upgrade_strategy of role %s: %w", role, err)
	}
	away := 0
	for _, n := range all {
		if r.Down[n.Address] != nil {
			away++
		}
	}
	if away >= limit && away > 0 {
		return 0, fmt.Errorf("cannot proceed with upgrade of %s: %d of its hosts cannot be reached, and upgrade_strategy allows %d to be away", role, away, limit)
	}
	r.Line("", "Setting maxUnavailable for %s nodes to: %d", role, limit-away)
	return min(limit-away, run.Parallel), nil
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

// Roll brings hosts of a running cluster to what is wanted, so many at a time. What fails on one
// host is counted; when as many failed as may be away, the run ends.
func Roll(ctx context.Context, r *run.Run, hosts []*run.Host, limit int, planes ...string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := &counter{limit: limit, stop: stop}
	err := run.Each(ctx, brokenFirst(ctx, r, hosts), limit, func(ctx context.Context, h *run.Host) error {
		if err := r.SafePoint(); err != nil {
			stop(err)
			return nil
		}
		if err := Turn(ctx, r, h, planes); err != nil && ctx.Err() == nil {
			failed.add(err)
			r.Fail(fmt.Errorf("host %s could not be brought to what is wanted: %w", h.Node.Address, err))
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Turn is one host's: it is cordoned and drained only when something of it changes. The errors are those of draining, of the host and of a node that
// does not become ready: it stays cordoned then.
func Turn(ctx context.Context, r *run.Run, h *run.Host, planes []string) error {
	_, was := run.Find(r.Deployed(), h.Node.Address)
	todo := plane.Differences(r, h, planes...)
	if len(todo) == 0 || !was {
		_, err := plane.Bring(ctx, r, h, planes...)
		if err == nil && was {
			err = release(ctx, r, h)
		}
		return err
	}
	todo, err := Mend(ctx, r, h, planes, todo)
	if err != nil {
		return err
	}
	if disturbs(todo) {
		if err := vacate(ctx, r, h); err != nil {
			return err
		}
	}
	if _, err := plane.Bring(ctx, r, h, planes...); err != nil {
		return err
	}
	if err := api.AwaitReady(ctx, r, h); err != nil {
		return err
	}
	return release(ctx, r, h)
}

// Mend starts what does not run of the things to do on a host, and returns the others. That disturbs no pod, and pods may need
// it to leave: those of a host whose kubelet stands still, or has no API server because a replacement of it was interrupted, never end.
// Where the sidekick is to be replaced everything that has its volumes goes with it, as one.
func Mend(ctx context.Context, r *run.Run, h *run.Host, planes []string, todo []diff.Difference) ([]diff.Difference, error) {
	if Concerns(todo, desired.Sidekick) {
		return todo, nil
	}
	mended := false
	for _, c := range h.Desired.Containers {
		if is := plane.Found(h, c.Name); is != nil && is.Running && !is.Restarting || !Concerns(todo, c.Name) {
			continue
		}
		if _, err := plane.BringOne(ctx, r, h, c, todo); err != nil {
			return nil, err
		}
		mended = true
	}
	if !mended {
		return todo, nil
	}
	if err := reach.Look(ctx, r, h); err != nil {
		return nil, err
	}
	return plane.Differences(r, h, planes...), nil
}

// Concerns says that something is to be done to a container.
func Concerns(todo []diff.Difference, container string) bool {
	return slices.ContainsFunc(todo, func(d diff.Difference) bool { return d.Container == container })
}

// disturbs says that pods of a host may notice a change. That of its way to the API servers, which each new control plane host brings
// to all workers, they do not.
func disturbs(todo []diff.Difference) bool {
	return slices.ContainsFunc(todo, func(d diff.Difference) bool { return d.Container != desired.NginxProxy })
}

// vacate cordons a host's node, and drains it where the config says so. A host without a node has no pods.
func vacate(ctx context.Context, r *run.Run, h *run.Host) error {
	name := run.NodeName(h.Node)
	err := r.API.Cordon(ctx, name)
	if missing := new(kube.NodeMissingError); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	if drain := strategy(r).Drain; drain != nil && *drain {
		input := config.DrainInput{GracePeriod: -1, Timeout: 120}
		if i := strategy(r).DrainInput; i != nil {
			input = *i
		}
		return r.API.Drain(ctx, name, input)
	}
	return nil
}

// release undoes the cordon of this run or of one that was interrupted.
func release(ctx context.Context, r *run.Run, h *run.Host) error {
	err := r.API.Uncordon(ctx, run.NodeName(h.Node))
	if missing := new(kube.NodeMissingError); errors.As(err, &missing) {
		return nil
	}
	return err
}

// brokenFirst puts hosts first whose nodes are not ready, or whose kubelet does not run, which the API knows of a minute later only, and of
// a snapshot's time after a restore: a change may be what mends them, and pods of the others cannot leave while theirs are away.
func brokenFirst(ctx context.Context, r *run.Run, hosts []*run.Host) []*run.Host {
	nodes, err := r.API.Nodes(ctx)
	rank := func(h *run.Host) int {
		is := plane.Found(h, desired.Kubelet)
		runs := is != nil && is.Running && !is.Restarting
		if ready, _ := kube.Ready(nodes[run.NodeName(h.Node)]); runs && (ready || err != nil) {
			return 1
		}
		return 0
	}
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b *run.Host) int { return rank(a) - rank(b) })
	return hosts
}

// counter ends a roll-out when as many hosts failed as may be away.
type counter struct {
	limit int
	stop  context.CancelCauseFunc

	mu     sync.Mutex
	failed int
}

// add counts a host that failed.
func (c *counter) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed++; c.failed >= c.limit {
		c.stop(fmt.Errorf("%d hosts failed, and upgrade_strategy allows no more to be away: %w", c.failed, err))
	}
}
