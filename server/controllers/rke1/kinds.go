// How each kind of what people ask for is carried out: snapshots, their restore, and the rotations. The engine goes on with what was
// interrupted by the state that it left, so that a request is carried out by the same call once more.

package rke1

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/snapshots"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
)

// carried is a request, and what it is carried out on.
type carried struct {
	engine.Options
	engine.Work
	Request desired.Request
	// By is who asked for it, and Resumed that it was begun before.
	By      string
	Resumed bool
	// Record is what is remembered of the cluster.
	Record records.RKEState
	// Replace keeps the state of a cluster that was restored.
	Replace func(context.Context, *rkestate.State) error
}

// job is one kind.
type job struct {
	// admit says why it cannot be done, and completes the request; nil admits all.
	admit func(*desired.Request, *records.RKEState, change.Cluster) error
	// preview says what would be done. It asks the hosts and does nothing.
	preview func(ctx context.Context, on carried, cluster string) ([]string, error)
	// run does it. What it returns changes what is remembered of the cluster; nil changes nothing.
	run func(context.Context, carried) (func(records.RKEState) records.RKEState, error)
	// begun says that it is half done: it is tried until it is done, since nothing else may be before. nil is never.
	begun func(*rkestate.State) bool
}

var jobs = map[operations.Kind]job{
	operations.KindSnapshot: {
		admit: func(w *desired.Request, rec *records.RKEState, _ change.Cluster) error {
			return checkName(*rec, w.Snapshot)
		},
		preview: func(ctx context.Context, on carried, _ string) ([]string, error) {
			return engine.PreviewSnapshot(ctx, on.Options, on.Work, engine.SnapshotRequest{Name: on.Request.Snapshot, S3: bucketOf(on.Config)})
		},
		run: take,
	},
	operations.KindRemoveSnapshot: {
		admit: func(w *desired.Request, rec *records.RKEState, _ change.Cluster) error {
			one, err := known(*rec, *w)
			if err == nil {
				w.ID, w.Snapshot = one.ID, one.Name
			}
			return err
		},
		preview: func(_ context.Context, on carried, cluster string) ([]string, error) {
			return []string{on.Request.Title(cluster) + ", from every host of etcd that can be reached, and from the bucket where there is one"}, nil
		},
		run: remove,
	},
	operations.KindRestore: {
		admit: func(w *desired.Request, _ *records.RKEState, c change.Cluster) error {
			if w.KeepState && c.Before == nil {
				return errors.New("the server has no state of it to keep: leave out --keep-state, and the one in the snapshot is taken")
			}
			return nil
		},
		preview: func(ctx context.Context, on carried, _ string) ([]string, error) {
			return engine.PreviewRestore(ctx, on.Options, on.Work, restore(on))
		},
		run: func(ctx context.Context, on carried) (func(records.RKEState) records.RKEState, error) {
			on.Save = on.Replace
			_, err := engine.Restore(ctx, on.Options, on.Work, restore(on))
			return nil, err
		},
		begun: func(s *rkestate.State) bool { return s.Desired.Config.Restore.Restore },
	},
	operations.KindRotateCertificates: {
		preview: func(ctx context.Context, on carried, _ string) ([]string, error) {
			return engine.PreviewRotate(ctx, on.Options, on.Work, pki.Rotation{CA: on.Request.CA, Services: on.Request.Services})
		},
		run: func(ctx context.Context, on carried) (func(records.RKEState) records.RKEState, error) {
			_, err := engine.Rotate(ctx, on.Options, on.Work, pki.Rotation{CA: on.Request.CA, Services: on.Request.Services})
			return nil, err
		},
		begun: func(s *rkestate.State) bool { return s.Rotation() != nil },
	},
	operations.KindRotateKeys: {
		admit: func(_ *desired.Request, _ *records.RKEState, c change.Cluster) error {
			_, _, err := change.KeyRotation(c, rand.Reader)
			return err
		},
		preview: func(ctx context.Context, on carried, _ string) ([]string, error) {
			return engine.PreviewRotateKey(ctx, on.Options, on.Work)
		},
		run: func(ctx context.Context, on carried) (func(records.RKEState) records.RKEState, error) {
			_, err := engine.RotateKey(ctx, on.Options, on.Work)
			return nil, err
		},
		begun: func(s *rkestate.State) bool { return rkestate.RotatesKey(s.Desired.Encryption) },
	},
}

// carry carries a request out. What it returns changes what is remembered of the cluster, also beside an error; nil changes nothing.
func carry(ctx context.Context, on carried) (func(records.RKEState) records.RKEState, error) {
	does, ok := jobs[on.Request.Kind]
	if !ok {
		return nil, fmt.Errorf("%q is not a kind of operation that this server knows", on.Request.Kind)
	}
	return does.run(ctx, on)
}

// Begun says that a request of a kind is half done by what is remembered of the cluster, and has to be tried until it is done.
func Begun(rec records.RKEState, kind operations.Kind) bool {
	s, err := rke.State(&rec)
	begun := jobs[kind].begun
	return err == nil && s != nil && s.Desired.Config != nil && begun != nil && begun(s)
}

func restore(on carried) engine.RestoreRequest {
	return engine.RestoreRequest{Name: on.Request.Snapshot, LocalState: on.Request.KeepState, S3: bucketOf(on.Config)}
}

// take is the job of a snapshot.
func take(ctx context.Context, on carried) (func(records.RKEState) records.RKEState, error) {
	on.Planned = nil
	one, err := takeSnapshot(ctx, on.Options, on.Work, records.RKESnapshot{ID: on.Request.ID, Name: on.Request.Snapshot, By: on.By}, on.Resumed)
	return func(rec records.RKEState) records.RKEState {
		rec.Snapshots, _ = desired.Noted(rec.Snapshots, one, 0)
		return rec
	}, err
}

// takeSnapshot takes a snapshot and says what became of it, also beside an error.
func takeSnapshot(ctx context.Context, o engine.Options, w engine.Work, one records.RKESnapshot, resumed bool) (records.RKESnapshot, error) {
	one.At = o.Now().UTC()
	if w.Before != nil && w.Before.Current.Config != nil {
		one.Version = w.Before.Current.Config.KubernetesVersion
	}
	to := bucketOf(w.Config)
	if to != nil {
		one.Bucket = to.BucketName
	}
	on, err := engine.SaveSnapshot(ctx, o, w, engine.SnapshotRequest{Name: one.Name, S3: to, Resumed: resumed})
	for _, s := range on {
		one.Hosts = append(one.Hosts, records.RKESnapshotOn{Address: s.Host, Size: s.Size, State: s.State})
	}
	if err != nil {
		one.Failure = advice.Error(err, wordsOf("NAME")).Error()
	}
	return one, err
}

// remove takes a snapshot off its hosts and out of the bucket, and out of what is remembered. A try that failed may have the name of
// a snapshot that worked later, whose archive stays.
func remove(ctx context.Context, on carried) (func(records.RKEState) records.RKEState, error) {
	if !slices.ContainsFunc(on.Record.Snapshots, func(s records.RKESnapshot) bool {
		return s.ID != on.Request.ID && s.Name == on.Request.Snapshot && s.Failure == ""
	}) {
		on.Planned = nil
		if err := engine.RemoveSnapshot(ctx, on.Options, on.Work, engine.SnapshotRequest{Name: on.Request.Snapshot, S3: bucketOf(on.Config)}); err != nil {
			return nil, err
		}
	}
	return func(rec records.RKEState) records.RKEState {
		rec.Snapshots = slices.DeleteFunc(slices.Clone(rec.Snapshots), func(s records.RKESnapshot) bool { return s.ID == on.Request.ID })
		return rec
	}, nil
}

// bucketOf is where a config has its snapshots besides; nil for nowhere.
func bucketOf(c *config.Cluster) *config.S3Backup {
	if b := c.Services.Etcd.BackupConfig; b != nil {
		return b.S3
	}
	return nil
}

// known is the snapshot that a request names, by its ID or else by its name.
func known(rec records.RKEState, request desired.Request) (records.RKESnapshot, error) {
	i := slices.IndexFunc(rec.Snapshots, func(s records.RKESnapshot) bool {
		return s.ID == request.ID || request.ID == "" && s.Name == request.Snapshot
	})
	if i < 0 {
		return records.RKESnapshot{}, fmt.Errorf("it has no snapshot %s", request.Snapshot)
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
