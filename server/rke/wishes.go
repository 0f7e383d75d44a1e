// What is done on a cluster beside bringing it to its document: snapshots, their restore, and the rotations. The engine goes on with
// what was interrupted by the state that it left, so that a wish is carried out by the same call once more.

package rke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/snapshots"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
)

// wished is a wish that is carried out.
type wished struct {
	want.Wish
	key     records.ClusterKey
	by      string // who asked for it
	resumed bool   // it was begun before
}

// fulfil carries a wish out. What it returns changes what is remembered of the cluster; nil changes nothing.
func (r *Runner) fulfil(ctx context.Context, o engine.Options, w engine.Work, wish wished) (func(records.RKEState) records.RKEState, error) {
	switch wish.Kind {
	case operations.KindRotateCertificates:
		_, err := engine.Rotate(ctx, o, w, pki.Rotation{CA: wish.CA, Services: wish.Services})
		return nil, err
	case operations.KindRotateKeys:
		_, err := engine.RotateKey(ctx, o, w)
		return nil, err
	case operations.KindRemoveSnapshot:
		d, _ := r.State.RKEStates.Get(string(wish.key))
		return remove(ctx, o, w, wish, d.Value.Snapshots)
	case operations.KindRestore:
		o.Save = func(ctx context.Context, next *rkestate.State) error {
			return r.save(ctx, wish.key, next, want.Replaced)
		}
		_, err := engine.Restore(ctx, o, w, engine.RestoreWish{Name: wish.Snapshot, LocalState: wish.KeepState, S3: bucket(w.Config)})
		return nil, err
	case operations.KindSnapshot:
		o.Planned = nil
		one, err := r.take(ctx, o, w, records.RKESnapshot{ID: wish.ID, Name: wish.Snapshot, By: wish.by}, wish.resumed)
		return func(rec records.RKEState) records.RKEState {
			rec.Snapshots, _ = want.Noted(rec.Snapshots, one, 0)
			return rec
		}, err
	}
	return nil, fmt.Errorf("%q is not a kind of operation that this server knows", wish.Kind)
}

// bucket is where a config has its snapshots besides; nil for nowhere.
func bucket(c *config.Cluster) *config.S3Backup {
	if b := c.Services.Etcd.BackupConfig; b != nil {
		return b.S3
	}
	return nil
}

// take takes a snapshot and says what became of it, also beside an error.
func (r *Runner) take(ctx context.Context, o engine.Options, w engine.Work, one records.RKESnapshot, resumed bool) (records.RKESnapshot, error) {
	one.At = r.Now().UTC()
	if w.Before != nil && w.Before.Current.Config != nil {
		one.Version = w.Before.Current.Config.KubernetesVersion
	}
	to := bucket(w.Config)
	if to != nil {
		one.Bucket = to.BucketName
	}
	on, err := engine.SaveSnapshot(ctx, o, w, engine.SnapshotWish{Name: one.Name, S3: to, Resumed: resumed})
	for _, s := range on {
		one.Hosts = append(one.Hosts, records.RKESnapshotOn{Address: s.Host, Size: s.Size, State: s.State})
	}
	if err != nil {
		one.Failure = advice.Error(err, words("NAME")).Error()
	}
	return one, err
}

// remove takes a snapshot off its hosts and out of the bucket, and out of what is remembered. A try that failed may have the name of
// a snapshot that worked later, whose archive stays.
func remove(ctx context.Context, o engine.Options, w engine.Work, wish wished, all []records.RKESnapshot) (func(records.RKEState) records.RKEState, error) {
	if !slices.ContainsFunc(all, func(s records.RKESnapshot) bool {
		return s.ID != wish.ID && s.Name == wish.Snapshot && s.Failure == ""
	}) {
		o.Planned = nil
		if err := engine.RemoveSnapshot(ctx, o, w, engine.SnapshotWish{Name: wish.Snapshot, S3: bucket(w.Config)}); err != nil {
			return nil, err
		}
	}
	return func(rec records.RKEState) records.RKEState {
		rec.Snapshots = slices.DeleteFunc(slices.Clone(rec.Snapshots), func(s records.RKESnapshot) bool { return s.ID == wish.ID })
		return rec
	}, nil
}

// guard takes the snapshot that an upgrade begins with. It is on the hosts and by the config of before the upgrade.
func (r *Runner) guard(ctx context.Context, o engine.Options, d want.Decision, name string, begun bool) error {
	key := records.ClusterKey(d.Operation.Subject)
	o.Planned = nil
	id, _, _ := strings.Cut(name, "_")
	one, failed := r.take(ctx, o, engine.Work{Config: d.Deployed(), Before: d.Before, Kubeconfig: kubeconfigPath}, records.RKESnapshot{ID: id, Name: name, By: d.Operation.By}, begun)
	if ctx.Err() != nil || errors.Is(failed, engine.ErrStopped) {
		return failed // nil means that the snapshot is looked at again
	}
	_, err := r.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
		rec.Snapshots, _ = want.Noted(rec.Snapshots, one, 0)
		return rec, nil
	})
	if failed != nil {
		return fmt.Errorf("take snapshot %s before the upgrade, of which nothing was begun (the annotation %s: \"true\" of the cluster has it begin without): %w", name, clusterspec.NoSnapshot, failed)
	}
	if err != nil {
		return fmt.Errorf("remember snapshot %s of cluster %s: %w", name, key, err)
	}
	return nil
}

// scheduled takes a snapshot that the schedule says, and removes those that are not kept any more. It is not an operation: nothing
// restarts for it, and it comes also between the tries of one.
func (r *Runner) scheduled(ctx context.Context, s want.Snapshot, d want.Decision) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	in := want.Input{Cluster: s.Cluster, Machines: s.Machines, Before: d.Before, Versions: s.Versions}
	schedule, _ := want.ScheduleOf(in)
	id, name := want.NameSnapshot(in, true, r.Now(), random.ID(5))
	o := r.options(s.Machines, silent{})
	o.Stop = func() error {
		if c, ok := r.State.Clusters.Get(string(key)); !ok || !c.Value.Deleting.IsZero() {
			return engine.ErrStopped
		}
		return context.Cause(ctx)
	}
	work := engine.Work{Config: d.Config, Before: d.Before, Kubeconfig: kubeconfigPath}
	one, failed := r.take(ctx, o, work, records.RKESnapshot{ID: id, Name: name, Scheduled: true}, false)
	if ctx.Err() != nil || errors.Is(failed, engine.ErrStopped) {
		return nil // the next leader takes one
	}
	var gone []records.RKESnapshot
	_, err := r.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
		rec.Snapshots, gone = want.Noted(rec.Snapshots, one, schedule.Keep)
		return rec, nil
	})
	if err != nil {
		return fmt.Errorf("remember snapshot %s of cluster %s: %w", name, key, err)
	}
	if failed != nil {
		r.Logger.Warn("a scheduled snapshot failed", "cluster", key, "snapshot", name, "error", one.Failure)
		return nil
	}
	r.Logger.Info("scheduled snapshot taken", "cluster", key, "snapshot", name, "hosts", len(one.Hosts))
	for _, old := range gone {
		if err := engine.RemoveSnapshot(ctx, o, work, engine.SnapshotWish{Name: old.Name, S3: bucket(d.Config)}); err != nil {
			r.Logger.Warn("an old snapshot could not be removed, and is not looked after any more", "cluster", key, "snapshot", old.Name, "error", err)
		}
	}
	return nil
}

// begun says that a wish of a kind is half done: it is tried until it is done, since nothing else may be before.
func (r *Runner) begun(key records.ClusterKey, kind operations.Kind) bool {
	d, ok := r.State.RKEStates.Get(string(key))
	if !ok {
		return false
	}
	s, err := want.State(&d.Value)
	if err != nil || s == nil || s.Desired.Config == nil {
		return false
	}
	switch kind {
	case operations.KindRestore:
		return s.Desired.Config.Restore.Restore
	case operations.KindRotateCertificates:
		return s.Rotation() != nil
	case operations.KindRotateKeys:
		return rkestate.RotatesKey(s.Desired.Encryption)
	}
	return false
}

// unfinished is what has to end before a wish may begin; nil for nothing.
func unfinished(s *rkestate.State, wish want.Wish) error {
	open := change.Unfinished(s)
	switch {
	case open == nil, wish.Kind == operations.KindRestore,
		wish.Kind == operations.KindRotateCertificates && wish.CA && !s.Desired.Config.Restore.Restore,
		(wish.Kind == operations.KindSnapshot || wish.Kind == operations.KindRemoveSnapshot) && !s.Desired.Config.Restore.Restore:
		return nil
	}
	return open
}

// known is the snapshot that a wish names, by its ID or else by its name.
func known(rec records.RKEState, wish want.Wish) (records.RKESnapshot, error) {
	i := slices.IndexFunc(rec.Snapshots, func(s records.RKESnapshot) bool {
		return s.ID == wish.ID || wish.ID == "" && s.Name == wish.Snapshot
	})
	if i < 0 {
		return records.RKESnapshot{}, fmt.Errorf("it has no snapshot %s", wish.Snapshot)
	}
	return rec.Snapshots[i], nil
}

// checkName refuses the name of a snapshot that is there already.
func checkName(rec records.RKEState, name string) error {
	for _, s := range rec.Snapshots {
		if s.Name == name && s.Failure == "" {
			return fmt.Errorf("there is a snapshot %s already", name)
		}
	}
	return snapshots.CheckName(name)
}

// words say a step for a cluster.
func words(cluster string) advice.Words {
	return func(s advice.Step) string {
		switch s.Kind {
		case advice.BringUp:
			return "wait until it is provisioned"
		case advice.ResumeRestore:
			return "`drover snapshots restore " + cluster + " " + s.Snapshot + "` comes first, which goes on with it"
		case advice.ResumeCA:
			return "`drover clusters rotate certificates " + cluster + " --ca` comes first, which goes on with it"
		case advice.ResumeCertificates:
			return "`" + strings.Join(append([]string{"drover clusters rotate certificates " + cluster}, s.Services...), " --service ") + "` comes first, which goes on with it"
		case advice.ResumeKey:
			return "`drover clusters rotate encryption-keys " + cluster + "` goes on with it"
		case advice.DropLostHosts:
			return "hosts that are lost are removed with `drover machines rm NAME --force`"
		case advice.OtherName:
			return "take it under another name"
		case advice.KeepState:
			return "with --keep-state the one that the server has is used"
		case advice.SnapshotsState:
			return "without --keep-state the one in the snapshot is taken"
		case advice.Encrypt:
			return "set services.kube-api.secrets_encryption_config.enabled: true in the document, and apply it"
		case advice.EncryptMeanwhile:
			return "set enabled: true there for the restore, and take it out afterwards"
		case advice.TakeSnapshot:
			return "`drover snapshots create " + cluster + "` takes one at once"
		case advice.RenewCertificates:
			return "`drover clusters rotate certificates " + cluster + "` issues new ones"
		}
		return "" // the others are of flags that a server does not have
	}
}
