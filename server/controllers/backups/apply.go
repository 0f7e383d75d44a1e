package backups

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/server/backup"
)

// once makes one attempt and records how it went.
func (c *Controller) once(ctx context.Context) {
	began := c.Now()
	name, size, err := c.attempt(ctx)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	c.status.FailedAt, c.status.Failure = time.Time{}, ""
	if err == nil {
		c.status.Succeeded++
	} else {
		c.status.Failed++
		c.status.FailedAt, c.status.Failure = c.Now().UTC(), err.Error()
	}
	c.mu.Unlock()
	if err != nil {
		c.Logger.Error("the scheduled backup failed and is tried again", "directory", c.Dir, "error", err)
	} else {
		c.Logger.Info("backup made", "file", filepath.Join(c.Dir, name), "bytes", size, "took", c.Now().Sub(began).Round(time.Millisecond).String())
	}
}

// attempt makes a backup if one is due, removes what is too much then, and brings the newest to the bucket.
func (c *Controller) attempt(ctx context.Context) (name string, size int64, err error) {
	now := c.Now()
	files, err := backup.List(c.Dir)
	if err == nil && len(files) > 0 && dueAfter(files[0], c.Every, now).After(now) {
		name, size = files[0].Name, files[0].Size // the bucket alone lacks it
	} else if name, size, err = c.save(ctx); err != nil {
		return "", 0, err
	}
	if c.Offsite == nil {
		return name, size, nil
	}
	there, err := c.Offsite.Put(ctx, filepath.Join(c.Dir, name), c.Keep)
	if err != nil {
		return "", 0, fmt.Errorf("%s is whole in %s, and the bucket does not have it: %w", name, c.Dir, err)
	}
	c.mu.Lock()
	c.offsite.Files, c.offsite.LookedAt = there, c.Now().UTC()
	c.mu.Unlock()
	return name, size, nil
}

// save makes a backup in the directory now, and removes the oldest that are too many.
func (c *Controller) save(ctx context.Context) (name string, size int64, err error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", 0, fmt.Errorf("make the directory of backups: %w", err)
	}
	name = backup.Name(c.Now(), c.Seal)
	size, err = backup.Save(filepath.Join(c.Dir, name), c.Seal, func(w io.Writer) error {
		return c.WriteWith(ctx, w, c.Keys)
	})
	if err != nil {
		return "", 0, err
	}
	return name, size, backup.Prune(c.Dir, c.Keep)
}
