// How people ask for something on an RKE1 cluster: what cannot be done is refused at once, and the rest is an operation.

package rke1

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	rkestate "github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// Ask makes an operation of what a user asks for; turn is what becomes of it while another operation is under way. The error is a *records.RefusedError when it cannot be carried out, *operations.BusyError when another
// operation is under way, *operations.QueueFullError when too many wait, and a *store.ConflictError when the cluster changed in the
// same moment. A snapshot without a name gets one.
func (c *Clusters) Ask(ctx context.Context, key records.ClusterKey, asked desired.Request, by string, turn admission.Turn) (operations.Operation, error) {
	d, ok := c.State.Clusters.Get(string(key))
	if !ok {
		return operations.Operation{}, &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	request, _, err := c.admit(d.Value, asked)
	if err != nil {
		return operations.Operation{}, err
	}
	// While etcd is away, what the engine is at cannot come to its end; a restore takes its place.
	if request.Kind == operations.KindRestore && turn == admission.Refuse {
		turn = admission.Replace
	}
	o, ops, _, err := admission.Begin(ctx, c.State, admission.Request{
		Subject: key, Kind: request.Kind, Title: request.Title(d.Value.Name), By: by, Generation: d.Value.Generation,
		Turn: turn, Params: desired.Params{Request: &request},
	}, c.Now)
	if err != nil {
		return o, err
	}
	// Two that ask in the same moment: one of them finds the cluster written.
	if _, err := c.State.Store.Commit(ctx, append(ops, c.State.Clusters.Updating(d))...); err != nil {
		return o, fmt.Errorf("begin to %s: %w", o.Title, err)
	}
	c.Logger.Info("operation asked for", "operation", o.ID, "kind", o.Kind, "cluster", key, "user", by, "state", o.State)
	return o, nil
}

// admit refuses what cannot be carried out, and completes a request.
func (c *Clusters) admit(cluster records.Cluster, request desired.Request) (desired.Request, desired.Snapshot, error) {
	s := c.Snapshot(cluster)
	refused := func(why error) (desired.Request, desired.Snapshot, error) {
		return request, s, &records.RefusedError{Cluster: cluster.Name, Why: advice.Error(why, wordsOf(cluster.Name))}
	}
	request.Document = false
	before, err := rke.State(s.Record)
	in := desired.Input{Cluster: cluster, Machines: s.Machines, Before: before, Versions: s.Versions}
	if request.Kind == operations.KindSnapshot {
		id, name := desired.NameSnapshot(in, false, s.Now, randomid.ID(5))
		if request.ID = id; request.Snapshot == "" {
			request.Snapshot = name
		}
	}
	switch wrong := request.Check(); {
	case err != nil:
		return request, s, err
	case !cluster.Spec.RKE1():
		return refused(errors.New("it is not a cluster of RKE1"))
	case wrong != nil:
		return refused(wrong)
	case !cluster.Deleting.IsZero():
		return refused(errors.New("it is being removed"))
	case cluster.Paused != nil:
		return refused(fmt.Errorf("it is paused: `drover clusters resume %s` comes first", cluster.Name))
	case request.Kind != operations.KindRestore && (before == nil || before.Current.Config == nil):
		return refused(errors.New("nothing of it is deployed yet: wait until it is provisioned"))
	}
	if needs := desired.Needs(cluster.Name, s.Machines, s.Connected); len(needs) > 0 {
		return refused(fmt.Errorf("%s: %s", desired.Sentence(needs), needs[0].NextStep))
	}
	cfg, _, err := desired.Config(in)
	if err != nil {
		return refused(err)
	}
	if open := unfinished(before, request); open != nil {
		return refused(open)
	}
	if does := jobs[request.Kind]; does.admit != nil {
		err = does.admit(&request, s.Record, change.Cluster{Config: cfg, Before: before})
	}
	if external := len(cfg.Services.Etcd.ExternalURLs) > 0; external && (request.Kind == operations.KindSnapshot || request.Kind == operations.KindRestore) {
		err = errors.New("its etcd is external: snapshots are taken and restored there")
	}
	if err != nil {
		return refused(err)
	}
	return request, s, nil
}

// unfinished is what has to end before a request may begin; nil for nothing.
func unfinished(s *rkestate.State, request desired.Request) error {
	open := change.Unfinished(s)
	switch {
	case open == nil, request.Kind == operations.KindRestore,
		request.Kind == operations.KindRotateCertificates && request.CA && !s.Desired.Config.Restore.Restore,
		(request.Kind == operations.KindSnapshot || request.Kind == operations.KindRemoveSnapshot) && !s.Desired.Config.Restore.Restore:
		return nil
	}
	return open
}

// PreviewRequest says what a request would do, a line each. It asks the hosts and does nothing. The error is a *records.RefusedError where it could not be
// begun, a *store.NotFoundError without the cluster, or that of a stored state.
func (c *Clusters) PreviewRequest(ctx context.Context, key records.ClusterKey, asked desired.Request) ([]string, error) {
	d, ok := c.State.Clusters.Get(string(key))
	if !ok {
		return nil, &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	request, s, err := c.admit(d.Value, asked)
	if err != nil {
		return nil, err
	}
	before, err := rke.State(s.Record)
	if err != nil {
		return nil, err
	}
	cfg, _, err := desired.Config(desired.Input{Cluster: d.Value, Machines: s.Machines, Before: before, Versions: s.Versions})
	if err != nil {
		return nil, err
	}
	lines, err := jobs[request.Kind].preview(ctx, carried{Options: c.Engine(s.Machines, Silent{}), Work: workOf(cfg, before), Request: request}, d.Value.Name)
	if err != nil {
		return nil, &records.RefusedError{Cluster: d.Value.Name, Why: advice.Error(err, wordsOf(d.Value.Name))}
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines, nil
}
