// Package k3smodule builds programs out of k3s' Go module: it fetches the module, completes a writable copy of it, builds
// in it with a word now and then about how far it is, and keeps what was built in a cache. The real k3s of the tests and
// the stand-in of RKE2 are both made with it.
package k3smodule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/test/bed/lockfile"
)

// Workshop is a directory of the cache in which one product is made.
type Workshop struct {
	// Product is what is made, for people to read.
	Product string
	// Program is the name that k3s' packages give to paths, units and users: k3s or rke2.
	Program string
	// Commit is what the programs report as their own. Default: that of the module.
	Commit string
	// Module is the root directory of drover's sources.
	Module string
	// Dir keeps what is made.
	Dir string
	// Cold is how long Make takes the first time on two cores that have nothing else to do.
	Cold time.Duration
	// Say hears what is being done, and during a long build how far it is. Default: no listener.
	Say func(format string, args ...any)
}

// Part is one step of Make: what its stamp is called, and how it is made.
type Part struct {
	Name string
	Make func(context.Context) error
}

// Src is the writable copy of k3s' module.
func (w *Workshop) Src() string { return filepath.Join(w.Dir, "src") }

// Bin has the programs that Programs makes.
func (w *Workshop) Bin() string { return filepath.Join(w.Dir, "bin") }

// Make makes the parts that are missing or were made from other sources, of which sum is the checksum, one after the
// other. Several processes may call it at once; one builds and the others wait.
func (w *Workshop) Make(ctx context.Context, sum string, parts []Part) error {
	if w.Say == nil {
		w.Say = func(string, ...any) {}
	}
	if err := os.MkdirAll(w.Dir, 0o755); err != nil {
		return fmt.Errorf("make the cache of %s: %w", w.Product, err)
	}
	path := filepath.Join(w.Dir, "lock")
	lock, err := lockfile.Try(path, lockfile.Exclusive)
	if err == nil && lock == nil {
		w.Say("%s: another process is building it; waiting", w.Product)
		lock, err = lockfile.Take(ctx, path, lockfile.Exclusive)
	}
	if err != nil {
		return err
	}
	return errors.Join(w.make(ctx, sum, parts), lock.Unlock())
}

// make does so with the lock; each part keeps a stamp of what it was made from.
func (w *Workshop) make(ctx context.Context, sum string, parts []Part) error {
	begin, built := time.Now(), false
	for _, p := range parts {
		stamp := filepath.Join(w.Dir, p.Name+".stamp")
		if have, err := os.ReadFile(stamp); err == nil && string(have) == sum {
			continue
		}
		if !built {
			built = true
			w.Say("building %s from the Go module of k3s; this takes about %d minutes the first time on two idle cores", w.Product, int(w.Cold.Minutes()))
		}
		if err := p.Make(ctx); err != nil {
			return fmt.Errorf("build %s, %s: %w", w.Product, p.Name, err)
		}
		if err := os.WriteFile(stamp, []byte(sum), 0o644); err != nil {
			return fmt.Errorf("build %s, %s: %w", w.Product, p.Name, err)
		}
	}
	if built {
		w.Say("%s is built, in %s", w.Product, time.Since(begin).Round(time.Second))
	}
	return nil
}
