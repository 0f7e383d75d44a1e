// Choosing the snapshot and the machine of a rehearsal.

package rehearsals

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// choose finds what a request is about, and says what is in its way.
func (a *Service) choose(ctx context.Context, key records.ClusterKey, ask Request) (chosen, error) {
	d, ok := a.State.Clusters.Get(string(key))
	if !ok {
		return chosen{}, fmt.Errorf("rehearse a snapshot: %w", &store.NotFoundError{Collection: "clusters", Key: string(key)})
	}
	c := chosen{cluster: d.Value}
	if err := a.able(d.Value); err != nil {
		return c, err
	}
	if err := a.locate(ctx, &c, ask); err != nil {
		return c, err
	}
	return c, a.place(&c, ask)
}

// able says why no snapshot of a cluster can be rehearsed.
func (a *Service) able(c records.Cluster) error {
	secrets, _ := a.State.ClusterSecrets.Get(c.Key())
	switch {
	case c.Spec.Docker():
		return admission.Invalid("cluster %s is one of RKE1, whose snapshots are not rehearsed here: bring one to a host that you can lose, and restore it there with `drover rke etcd snapshot-restore` (docs/how-to/keep-rke1-without-a-server.md)", c.Name)
	case c.Spec.Imported():
		return admission.Invalid("cluster %s is imported, and its snapshots are not this server's", c.Name)
	case !c.Deleting.IsZero():
		return admission.Invalid("cluster %s is being removed", c.Name)
	case secrets.Value.ServerToken == "":
		return admission.Invalid("the server does not know the token of cluster %s, by which its snapshots are read", c.Name)
	}
	return version(c.Name, c.Spec.KubernetesVersion)
}

// locate finds the snapshot, and says by which way its machine gets it.
func (a *Service) locate(ctx context.Context, c *chosen, ask Request) error {
	name := ask.Snapshot
	onMachine := path.IsAbs(name)
	if onMachine && (path.Clean(name) != name || strings.ContainsAny(name, "\n\r\x00")) {
		return admission.Invalid("%.80q is not a valid path of a file", name)
	}
	var known []records.Snapshot
	for _, d := range etcdops.Known(a.State, c.cluster, ask.Foreign) {
		if s := d.Value; s.Fault == "" && s.Name() == path.Base(name) && (onMachine || name == path.Base(name) || name == s.File) {
			known = append(known, s)
		}
	}
	inS3 := slices.IndexFunc(known, func(s records.Snapshot) bool { return s.Machine == records.SnapshotInS3 })
	var err error
	switch {
	case onMachine:
		c.path = name
		c.snapshot = records.Snapshot{File: name}
		if len(known) > 0 { // a copy: the distribution gives no name twice
			c.snapshot, c.record = known[max(inS3, 0)], known[max(inS3, 0)].Key()
		}
	case len(known) == 0:
		return admission.Invalid("cluster %s has no snapshot %.80q; drover snapshots ls %s shows those that there are, and a file that was copied to the machine is rehearsed by its path there", c.cluster.Name, name, c.cluster.Name)
	default:
		err = a.fetched(ctx, c, known, inS3)
	}
	if clusterspec.Equal(c.snapshot.Spec, clusterspec.Spec{}) {
		c.snapshot.Spec = c.cluster.Spec // what it was then is not known
	}
	return err
}

// fetched chooses from where the machine fetches the snapshot: from S3, which it can reach, or else through the server from the
// host that has it. inS3 is the index of the copy there, -1 for none.
func (a *Service) fetched(ctx context.Context, c *chosen, copies []records.Snapshot, inS3 int) error {
	var reasons []string
	if inS3 >= 0 {
		c.snapshot, c.record = copies[inS3], copies[inS3].Key()
		why := ""
		if _, why = a.Snapshots.Restorable(c.snapshot); why == "" {
			c.from, why = a.bucket(*c)
		}
		if why == "" {
			return nil
		}
		reasons = append(reasons, fmt.Sprintf("snapshot %s cannot be restored: %s", c.snapshot.Name(), why))
	}
	for _, s := range copies {
		if s.Machine == records.SnapshotInS3 {
			continue
		}
		c.snapshot, c.record = s, s.Key()
		if ok, why := a.Snapshots.Restorable(s); !ok {
			reasons = append(reasons, fmt.Sprintf("snapshot %s cannot be restored: %s", s.Name(), why))
			continue
		}
		from, err := a.throughServer(ctx, *c)
		if err == nil {
			c.from = from
			return nil
		}
		none, known := errors.AsType[*etcdops.NoFileError](err)
		if !known {
			return fmt.Errorf("look at snapshot %s of cluster %s: %w", s.Name(), c.cluster.Name, err)
		}
		reasons = append(reasons, none.Reason)
	}
	return &admission.InvalidError{Reason: strings.Join(reasons, "; ")}
}

// place finds the machine.
func (a *Service) place(c *chosen, ask Request) error {
	if ask.Machine == "" && ask.Fleet == "" {
		return admission.Invalid("name the machine of a fleet on which the snapshot is to be restored, or the fleet")
	}
	var first error
	for _, d := range a.State.Machines.List() {
		m := d.Value
		if ask.Machine != "" && ask.Machine != m.Name && ask.Machine != m.Key() && ask.Machine != m.NodeName {
			continue
		}
		if ask.Machine == "" && (!m.InFleet() || m.ClusterName != ask.Fleet) {
			continue
		}
		err := a.suits(m, ask.Fleet)
		if err == nil {
			c.machine = m
			c.fleet, _ = a.State.Fleets.Get(string(m.Cluster()))
			return nil
		}
		if first == nil {
			first = err
		}
	}
	switch {
	case first != nil && ask.Machine == "":
		return admission.Invalid("no machine of fleet %s can rehearse now: %v", ask.Fleet, first)
	case first != nil:
		return first
	case ask.Machine != "":
		return admission.Invalid("there is no machine %.80q; drover machines ls lists the machines", ask.Machine)
	}
	if err := a.known(ask.Fleet); err != nil {
		return err
	}
	return admission.Invalid("fleet %s has no machines; run on a host what drover fleets join-command %s prints", ask.Fleet, ask.Fleet)
}

// known says that there is no such fleet.
func (a *Service) known(fleet string) error {
	if _, ok := a.State.Fleets.Get(string(records.FleetKey(fleet))); !ok {
		return admission.Invalid("there is no fleet %.80q; drover fleets ls lists the fleets", fleet)
	}
	return nil
}

// suits says why a machine cannot rehearse now. What only its host knows is looked at there.
func (a *Service) suits(m records.Machine, fleet string) error {
	if !m.InFleet() {
		return admission.Invalid("machine %s is of %s: a rehearsal is done on a machine of a fleet, which has no cluster; drover fleets join-command FLEET prints how a host becomes one", m.Name, m.Home())
	}
	d, ok := a.State.Fleets.Get(string(m.Cluster()))
	secret, _ := a.State.PlanSecrets.Get(records.MachineKey(m.Key()).PlanSecret())
	since, connected := a.Watching(records.MachineKey(m.Key()).PlanSecret())
	switch {
	case fleet != "" && m.ClusterName != fleet:
		return admission.Invalid("machine %s is of %s, and not of fleet %s", m.Name, m.Home(), fleet)
	case !m.Deleting.IsZero(), !ok, !d.Value.Deleting.IsZero():
		return admission.Invalid("machine %s is being removed", m.Name)
	case !connected && since.IsZero():
		return admission.Invalid("the agent on machine %s is not connected; on its host: systemctl status rancher-system-agent", m.Name)
	case !connected:
		return admission.Invalid("the agent on machine %s is gone since %s; on its host: systemctl status rancher-system-agent", m.Name, since.UTC().Format(time.RFC3339))
	}
	if why := busy(secret.Value.Data[plans.KeyPlan]); why != "" {
		return admission.Invalid("machine %s cannot rehearse: %s", m.Name, why)
	}
	return nil
}
