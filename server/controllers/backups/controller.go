// Package backups makes the scheduled backups of this server, and brings them to a bucket where there is one.
package backups

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/reconcile"
)

// Controller makes backups on a schedule.
type Controller struct {
	backup.Schedule
	backup.Server
	Logger *slog.Logger

	mu     sync.Mutex
	status backup.Status
	// offsite is what the bucket was seen to have.
	offsite backup.OffsiteStatus
}

// Worker makes backups. What the directory holds says when the last one was made, so
// that neither a restart of the server nor another leader makes one too early or too late.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{Name: "backups", Title: "makes scheduled backups of this server", Reconcile: c.reconcile}
}

func (c *Controller) reconcile(ctx context.Context, _ string) (reconcile.Result, error) {
	if c.Dir == "" {
		return reconcile.Result{Gone: true}, nil
	}
	if !c.next().After(c.Now()) {
		c.once(ctx)
	}
	next := c.next()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Next = next
	r := reconcile.Result{After: max(next.Sub(c.Now()), time.Millisecond)}
	if c.status.Failure != "" {
		r.Wait = &reconcile.Wait{Object: "backups in " + c.Dir, Cause: c.status.Failure}
	}
	return r, nil
}

// next is when the next backup is due.
func (c *Controller) next() time.Time {
	c.mu.Lock()
	failed := c.status.FailedAt
	c.mu.Unlock()
	var newest *backup.Kept
	if files, err := backup.List(c.Dir); err == nil && len(files) > 0 && c.carried(files[0].Name) {
		newest = &files[0]
	}
	return due(newest, failed, c.Every, c.Now())
}

// carried says whether the bucket has a file, as far as it was seen since the server started; without a bucket all are there.
func (c *Controller) carried(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Offsite == nil || slices.ContainsFunc(c.offsite.Files, func(f backup.Kept) bool { return f.Name == name })
}

// Status is how it stands now.
func (c *Controller) Status() backup.Status {
	c.mu.Lock()
	s, offsite := c.status, c.offsite
	c.mu.Unlock()
	s.Files = []backup.Kept{}
	if s.Dir = c.Dir; s.Dir == "" {
		return s
	}
	if c.Offsite != nil {
		offsite.Place, offsite.Files = c.Offsite.String(), append([]backup.Kept{}, offsite.Files...)
		s.Offsite = &offsite
	}
	s.Every, s.Keep, s.Encrypted, s.Keys = c.Every.String(), c.Keep, c.Seal.Encrypts(), c.Keys != nil
	if files, err := backup.List(c.Dir); err == nil && len(files) > 0 {
		s.Files = files
		s.Well = s.Failure == "" && c.Now().Sub(files[0].Made) < 2*c.Every && c.carried(files[0].Name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && s.Failure == "" {
		s.Failure, s.FailedAt = err.Error(), c.Now().UTC()
	}
	return s
}
