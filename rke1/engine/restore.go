// The restore of a snapshot.

package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/restore"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

// Restore brings a cluster back to a snapshot, on the hosts of cluster.yml, and goes on with a restore that was interrupted. It needs
// every host of etcd and of the control plane. The state that Options.Save gets may have another CA than the one before: that
// of a snapshot from before a rotation. The state that it returns is the last that was saved.
func Restore(ctx context.Context, o run.Options, w run.Work, request snapshot.RestoreRequest) (*state.State, error) {
	r, err := restoreRun(o, w, request)
	if err != nil {
		return w.Before, err
	}
	defer r.Close()
	var from *restore.Source
	err = r.Perform(ctx, []run.Phase{
		{ID: "hosts", Title: "Reach the hosts", Run: func(ctx context.Context, r *run.Run) error { return restore.Reach(ctx, r, request) }},
		{ID: "snapshot", Title: "Look at the snapshot", Run: func(ctx context.Context, r *run.Run) (err error) {
			from, err = restore.Find(ctx, r, request)
			return err
		}},
		{ID: "request", Title: "Keep the state", Run: func(ctx context.Context, r *run.Run) error { return restore.Begin(ctx, r, w, from, request) }},
		comparePhase,
		{ID: "copy", Title: "Copy the snapshot", Run: func(ctx context.Context, r *run.Run) error { return restore.Copy(ctx, r, from, request.Name) }},
		{ID: "stop", Title: "Stop etcd and the control plane", Run: restore.Stop},
		{ID: "restore", Title: "Restore etcd", Run: func(ctx context.Context, r *run.Run) error { return restore.Data(ctx, r, request.Name) }},
		{ID: "again", Title: "Compare with what runs", Run: reach.Compare},
		imagesPhase, filesPhase, etcdPhase,
		controlPlanePhase, secretsPhase, statePhase, workersPhase,
		{ID: "kubelets", Title: "Restart kubelets", Run: restore.RestartKubelets},
		nodesPhase,
		{ID: "old-nodes", Title: "Remove old nodes", Run: restore.RemoveOldNodes},
		{ID: "pods", Title: "Restart pods", Run: api.RestartPods},
		addonsPhase,
		{ID: "done", Title: "Remove the data of before", Run: func(ctx context.Context, r *run.Run) error { return restore.End(ctx, r, request.Name) }},
		endPhase,
	})
	return r.LastSaved(), err
}

// restoreRun prepares a run like that for a new cluster.
func restoreRun(o run.Options, w run.Work, request snapshot.RestoreRequest) (*run.Run, error) {
	if err := snapshots.CheckName(request.Name); err != nil {
		return nil, err
	}
	if len(w.Config.Services.Etcd.ExternalURLs) > 0 {
		return nil, errors.New("the etcd of this cluster is external: snapshots are restored there")
	}
	if request.LocalState && w.Before == nil {
		return nil, advice.With(errors.New("there is no state here to use"), advice.Step{Kind: advice.SnapshotsState})
	}
	r := run.New(o, w)
	r.Before, r.State = state.State{}, w.Before
	if r.State == nil {
		r.State = &state.State{Desired: state.Part{Config: w.Config}}
	}
	return r, nil
}

// PreviewRestore looks at everything and says what Restore would do, a line each. It does nothing, but gets the archive from the
// bucket, if there is one. The errors are those that Restore would begin with.
func PreviewRestore(ctx context.Context, o run.Options, w run.Work, request snapshot.RestoreRequest) ([]string, error) {
	r, err := restoreRun(o, w, request)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := restore.Reach(ctx, r, request); err != nil {
		return nil, err
	}
	from, err := restore.Find(ctx, r, request)
	if err != nil {
		return nil, err
	}
	if _, _, err := change.Restored(w.Cluster(), from.Kept, request.Name, o.Source(), rand.Reader); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("snapshot %s of host %s can be read, sha256 %s", request.Name, from.Host, from.Sum)}
	if from.Kept != nil {
		lines = append(lines, "the state in the snapshot takes the place of the one here")
	}
	for _, h := range r.With(config.RoleEtcd) {
		lines = append(lines, fmt.Sprintf("%s etcd: the data become those of the snapshot; those of now are in %s until the cluster works",
			h.Node.Address, restore.Aside(h)))
	}
	for _, h := range r.With("") {
		lines = append(lines, plane.RestartLine(h, restore.Restarts(h)))
	}
	return lines, nil
}
