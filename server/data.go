// What the server keeps, and what it reads when it starts.

package server

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/installers/versions"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/controllers/backups"
	"github.com/drover-project/drover/server/options"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// data is what there is: what the store keeps, and what the server knows besides. Everything else stands on it.
type data struct {
	options.Options
	address
	state    *state.State
	settings *settings.Settings
	outgoing *outgoing.Outgoing
	versions *versions.Source
	rke1     *rke1versions.Data
	audit    *audit.Log
	backups  *backups.Controller
}

// openData opens what the server keeps. The store comes first: it takes the data directory for this process alone, before anything else
// is read from it or written to it.
func openData(ctx context.Context, o options.Options) (_ *data, err error) {
	d := &data{Options: o}
	stored := o.Store
	stored.DataDir, stored.Logger = o.DataDir, o.Logger
	if d.state, err = state.Open(ctx, stored); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	for _, step := range []func(context.Context) error{d.readVersions, d.listen, d.certify, d.configure, d.readRKE1Versions, d.openAudit} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	d.backups = d.scheduled()
	return d, nil
}

func (d *data) close() {
	if d.listener != nil {
		// The HTTP server has closed it unless it never ran.
		_ = d.listener.Close()
	}
	d.audit.Close()
	if err := d.state.Close(); err != nil {
		d.Logger.Error("closing the store failed", "error", err)
	}
}

// run watches the store, without which nothing works, until ctx ends.
func (d *data) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.state.Store.Failed():
		return d.state.Store.Err()
	}
}

// readVersions reads the version data before the first start makes anything that a wrong file would leave behind.
func (d *data) readVersions(context.Context) (err error) {
	d.versions, err = versions.Open(versions.Options{Location: d.VersionData, DataDir: d.DataDir, Logger: d.Logger, Now: d.Now})
	return err
}

// When version data are read again: an address, an address that did not answer, and a file.
const (
	versionsEvery      = 24 * time.Hour
	versionsFirstRetry = 10 * time.Second
	versionsLastRetry  = time.Hour
	versionsFileEvery  = time.Minute
)

// keepVersions keeps the data of Kubernetes versions current. transport fetches them.
func keepVersions(of *versions.Source, transport http.RoundTripper) reconcile.Worker {
	w := reconcile.Worker{
		Name: "version-data", Title: "keeps the data of Kubernetes versions current", Everywhere: true,
		Resync: versionsEvery, RetryFirst: versionsFirstRetry, RetryLast: versionsLastRetry,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			return reconcile.Result{}, of.Refresh(ctx, transport)
		},
	}
	switch {
	case of.Location == "":
		w.Keys = func() []string { return nil }
	case !of.Fetched(): // a file, which was read at the start
		w.First, w.Resync, w.RetryFirst, w.RetryLast = versionsFileEvery, versionsFileEvery, versionsFileEvery, versionsFileEvery
	}
	return w
}

// configure makes the settings, and the way to elsewhere that they allow.
func (d *data) configure(context.Context) error {
	d.settings = settings.New(d.state.Settings, d.Environ, settings.Defaults{ServerURL: d.names.url(d.ServerURL), CACerts: string(d.caPEM), Version: drover.Version})
	d.outgoing = &outgoing.Outgoing{Allowed: func() string { return d.settings.Get(outgoing.Setting).Value }, Listens: d.listener.Addr()}
	return d.settings.Check()
}

func (d *data) readRKE1Versions(ctx context.Context) (err error) {
	location := ""
	if d.Environ != nil {
		location = d.Environ("RANCHER_METADATA_URL")
	}
	d.rke1, err = rke1versions.Load(ctx, location, rke1versions.Options{
		Transport: d.outgoing.Configured(location).Transport(nil), Copy: filepath.Join(d.DataDir, "rke1-versions.json"), Logger: d.Logger,
	})
	if err != nil {
		return fmt.Errorf("read the version data of RKE1 clusters: %w", err)
	}
	return nil
}

func (d *data) openAudit(context.Context) (err error) {
	d.audit, err = audit.Open(audit.Options{
		Dir: filepath.Join(d.DataDir, "audit"), Server: d.names.own(), Setting: func(name string) string { return d.settings.Get(name).Value }, Now: d.Now, Logger: d.Logger,
	})
	return err
}

// installerImage is the prefix of installer images, and defaultRegistry the registry of images that name none.
func (d *data) installerImage() string { return d.settings.Get("system-agent-installer-image").Value }

func (d *data) defaultRegistry() string { return d.settings.Get("system-default-registry").Value }

// scheduled makes the backups of this server.
func (d *data) scheduled() *backups.Controller {
	schedule := d.Backups
	if bucket := schedule.Offsite; bucket != nil {
		schedule.Offsite = bucket.By(d.outgoing.Configured(bucket.Hosts()...).Lead)
	}
	return &backups.Controller{
		Schedule: schedule,
		Server: backup.Server{
			Store: d.state.Store, Now: d.Now,
			Installation: func() string { return d.settings.Get("install-uuid").Value },
			ServerURL:    func() string { return d.settings.ServerURL() },
			Authority: func() string {
				known, _ := d.state.ServerSecrets.Get(secretChecksum)
				if d.CertFile != "" {
					return "" // hosts have pinned what CAFile holds, if anything
				}
				return known.Value.Value
			},
		},
		Logger: d.Logger,
	}
}
