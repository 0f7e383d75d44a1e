// The etcd plane: a new cluster's members are started together, those of a running one are
// changed one at a time, and a new one joins when all others are well.

package plane

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
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

// Own says that the run has to do with the cluster's etcd: it is the cluster's own, and not the workers alone are changed.
func Own(r *run.Run) bool {
	return len(r.Work.Config.Services.Etcd.ExternalURLs) == 0 && !r.Work.UpdateOnly
}

// Plane brings etcd to what the config says. The errors name the host whose member does not work.
func Plane(ctx context.Context, r *run.Run) error {
	r.Line("etcd", "Building up etcd plane..")
	hosts := r.With(config.RoleEtcd)
	if r.Fresh() {
		if err := FoundEtcd(ctx, r, hosts); err != nil {
			return err
		}
	} else if err := ChangeEtcd(ctx, r, hosts); err != nil {
		return err
	}
	r.Line("etcd", "Successfully started etcd plane.. Checking etcd cluster health")
	return AllHealthy(ctx, r, hosts)
}

// FoundEtcd starts all founders: none works before more than half of them are there. Where an interrupted run began with fewer,
// the others join what it founded.
func FoundEtcd(ctx context.Context, r *run.Run, hosts []*run.Host) error {
	flags := map[string][]string{}
	for _, h := range hosts {
		if is := Found(h, desired.Etcd); is != nil {
			flags[h.Node.Address] = slices.Concat(is.Entrypoint, is.Cmd)
		}
	}
	all, err := r.Work.Cluster().Founders(flags, r.Down)
	if err != nil {
		return err
	}
	founders := slices.DeleteFunc(slices.Clone(hosts), func(h *run.Host) bool { return !slices.Contains(all, h.Node.Address) })
	if len(founders) <= len(all)/2 {
		return fmt.Errorf("%d of %d etcd hosts can be reached (%s): a new cluster needs more than half of them", len(founders), len(all), run.Names(founders))
	}
	if err := run.Each(ctx, founders, run.Parallel, func(ctx context.Context, h *run.Host) error { return startEtcd(ctx, r, h, false, all) }); err != nil {
		return err
	}
	return joinAll(ctx, r, hosts, founders)
}

// ReplacedError is that none of the hosts that have the cluster's data is in the config any more.
type ReplacedError struct{ Before []string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("Etcd plane nodes are replaced. Stopping provisioning. Please restore your cluster from backup. "+
		"None of the hosts that have its data (%v) is in the config: put one of them back, run once so that the new hosts join, and take it out then; "+
		"or restore a snapshot on the new hosts", e.Before)
}

// ChangeEtcd changes members one after the other, those that run first, each when all are well. It returns a *ReplacedError where no member would
// stay, and the errors of RollEtcd and JoinEtcd.
func ChangeEtcd(ctx context.Context, r *run.Run, hosts []*run.Host) error {
	var members []*run.Host
	var before []string
	for _, n := range r.Deployed() {
		if !n.Has(config.RoleEtcd) {
			continue
		}
		before = append(before, n.Address)
		if h := r.Hosts[n.Address]; h != nil {
			members = append(members, h)
		}
	}
	stay := slices.DeleteFunc(slices.Clone(hosts), func(h *run.Host) bool { return !slices.Contains(before, h.Node.Address) })
	if len(before) > 0 && len(stay) == 0 {
		return &ReplacedError{Before: before}
	}
	if err := RollEtcd(ctx, r, stay); err != nil {
		return err
	}
	return joinAll(ctx, r, slices.DeleteFunc(slices.Clone(hosts), func(h *run.Host) bool { return slices.Contains(before, h.Node.Address) }), members)
}

// joinAll adds those of some hosts that are not among the members, one after the other.
func joinAll(ctx context.Context, r *run.Run, hosts, members []*run.Host) error {
	members = slices.Clone(members)
	for _, h := range hosts {
		if slices.Contains(members, h) {
			continue
		}
		if err := r.SafePoint(); err != nil {
			return err
		}
		if err := JoinEtcd(ctx, r, h, members); err != nil {
			return err
		}
		members = append(members, h)
	}
	return nil
}

// RollEtcd changes the members that run and differ, one at a time. A member that does not
// work is mended first: the others being well is not asked then. The error names the host whose member does not work, or is that of a run that was
// stopped.
func RollEtcd(ctx context.Context, r *run.Run, members []*run.Host) error {
	for _, h := range members {
		todo := Differences(r, h, config.RoleEtcd)
		running := Found(h, desired.Etcd)
		if len(todo) > 0 && running != nil && running.Running {
			if err := r.SafePoint(); err != nil {
				return err
			}
			if err := AllHealthy(ctx, r, members); err != nil {
				return fmt.Errorf("etcd on host %s has to change, which waits until every member works: %w", h.Node.Address, err)
			}
		}
		changed, err := Bring(ctx, r, h, config.RoleEtcd)
		if err != nil {
			return err
		}
		if changed {
			if err := healthy(ctx, r, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// JoinEtcd adds one member: as a learner, so that the others' quorum stays as it is until it
// has the data, and then as a voter. The error names the host, and says what it waits for or what etcd answered.
func JoinEtcd(ctx context.Context, r *run.Run, h *run.Host, members []*run.Host) error {
	if err := AllHealthy(ctx, r, members); err != nil {
		return fmt.Errorf("etcd on host %s joins when every member works: %w", h.Node.Address, err)
	}
	by, list, err := Members(ctx, r, members)
	if err != nil {
		return fmt.Errorf("add host %s to etcd: %w", h.Node.Address, err)
	}
	member := MemberOf(list, h.Node)
	if member == nil {
		if err := setDataAside(ctx, r, h); err != nil {
			return err
		}
		r.Line("add/etcd", "Adding member [etcd-%s] to etcd cluster", run.NodeName(h.Node))
		if member, list, err = addMember(ctx, r, h, by); err != nil {
			return err
		}
	}
	if err := startJoining(ctx, r, h, list); err != nil {
		return err
	}
	if err := promote(ctx, r, h, by, member); err != nil {
		return err
	}
	r.Line("add/etcd", "Successfully Added member [etcd-%s] to etcd cluster", run.NodeName(h.Node))
	return nil
}

// addMember adds a learner. etcd refuses that for some seconds after another member has joined:
// all of them must have been connected for a while.
func addMember(ctx context.Context, r *run.Run, h, by *run.Host) (member *etcdserverpb.Member, list []*etcdserverpb.Member, err error) {
	for attempt := 1; ; attempt++ {
		err = Ask(ctx, r, by, "add a member", func(ctx context.Context, c *clientv3.Client) error {
			answer, err := c.MemberAddAsLearner(ctx, []string{PeerURL(h.Node)})
			if err == nil {
				member, list = answer.Member, answer.Members
			}
			return err
		})
		if err == nil || attempt == run.EtcdTries || !errors.Is(err, rpctypes.ErrUnhealthy) {
			return member, list, err
		}
		r.Line("add/etcd", "Member [etcd-%s] cannot be added yet, try %d of %d: %v", run.NodeName(h.Node), attempt, run.EtcdTries, err)
		if err := r.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// startJoining starts a member that finds its cluster instead of founding one.
func startJoining(ctx context.Context, r *run.Run, h *run.Host, list []*etcdserverpb.Member) error {
	var addresses []string
	for _, n := range slices.Concat(r.Work.Config.Nodes, r.Deployed()) {
		if MemberOf(list, n) != nil && !slices.Contains(addresses, n.Address) {
			addresses = append(addresses, n.Address)
		}
	}
	return startEtcd(ctx, r, h, true, addresses)
}

// startEtcd starts a member with its cluster's members.
func startEtcd(ctx context.Context, r *run.Run, h *run.Host, joining bool, members []string) error {
	input := r.Plan.Input
	input.Joining, input.Members = joining, members
	plan, err := desired.New(input)
	if err != nil {
		return err
	}
	as, err := plan.Host(h.Node.Address)
	if err != nil {
		return err
	}
	usual := h.Desired
	h.Desired = as
	_, err = Bring(ctx, r, h, config.RoleEtcd)
	h.Desired = usual
	return err
}

// promote waits until a learner has the data and makes it a voter.
func promote(ctx context.Context, r *run.Run, h, by *run.Host, member *etcdserverpb.Member) error {
	for attempt := 1; ; attempt++ {
		_, list, err := Members(ctx, r, []*run.Host{by})
		if err == nil {
			is := MemberOf(list, h.Node)
			if is == nil {
				return fmt.Errorf("etcd on host %s is not a member any more: it was removed while it joined", h.Node.Address)
			}
			if !is.IsLearner {
				return healthy(ctx, r, h)
			}
			err = Ask(ctx, r, by, "make a member vote", func(ctx context.Context, c *clientv3.Client) error {
				_, err := c.MemberPromote(ctx, member.ID)
				return err
			})
		}
		if err != nil && attempt == run.EtcdTries {
			return fmt.Errorf("etcd on host %s does not come to have the data of the others: %w", h.Node.Address, err)
		}
		if err != nil {
			r.Line("add/etcd", "Member [etcd-%s] does not vote yet, try %d of %d: %v", run.NodeName(h.Node), attempt, run.EtcdTries, err)
			if err := r.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// MoveEtcdAside moves etcd's data from its directory, $1, to $2 in the same, if there are any, and says so then.
const MoveEtcdAside = `if [ -d "$1/member" ]; then mkdir "$2" && mv "$1/member" "$2/member" && echo moved; fi`

// setDataAside moves data that a host has from another time, which would keep it from joining.
// It is kept: it may be the last copy of something. It is renamed within the directory, where a disk of its own may be mounted.
func setDataAside(ctx context.Context, r *run.Run, h *run.Host) error {
	if is := Found(h, desired.Etcd); is != nil && is.Running {
		return fmt.Errorf("host %s runs an etcd that is not a member of this cluster: see whose it is, and remove its container there (docker rm -f etcd) if it is in no use", h.Node.Address)
	}
	if err := h.Discard(ctx, desired.Etcd); err != nil {
		return err
	}
	h.Found.Containers = slices.DeleteFunc(h.Found.Containers, func(c nodeconfig.Container) bool { return c.Name == desired.Etcd })
	h.Found.EtcdData = false
	dir := path.Join(h.Prefix, run.EtcdDir)
	aside := path.Join(dir, "before-"+r.Now().UTC().Format("20060102T150405Z"))
	output, err := h.Run(ctx, r.Shell("etcd-fix-perm", h, []string{dir + ":" + dir},
		MoveEtcdAside, "aside", dir, aside))
	if err != nil {
		return fmt.Errorf("set old data of etcd aside: %w", err)
	}
	if slices.Contains(output, "moved") {
		r.Report.Warn(fmt.Sprintf("host [%s] had data of another etcd, which is in %s now", h.Node.Address, aside))
	}
	return nil
}

// RemoveMember takes a host out of etcd while it is still in the config of the others. The error names the host, and says which member does not work
// or what etcd answered.
func RemoveMember(ctx context.Context, r *run.Run, n config.Node) error {
	hosts := r.With(config.RoleEtcd)
	by, list, err := Members(ctx, r, hosts)
	if err != nil {
		return fmt.Errorf("remove host %s from etcd: %w", n.Address, err)
	}
	member := MemberOf(list, n)
	if member == nil {
		return nil
	}
	if err := AllHealthy(ctx, r, hosts); err != nil {
		return fmt.Errorf("host %s leaves etcd when every member that stays works: %w", n.Address, err)
	}
	r.Line("remove/etcd", "Removing member [etcd-%s] from etcd cluster", run.NodeName(n))
	err = Ask(ctx, r, by, "remove a member", func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.MemberRemove(ctx, member.ID)
		return err
	})
	if err != nil {
		return err
	}
	r.Line("remove/etcd", "Successfully removed member [etcd-%s] from etcd cluster", run.NodeName(n))
	return nil
}
