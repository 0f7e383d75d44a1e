// Following a cluster: the tree as it is, and then a line for each change of the cluster, of its machines
// and of what is under way on it.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/clustertree"
)

// readCluster is a cluster as it is now, with its machines and the operation under way.
func readCluster(ctx context.Context, c *client.Client, path string) (clustertree.Cluster, error) {
	var t clustertree.Cluster
	if err := c.Get(ctx, path, &t.Cluster); err != nil {
		return t, err
	}
	if t.Warning != nil {
		t.Warning.NextStep = clustertree.Documented(c.Server(), t.Warning.NextStep)
	}
	err := c.Get(ctx, path+"/rehearsals", &t.Rehearsals)
	if none, ok := errors.AsType[*client.Error](err); err != nil && (!ok || none.Status != http.StatusNotFound) { // a server of before has none
		return t, err
	}
	if t.Of, err = client.List[apitypes.Machine](ctx, c, machinesOf(t.Cluster)); err != nil {
		return t, err
	}
	all, err := client.List[apitypes.OperationSummary](ctx, c, operationsOf(t.Cluster))
	if err != nil {
		return t, err
	}
	for i, o := range all {
		if !o.State.Ended() && (t.Operation == nil || earlier(o, *t.Operation)) {
			t.Operation = &all[i]
		}
	}
	return t, nil
}

// earlier says that an operation is worked on before another: it has begun, or it is older.
func earlier(o, than apitypes.OperationSummary) bool {
	if queued := o.State == apitypes.OperationQueued; queued != (than.State == apitypes.OperationQueued) {
		return !queued
	}
	return o.Created.Before(than.Created)
}

func machinesOf(c apitypes.Cluster) string { return machinesPath + "?cluster=" + url.QueryEscape(c.ID) }

func operationsOf(c apitypes.Cluster) string {
	return operationsPath + "?cluster=" + url.QueryEscape(c.Namespace+"/"+c.Name)
}

// follower follows one cluster at a path below clustersPath.
type follower struct {
	client *client.Client
	path   string
	// out gets the tree and then a line for each change, errs what happens to connections.
	out, errs io.Writer
	// table fills a table into out.
	table func(fill func(*table)) error
}

// follow prints what happens on the cluster until it is as wanted, of which it asks after each change of it:
// gone says that it does not exist, and waits is what it waits for. It fails with the error of ctx when that ends.
func (f follower) follow(ctx context.Context, wanted func(c apitypes.Cluster, gone bool) (done bool, waits string)) (waits string, err error) {
	first, err := readCluster(ctx, f.client, f.path)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return "", err
	}
	done, waits := wanted(first.Cluster, err != nil)
	switch {
	case done:
		return waits, nil
	case err != nil:
		return waits, err
	}
	now := time.Now()
	if err := f.table(func(t *table) { first.Rows(t.Row, func(at time.Time) string { return ago(now, at) }) }); err != nil {
		return "", err
	}
	news := &clustertree.News{Out: f.out, Now: time.Now}
	news.Know(first)

	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	patient := f.client.WithRetry(time.Minute) // the server was there a moment ago
	clusters, machines, under := make(chan apitypes.Cluster), make(chan apitypes.Machine), make(chan apitypes.OperationSummary)
	lost, ended := make(chan error), make(chan error, 3)
	streams.Go(func() { ended <- stream(ctx, client.Watch[apitypes.Cluster](ctx, patient, f.path), clusters, lost) })
	streams.Go(func() { ended <- stream(ctx, patient.Machines().Watch(ctx, first.Cluster.ID), machines, lost) })
	streams.Go(func() {
		ended <- stream(ctx, client.Watch[apitypes.OperationSummary](ctx, patient, operationsOf(first.Cluster)), under, lost)
	})
	for {
		select {
		case c := <-clusters:
			news.Cluster(c)
			if done, waits = wanted(c, false); !done {
				continue
			}
			// The machines' own stream may be behind.
			if last, err := readCluster(ctx, f.client, f.path); err == nil {
				news.Look(last)
			}
			return waits, nil
		case m := <-machines:
			news.Machine(m)
		case o := <-under:
			news.Operation(o)
		case err := <-lost:
			fmt.Fprintf(f.errs, "the server's answer ended (%v); asked again\n", err)
		case err := <-ended:
			if gone := errors.Is(err, client.ErrNotFound); gone {
				done, last := wanted(apitypes.Cluster{}, true)
				if done {
					return last, nil
				}
			}
			return waits, err
		}
	}
}

// stream sends on the things of a watch until ctx ends or the server refuses; lost gets why a connection was lost.
func stream[T any](ctx context.Context, changes iter.Seq2[client.Change[T], error], to chan<- T, lost chan<- error) error {
	for change, err := range changes {
		switch {
		case err != nil:
			return err
		case change.Lost != nil:
			select {
			case lost <- change.Lost:
			case <-ctx.Done():
			}
		case !change.Again && !change.Gone:
			select {
			case to <- change.Thing:
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// followUntil shows on standard error what happens on a cluster until it is as wanted; it fails when that takes longer
// than timeout.
func (a *app) followUntil(ctx context.Context, c *client.Client, path string, timeout time.Duration, wanted func(apitypes.Cluster, bool) (bool, string)) error {
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := follower{client: c, path: path, out: a.Err, errs: a.Err, table: func(fill func(*table)) error {
		on := app{Streams: Streams{Out: a.Err}}
		return on.show(nil, fill)
	}}
	waits, err := f.follow(limit, wanted)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limit.Err() != nil:
		return fmt.Errorf("timed out after %s; last seen as %s", timeout, waits)
	}
	return err
}
