// The etcd plane: a new cluster's members are started together, those of a running one are
// changed one at a time, and a new one joins when all others are well.

package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// etcdDir is etcd's data on a host, below its prefix.
const etcdDir = "/var/lib/etcd"

func (r *run) etcdPlane(ctx context.Context) error {
	if len(r.work.Config.Services.Etcd.ExternalURLs) > 0 || r.work.UpdateOnly {
		return nil
	}
	r.line("etcd", "Building up etcd plane..")
	hosts := r.with(config.RoleEtcd)
	if r.fresh() {
		if err := r.foundEtcd(ctx, hosts); err != nil {
			return err
		}
	} else if err := r.changeEtcd(ctx, hosts); err != nil {
		return err
	}
	r.line("etcd", "Successfully started etcd plane.. Checking etcd cluster health")
	return r.allHealthy(ctx, hosts)
}

// foundEtcd starts all founders: none works before more than half of them are there. Where an interrupted run began with fewer,
// the others join what it founded.
func (r *run) foundEtcd(ctx context.Context, hosts []*host) error {
	flags := map[string][]string{}
	for _, h := range hosts {
		if is := r.found(h, desired.Etcd); is != nil {
			flags[h.node.Address] = slices.Concat(is.Entrypoint, is.Cmd)
		}
	}
	all, err := r.work.cluster().Founders(flags, r.down)
	if err != nil {
		return err
	}
	founders := slices.DeleteFunc(slices.Clone(hosts), func(h *host) bool { return !slices.Contains(all, h.node.Address) })
	if len(founders) <= len(all)/2 {
		return fmt.Errorf("%d of %d etcd hosts can be reached (%s): a new cluster needs more than half of them", len(founders), len(all), names(founders))
	}
	if err := each(ctx, founders, parallel, func(ctx context.Context, h *host) error { return r.startEtcd(ctx, h, false, all) }); err != nil {
		return err
	}
	return r.joinAll(ctx, hosts, founders)
}

// ReplacedError is that none of the hosts that have the cluster's data is in the config any more.
type ReplacedError struct{ Before []string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("Etcd plane nodes are replaced. Stopping provisioning. Please restore your cluster from backup. "+
		"None of the hosts that have its data (%v) is in the config: put one of them back, run once so that the new hosts join, and take it out then; "+
		"or restore a snapshot on the new hosts", e.Before)
}

// changeEtcd changes members one after the other, those that run first, each when all are well.
func (r *run) changeEtcd(ctx context.Context, hosts []*host) error {
	var members []*host
	var before []string
	for _, n := range r.deployed() {
		if !n.Has(config.RoleEtcd) {
			continue
		}
		before = append(before, n.Address)
		if h := r.hosts[n.Address]; h != nil {
			members = append(members, h)
		}
	}
	stay := slices.DeleteFunc(slices.Clone(hosts), func(h *host) bool { return !slices.Contains(before, h.node.Address) })
	if len(before) > 0 && len(stay) == 0 {
		return &ReplacedError{Before: before}
	}
	if err := r.rollEtcd(ctx, stay); err != nil {
		return err
	}
	return r.joinAll(ctx, slices.DeleteFunc(slices.Clone(hosts), func(h *host) bool { return slices.Contains(before, h.node.Address) }), members)
}

// joinAll adds those of some hosts that are not among the members, one after the other.
func (r *run) joinAll(ctx context.Context, hosts, members []*host) error {
	members = slices.Clone(members)
	for _, h := range hosts {
		if slices.Contains(members, h) {
			continue
		}
		if err := r.safePoint(); err != nil {
			return err
		}
		if err := r.joinEtcd(ctx, h, members); err != nil {
			return err
		}
		members = append(members, h)
	}
	return nil
}

// rollEtcd changes the members that run and differ, one at a time. A member that does not
// work is mended first: the others being well is not asked then.
func (r *run) rollEtcd(ctx context.Context, members []*host) error {
	for _, h := range members {
		todo := r.differences(h, config.RoleEtcd)
		running := r.found(h, desired.Etcd)
		if len(todo) > 0 && running != nil && running.Running {
			if err := r.safePoint(); err != nil {
				return err
			}
			if err := r.allHealthy(ctx, members); err != nil {
				return fmt.Errorf("etcd on host %s has to change, which waits until every member works: %w", h.node.Address, err)
			}
		}
		changed, err := r.bring(ctx, h, config.RoleEtcd)
		if err != nil {
			return err
		}
		if changed {
			if err := r.healthy(ctx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// joinEtcd adds one member: as a learner, so that the others' quorum stays as it is until it
// has the data, and then as a voter.
func (r *run) joinEtcd(ctx context.Context, h *host, members []*host) error {
	if err := r.allHealthy(ctx, members); err != nil {
		return fmt.Errorf("etcd on host %s joins when every member works: %w", h.node.Address, err)
	}
	by, list, err := r.members(ctx, members)
	if err != nil {
		return fmt.Errorf("add host %s to etcd: %w", h.node.Address, err)
	}
	member := memberOf(list, h.node)
	if member == nil {
		if err := r.setDataAside(ctx, h); err != nil {
			return err
		}
		r.line("add/etcd", "Adding member [etcd-%s] to etcd cluster", nodeName(h.node))
		if member, list, err = r.addMember(ctx, h, by); err != nil {
			return err
		}
	}
	if err := r.startJoining(ctx, h, list); err != nil {
		return err
	}
	if err := r.promote(ctx, h, by, member); err != nil {
		return err
	}
	r.line("add/etcd", "Successfully Added member [etcd-%s] to etcd cluster", nodeName(h.node))
	return nil
}

// addMember adds a learner. etcd refuses that for some seconds after another member has joined:
// all of them must have been connected for a while.
func (r *run) addMember(ctx context.Context, h, by *host) (member *etcdserverpb.Member, list []*etcdserverpb.Member, err error) {
	for attempt := 1; ; attempt++ {
		err = r.ask(ctx, by, "add a member", func(ctx context.Context, c *clientv3.Client) error {
			answer, err := c.MemberAddAsLearner(ctx, []string{peerURL(h.node)})
			if err == nil {
				member, list = answer.Member, answer.Members
			}
			return err
		})
		if err == nil || attempt == etcdTries || !errors.Is(err, rpctypes.ErrUnhealthy) {
			return member, list, err
		}
		r.line("add/etcd", "Member [etcd-%s] cannot be added yet, try %d of %d: %v", nodeName(h.node), attempt, etcdTries, err)
		if err := r.pause(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// startJoining starts a member that finds its cluster instead of founding one.
func (r *run) startJoining(ctx context.Context, h *host, list []*etcdserverpb.Member) error {
	var addresses []string
	for _, n := range slices.Concat(r.work.Config.Nodes, r.deployed()) {
		if memberOf(list, n) != nil && !slices.Contains(addresses, n.Address) {
			addresses = append(addresses, n.Address)
		}
	}
	return r.startEtcd(ctx, h, true, addresses)
}

// startEtcd starts a member with its cluster's members.
func (r *run) startEtcd(ctx context.Context, h *host, joining bool, members []string) error {
	input := r.plan.Input
	input.Joining, input.Members = joining, members
	plan, err := desired.New(input)
	if err != nil {
		return err
	}
	as, err := plan.Host(h.node.Address)
	if err != nil {
		return err
	}
	usual := h.desired
	h.desired = as
	_, err = r.bring(ctx, h, config.RoleEtcd)
	h.desired = usual
	return err
}

// promote waits until a learner has the data and makes it a voter.
func (r *run) promote(ctx context.Context, h, by *host, member *etcdserverpb.Member) error {
	for attempt := 1; ; attempt++ {
		_, list, err := r.members(ctx, []*host{by})
		if err == nil {
			is := memberOf(list, h.node)
			if is == nil {
				return fmt.Errorf("etcd on host %s is not a member any more: somebody removed it while it joined", h.node.Address)
			}
			if !is.IsLearner {
				return r.healthy(ctx, h)
			}
			err = r.ask(ctx, by, "make a member vote", func(ctx context.Context, c *clientv3.Client) error {
				_, err := c.MemberPromote(ctx, member.ID)
				return err
			})
		}
		if err != nil && attempt == etcdTries {
			return fmt.Errorf("etcd on host %s does not come to have the data of the others: %w", h.node.Address, err)
		}
		if err != nil {
			r.line("add/etcd", "Member [etcd-%s] does not vote yet, try %d of %d: %v", nodeName(h.node), attempt, etcdTries, err)
			if err := r.pause(ctx); err != nil {
				return err
			}
		}
	}
}

// fixEtcdData gives the data directory to etcd's user, as etcd demands it.
func (r *run) fixEtcdData(ctx context.Context, h *host) error {
	once, err := r.plan.Once(h.node.Address)
	if err != nil {
		return err
	}
	_, err = h.Run(ctx, onhost.Once{Process: once.FixPermissions()})
	return err
}

// moveEtcdAside moves etcd's data from its directory, $1, to $2 in the same, if there are any, and says so then.
const moveEtcdAside = `if [ -d "$1/member" ]; then mkdir "$2" && mv "$1/member" "$2/member" && echo moved; fi`

// setDataAside moves data that a host has from another time, which would keep it from joining.
// It is kept: it may be the last copy of something. It is renamed within the directory, where a disk of its own may be mounted.
func (r *run) setDataAside(ctx context.Context, h *host) error {
	if is := r.found(h, desired.Etcd); is != nil && is.Running {
		return fmt.Errorf("host %s runs an etcd that is not a member of this cluster: see whose it is, and remove its container there (docker rm -f etcd) if it is nobody's", h.node.Address)
	}
	if err := h.Discard(ctx, desired.Etcd); err != nil {
		return err
	}
	h.found.Containers = slices.DeleteFunc(h.found.Containers, func(c nodeconfig.Container) bool { return c.Name == desired.Etcd })
	h.found.EtcdData = false
	dir := path.Join(h.prefix, etcdDir)
	aside := path.Join(dir, "before-"+r.Now().UTC().Format("20060102T150405Z"))
	output, err := h.Run(ctx, r.shell("etcd-fix-perm", h, []string{dir + ":" + dir},
		moveEtcdAside, "aside", dir, aside))
	if err != nil {
		return fmt.Errorf("set old data of etcd aside: %w", err)
	}
	if slices.Contains(output, "moved") {
		r.Report.Warn(fmt.Sprintf("host [%s] had data of another etcd, which is in %s now", h.node.Address, aside))
	}
	return nil
}

// shell is a script on a host, in the helper image.
func (r *run) shell(name string, h *host, binds []string, script string, args ...string) onhost.Once {
	image := r.work.Config.SystemImages.Alpine
	return onhost.Once{Process: nodeconfig.Process{
		Name: name, Image: image, ImageRegistryAuthConfig: r.plan.Login(image), NetworkMode: "none", Binds: binds,
		Command: append([]string{"sh", "-c", script}, args...),
	}}
}

// removeMember takes a host out of etcd while it is still in the config of the others.
func (r *run) removeMember(ctx context.Context, n config.Node) error {
	hosts := r.with(config.RoleEtcd)
	by, list, err := r.members(ctx, hosts)
	if err != nil {
		return fmt.Errorf("remove host %s from etcd: %w", n.Address, err)
	}
	member := memberOf(list, n)
	if member == nil {
		return nil
	}
	if err := r.allHealthy(ctx, hosts); err != nil {
		return fmt.Errorf("host %s leaves etcd when every member that stays works: %w", n.Address, err)
	}
	r.line("remove/etcd", "Removing member [etcd-%s] from etcd cluster", nodeName(n))
	err = r.ask(ctx, by, "remove a member", func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.MemberRemove(ctx, member.ID)
		return err
	})
	if err != nil {
		return err
	}
	r.line("remove/etcd", "Successfully removed member [etcd-%s] from etcd cluster", nodeName(n))
	return nil
}
