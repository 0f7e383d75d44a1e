// Package server wires the management server: the store, the listener and the rooms
// behind it, in the order in which they need each other, and waits for all of them
// when it ends. What each of them does is in its own package.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	_ "time/tzdata" // the zones of maintenance windows, on hosts that have none

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/options"
)

// LocalURLFile is the name of the file below the data directory with the address by which
// commands on this host reach the server.
const LocalURLFile = "local-url"

// AdminTokenFile is the name of the administrator's token below the data directory.
const AdminTokenFile = "admin-token"

// shutdownLimit is how long requests may take to end when the server stops. Watches do not
// end by themselves; they are cut.
const shutdownLimit = 3 * time.Second

// recallLimit is how long clients of an earlier server wait for what changed before the start.
const recallLimit = 5 * time.Second

// Run serves until ctx ends or something fails that the server cannot do without. Its five parts are made in the order in which they need
// each other, and end in the reverse of it.
func Run(ctx context.Context, o options.Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	d, err := openData(ctx, o)
	if err != nil {
		return err
	}
	defer d.close()
	i, err := newIdentity(ctx, d)
	if err != nil {
		return err
	}
	w, err := newWays(ctx, d, i)
	if err != nil {
		return err
	}
	defer w.close()
	c := newControllers(d, i, w)
	f, err := newSurface(d, i, w, c)
	if err != nil {
		return err
	}
	return serve(ctx, d, w, c, f)
}

// serve runs all parts until ctx ends or one of them fails.
func serve(parent context.Context, d *data, w *ways, c *controllers, f *surface) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	web, connections := f.web(ctx)
	var group sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		group.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	run("keep the store", d.run)
	run("watch the clusters' nodes", w.clusters.Run)
	run("publish to other servers which hosts are connected", w.hosts.Run)
	run("run the workers", c.workers.Run)
	known := make(chan struct{})
	f.api.Changes().AwaitPast(known)
	w.plans.Hub().AwaitPast(known)
	run("recall what changed before the start", func(ctx context.Context) error {
		defer close(known)
		limited, cancel := context.WithTimeout(ctx, recallLimit)
		defer cancel()
		past, after, err := d.state.Store.Past(limited, d.state.Store.Revision())
		if err == nil {
			f.api.Changes().Recall(past, after)
			w.plans.Hub().Recall(past, after)
		} else if ctx.Err() == nil {
			d.Logger.Warn("clients that follow changes list everything anew, as what changed before the start is not known", "error", err)
		}
		return nil
	})
	run("serve https", func(context.Context) error { return web.ServeTLS(connections.Listener(d.listener), "", "") })
	d.Logger.Info("serving", "address", d.listener.Addr().String(), "url", d.settings.ServerURL(), "version", drover.Version)
	notify(d.Logger, daemon.SdNotifyReady)
	<-ctx.Done()
	notify(d.Logger, daemon.SdNotifyStopping)
	// The web server does not know of the agents' watches, which took their connections over.
	w.plans.Close()
	limit, done := context.WithTimeout(context.WithoutCancel(parent), shutdownLimit)
	defer done()
	if err := web.Shutdown(limit); err != nil {
		// Watches and tunnels are still open, as they are meant to be.
		_ = web.Close()
	}
	f.api.Close()
	w.hosts.Close()
	group.Wait()
	if cause := context.Cause(ctx); parent.Err() == nil && cause != nil {
		return cause
	}
	return nil
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Debug("systemd could not be notified", "error", err)
	}
}
