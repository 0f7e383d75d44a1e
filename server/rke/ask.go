// How people ask for something on an RKE1 cluster: what cannot be done is refused at once, and the rest is an operation.

package rke

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/config"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
)

// RefusedError is that something cannot be done on a cluster as it is.
type RefusedError struct {
	Cluster string
	// Why is a sentence.
	Why error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("cluster %s: %v", e.Cluster, e.Why) }

// Asked is what somebody asks for.
type Asked struct {
	want.Wish
	// By is the ID of the user.
	By string
	// Turn is what becomes of it while another operation is under way.
	Turn turns.Turn
}

// Ask makes an operation of a wish. The error is a *RefusedError when it cannot be carried out, *operations.BusyError when another
// operation is under way, *operations.QueueFullError when too many wait, and a *store.ConflictError when the cluster changed in the
// same moment. A snapshot without a name gets one.
func (r *Runner) Ask(ctx context.Context, key records.ClusterKey, asked Asked) (operations.Operation, error) {
	d, ok := r.State.Clusters.Get(string(key))
	if !ok {
		return operations.Operation{}, &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	wish, _, err := r.admit(d.Value, asked.Wish)
	if err != nil {
		return operations.Operation{}, err
	}
	// While etcd is away, what the engine is at cannot come to its end; a restore takes its place.
	if wish.Kind == operations.KindRestore && asked.Turn == turns.Refuse {
		asked.Turn = turns.Replace
	}
	o, ops, _, err := turns.Begin(r.State, turns.Request{
		Subject: key, Kind: wish.Kind, Title: wish.Title(d.Value.Name), By: asked.By, Generation: d.Value.Generation,
		Turn: asked.Turn, Params: want.Params{Wish: &wish},
	}, r.Now)
	if err != nil {
		return o, err
	}
	// Two that ask in the same moment: one of them finds the cluster written.
	if _, err := r.State.Store.Commit(ctx, append(ops, r.State.Clusters.Updating(d))...); err != nil {
		return o, fmt.Errorf("begin to %s: %w", o.Title, err)
	}
	r.Logger.Info("operation asked for", "operation", o.ID, "kind", o.Kind, "cluster", key, "user", asked.By, "state", o.State)
	return o, nil
}

// admit refuses what cannot be carried out, and completes a wish.
func (r *Runner) admit(cluster records.Cluster, wish want.Wish) (want.Wish, want.Snapshot, error) {
	s := r.snapshot(cluster)
	refused := func(why error) (want.Wish, want.Snapshot, error) {
		return wish, s, &RefusedError{Cluster: cluster.Name, Why: advice.Error(why, words(cluster.Name))}
	}
	wish.Document = false
	before, err := want.State(s.Record)
	in := want.Input{Cluster: cluster, Machines: s.Machines, Before: before, Versions: s.Versions}
	if wish.Kind == operations.KindSnapshot {
		id, name := want.NameSnapshot(in, false, s.Now, random.ID(5))
		if wish.ID = id; wish.Snapshot == "" {
			wish.Snapshot = name
		}
	}
	switch wrong := wish.Check(); {
	case err != nil:
		return wish, s, err
	case !cluster.Spec.RKE1():
		return refused(errors.New("it is not a cluster of RKE1"))
	case wrong != nil:
		return refused(wrong)
	case !cluster.Deleting.IsZero():
		return refused(errors.New("it is being removed"))
	case cluster.Paused != nil:
		return refused(fmt.Errorf("it is paused: `drover clusters resume %s` comes first", cluster.Name))
	case wish.Kind != operations.KindRestore && (before == nil || before.Current.Config == nil):
		return refused(errors.New("nothing of it is deployed yet: wait until it is provisioned"))
	}
	if needs := want.Needs(cluster.Name, s.Machines, s.Connected); len(needs) > 0 {
		return refused(fmt.Errorf("%s: %s", want.Sentence(needs), needs[0].NextStep))
	}
	cfg, _, err := want.Config(in)
	if err != nil {
		return refused(err)
	}
	if open := unfinished(before, wish); open != nil {
		return refused(open)
	}
	switch wish.Kind {
	case operations.KindSnapshot:
		err = checkName(*s.Record, wish.Snapshot)
	case operations.KindRemoveSnapshot:
		var one records.RKESnapshot
		if one, err = known(*s.Record, wish); err == nil {
			wish.ID, wish.Snapshot = one.ID, one.Name
		}
	case operations.KindRotateKeys:
		_, _, err = change.KeyRotation(change.Cluster{Config: cfg, Before: before}, rand.Reader)
	case operations.KindRestore:
		if wish.KeepState && before == nil {
			err = errors.New("the server has no state of it to keep: leave out --keep-state, and the one in the snapshot is taken")
		}
	}
	if external := len(cfg.Services.Etcd.ExternalURLs) > 0; external && (wish.Kind == operations.KindSnapshot || wish.Kind == operations.KindRestore) {
		err = errors.New("its etcd is somebody else's: snapshots are taken and restored there")
	}
	if err != nil {
		return refused(err)
	}
	return wish, s, nil
}

// PreviewWish says what a wish would do, a line each. It asks the hosts and does nothing.
func (r *Runner) PreviewWish(ctx context.Context, key records.ClusterKey, asked want.Wish) ([]string, error) {
	d, ok := r.State.Clusters.Get(string(key))
	if !ok {
		return nil, &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	wish, s, err := r.admit(d.Value, asked)
	if err != nil {
		return nil, err
	}
	before, err := want.State(s.Record)
	if err != nil {
		return nil, err
	}
	cfg, _, err := want.Config(want.Input{Cluster: d.Value, Machines: s.Machines, Before: before, Versions: s.Versions})
	if err != nil {
		return nil, err
	}
	o, w := r.options(s.Machines, silent{}), engine.Work{Config: cfg, Before: before, Kubeconfig: kubeconfigPath}
	var lines []string
	switch wish.Kind {
	case operations.KindSnapshot:
		lines, err = engine.PreviewSnapshot(ctx, o, w, engine.SnapshotWish{Name: wish.Snapshot, S3: bucket(cfg)})
	case operations.KindRemoveSnapshot:
		lines = []string{wish.Title(d.Value.Name) + ", from every host of etcd that can be reached, and from the bucket where there is one"}
	case operations.KindRestore:
		lines, err = engine.PreviewRestore(ctx, o, w, engine.RestoreWish{Name: wish.Snapshot, LocalState: wish.KeepState, S3: bucket(cfg)})
	case operations.KindRotateCertificates:
		lines, err = engine.PreviewRotate(ctx, o, w, pki.Rotation{CA: wish.CA, Services: wish.Services})
	case operations.KindRotateKeys:
		lines, err = engine.PreviewRotateKey(ctx, o, w)
	}
	if err != nil {
		return nil, &RefusedError{Cluster: d.Value.Name, Why: advice.Error(err, words(d.Value.Name))}
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines, nil
}

// OnHosts reads the state of a running cluster from those of its hosts whose node agents have joined. Nothing is changed there.
func (r *Runner) OnHosts(ctx context.Context, cluster records.Cluster) (*adopt.Found, error) {
	s := r.snapshot(cluster)
	if len(s.Machines) == 0 {
		return nil, errors.New("none of its hosts has a node agent that has joined")
	}
	var nodes []config.Node
	for _, m := range s.Machines {
		nodes = append(nodes, config.Node{Address: want.Address(m)})
	}
	return adopt.Read(ctx, adopt.Options{Dial: r.dialer(s.Machines), Now: r.Now, Logger: r.Logger}, nodes)
}
