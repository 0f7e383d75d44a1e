// Following a cluster: the tree as it is, and then a line for each change of the cluster, of its machines
// and of what is under way on it.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/cmd/drover/tree"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/views"
)

// look is a cluster as it is now, with its machines and the operation under way.
func look(ctx context.Context, c *client.Client, path string) (tree.Cluster, error) {
	var t tree.Cluster
	if err := c.Get(ctx, path, &t.Cluster); err != nil {
		return t, err
	}
	err := c.Get(ctx, path+"/rehearsals", &t.Rehearsals)
	if none, ok := errors.AsType[*client.Error](err); err != nil && (!ok || none.Status != http.StatusNotFound) { // a server of before has none
		return t, err
	}
	if t.Of, err = collect[views.Machine](ctx, c, machinesOf(t.Cluster)); err != nil {
		return t, err
	}
	all, err := collect[views.OperationSummary](ctx, c, operationsOf(t.Cluster))
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
func earlier(o, than views.OperationSummary) bool {
	if queued := o.State == operations.Queued; queued != (than.State == operations.Queued) {
		return !queued
	}
	return o.Created.Before(than.Created)
}

func machinesOf(c views.Cluster) string { return machinesPath + "?cluster=" + url.QueryEscape(c.ID) }

func operationsOf(c views.Cluster) string {
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
func (f follower) follow(ctx context.Context, wanted func(c views.Cluster, gone bool) (done bool, waits string)) (waits string, err error) {
	first, err := look(ctx, f.client, f.path)
	if err != nil && !client.NotFound(err) {
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
	news := &tree.News{Out: f.out, Now: time.Now}
	news.Know(first)

	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	clusters, machines, under := make(chan views.Cluster), make(chan views.Machine), make(chan views.OperationSummary)
	lost, ended := make(chan error), make(chan error, 3)
	streams.Go(func() { ended <- stream(ctx, f.client, f.path+"?follow=true", clusters, lost) })
	streams.Go(func() { ended <- stream(ctx, f.client, machinesOf(first.Cluster)+"&follow=true", machines, lost) })
	streams.Go(func() { ended <- stream(ctx, f.client, operationsOf(first.Cluster)+"&follow=true", under, lost) })
	for {
		select {
		case c := <-clusters:
			news.Cluster(c)
			if done, waits = wanted(c, false); !done {
				continue
			}
			// The machines' own stream may be behind.
			if last, err := look(ctx, f.client, f.path); err == nil {
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
			if gone := client.NotFound(err); gone {
				done, last := wanted(views.Cluster{}, true)
				if done {
					return last, nil
				}
			}
			return waits, err
		}
	}
}

// stream sends on the things of an answer that goes on, each again as it changes, until ctx ends or the server
// refuses. A connection that is lost is made again; lost gets the reason.
func stream[T any](ctx context.Context, c *client.Client, path string, to chan<- T, lost chan<- error) error {
	for {
		body, err := c.Stream(ctx, path)
		refused, ok := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			err = each(ctx, body, to)
		case ok && refused.Status < http.StatusInternalServerError:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case lost <- err:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// each sends on the things of one answer, and returns why it ended.
func each[T any](ctx context.Context, body io.ReadCloser, to chan<- T) error {
	defer body.Close()
	for lines := json.NewDecoder(body); ; {
		var one T
		if err := lines.Decode(&one); err != nil {
			return err
		}
		select {
		case to <- one:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followUntil shows on standard error what happens on a cluster until it is as wanted; it fails when that takes longer
// than timeout.
func (a *app) followUntil(ctx context.Context, c *client.Client, path string, timeout time.Duration, wanted func(views.Cluster, bool) (bool, string)) error {
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
