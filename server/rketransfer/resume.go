// Taking a cluster up again: only when no other program has changed it, and when what would change was seen.

package rketransfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// answerWithin bounds the question for the state that a cluster keeps.
const answerWithin = 15 * time.Second

// ResumeRequest is how a cluster is taken up.
type ResumeRequest struct {
	// DryRun looks and changes nothing.
	DryRun bool
	// Accept takes it up though something changes on its hosts.
	Accept bool
	// Force takes it up with the stored state though the one in the cluster is another, or cannot be read, and though hosts are
	// missing.
	Force bool
}

// Resumed is what came of it.
type Resumed struct {
	Cluster store.Document[records.Cluster]
	// Changes are what the next run will do, in lines, of a cluster that was not the server's; Same that it is nothing.
	Changes []string
	Same    bool
	Notes   []string
}

// Resume ends a pause, and takes up a cluster that the server does not touch. The error is a *RefusedError where the cluster was
// changed elsewhere, and a *ChangesError where hosts would change.
func (d *Desk) Resume(ctx context.Context, key records.ClusterKey, r ResumeRequest) (*Resumed, error) {
	return store.RetryFor(func() (*Resumed, error) {
		cluster, ok := d.State.Clusters.Get(string(key))
		if ok && cluster.Value.Exported == nil {
			if !r.DryRun {
				var err error
				if cluster, err = d.Clusters.Resume(ctx, key); err != nil {
					return nil, err
				}
			}
			return &Resumed{Cluster: cluster, Same: true}, nil
		}
		resumed, err := d.resume(ctx, key, r)
		if err != nil {
			return nil, fmt.Errorf("resume cluster %s: %w", key, err)
		}
		return resumed, nil
	})
}

func (d *Desk) resume(ctx context.Context, key records.ClusterKey, r ResumeRequest) (*Resumed, error) {
	cluster, record, s, err := d.find(key)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, refuse("there is no state of cluster %s", key.Name())
	}
	out := &Resumed{Cluster: cluster}
	for _, check := range []func() (string, error){
		func() (string, error) { return d.missing(key, record.Value) },
		func() (string, error) { return d.elsewhere(ctx, key, s) },
	} {
		note, err := check()
		if _, refused := errors.AsType[*RefusedError](err); refused && r.Force {
			note, err = err.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		if note != "" {
			out.Notes = append(out.Notes, note)
		}
	}
	if out.Changes, out.Same, err = d.Compare(ctx, cluster.Value); err != nil {
		if !r.Force {
			return nil, refuse("what would change on its hosts cannot be told, so that it is not taken up: %v; --force does it all the same", err)
		}
		out.Notes = append(out.Notes, err.Error())
	}
	switch {
	case r.DryRun:
		return out, nil
	case !out.Same && !r.Accept && !r.Force:
		return nil, &ChangesError{Cluster: key.Name(), Lines: out.Changes}
	}
	out.Cluster.Value.Exported = nil
	// One run follows with any stamp: it gives the node agents their configs again.
	record.Value.Done, record.Value.Halted = "", ""
	if _, err = d.State.Store.Commit(ctx, d.State.Clusters.Updating(out.Cluster), d.State.RKEStates.Updating(record)); err != nil {
		return nil, err
	}
	return out, nil
}

// missing refuses a cluster of whose hosts some have no node agent here: the engine would take them for hosts that leave.
func (d *Desk) missing(key records.ClusterKey, record records.RKEState) (string, error) {
	machines := d.State.MachinesByCluster.Find(key)
	var absent []string
	for _, address := range record.Hosts {
		if !slices.ContainsFunc(machines, func(m *store.Document[records.Machine]) bool {
			return m.Value.Deleting.IsZero() && desired.Address(m.Value) == address
		}) {
			absent = append(absent, address)
		}
	}
	if len(absent) == 0 {
		return "", nil
	}
	return "", refuse("no node agent has registered on %s, which the state of cluster %s has: those hosts would be taken out of the cluster. "+
		"Run on each what `drover clusters join-command %s --docker` prints with its roles, --address and --node-name; or say --force to have them taken out", some(absent), key.Name(), key.Name())
}

// elsewhere refuses a cluster whose own copy of the state is another than the stored one. The text is a note where there is no copy.
func (d *Desk) elsewhere(ctx context.Context, key records.ClusterKey, s *state.State) (note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	client, err := d.Client(key)
	var text []byte
	if err == nil {
		text, err = kube.With(client, nil, nil).ReadState(ctx)
	}
	switch {
	case errors.Is(err, kube.ErrNoState):
		return "the cluster keeps no state of its own, so that it is not known whether it was changed", nil
	case err != nil:
		return "", refuse("the API of cluster %s cannot be asked for the state that the cluster keeps, so that it is not known whether it was changed elsewhere: %v; --force takes the cluster up with the stored state", key.Name(), err)
	}
	found, err := state.Decode(text)
	if err != nil {
		return "", refuse("the state that cluster %s keeps (Secret %s/%s) cannot be read: %v; --force takes the cluster up with the stored one", key.Name(), state.SecretNamespace, state.SecretName, err)
	}
	changed, err := export.Elsewhere(s, found, d.known())
	if err != nil || len(changed) == 0 {
		return "", err
	}
	return "", refuse("cluster %s was changed elsewhere: the state that it keeps (Secret %s/%s) and the stored one differ in %s; `drover clusters import-rke %s --kubeconfig FILE` takes what is there, --force undoes it",
		key.Name(), state.SecretNamespace, state.SecretName, some(changed), key.Name())
}
