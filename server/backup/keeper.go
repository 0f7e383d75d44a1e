// Backups on a schedule: when one is due, which ones are too many, and how the last ones went.

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/reconcile"
)

// Schedule is what a server is to do by itself.
type Schedule struct {
	// Dir gets the files; empty makes none. It is made, mode 0700, when it is missing.
	Dir string
	// Every is the time from one backup to the next, Keep how many files stay.
	Every time.Duration
	Keep  int
	// Offsite gets each file, too, and keeps as many; nil has none.
	Offsite *Offsite
	// Seal encrypts them. Keys are put in where that is set.
	Seal Sealing
	Keys *Keys
}

// Check says what is wrong with a schedule.
func (s Schedule) Check() error {
	switch {
	case s.Dir == "":
		return nil
	case s.Every < time.Minute:
		return fmt.Errorf("a backup every %s is more often than once a minute", s.Every)
	case s.Keep < 1:
		return fmt.Errorf("%d backups are kept: at least 1 is", s.Keep)
	case s.Keys != nil && !s.Seal.Encrypts():
		return errors.New("backups with keys have to be encrypted: whoever reads one has all secrets of the server")
	case s.Offsite != nil && !s.Seal.Encrypts():
		return errors.New("backups in a bucket have to be encrypted: whoever reads the bucket has all clusters' settings")
	}
	return nil
}

// Kept is one file.
type Kept struct {
	Name string    `json:"name"`
	Made time.Time `json:"made"`
	Size int64     `json:"size"`
}

// Status is how scheduled backups stand.
type Status struct {
	// Dir is empty when none are made.
	Dir   string `json:"dir,omitempty"`
	Every string `json:"every,omitempty"`
	Keep  int    `json:"keep,omitempty"`
	// Encrypted and Keys say what they are like.
	Encrypted bool `json:"encrypted"`
	Keys      bool `json:"keys"`
	// Files are those there are, newest first.
	Files []Kept `json:"files"`
	// Offsite is the bucket that gets them, too.
	Offsite *OffsiteStatus `json:"offsite,omitempty"`
	// Failure is why the last attempt failed, at FailedAt; empty when it did not, or none was made
	// since the server started.
	Failure  string    `json:"failure,omitempty"`
	FailedAt time.Time `json:"failedAt,omitzero"`
	// Next is when the next one is made; the zero time while none are.
	Next time.Time `json:"next,omitzero"`
	// Well says that the last attempt did not fail, that the newest file is not older than two
	// times Every, and that the bucket has it, if there is one.
	Well bool `json:"well"`
	// Succeeded and Failed count the attempts since the server started.
	Succeeded int `json:"-"`
	Failed    int `json:"-"`
}

// Keeper makes backups on a schedule.
type Keeper struct {
	Schedule
	Server Server
	// Happened gets the end of each attempt: "" for a success, else why it failed; nil is none.
	Happened func(file, failure string)
	Logger   *slog.Logger

	mu     sync.Mutex
	status Status
	// offsite is what the bucket was seen to have.
	offsite OffsiteStatus
}

// retry is how soon a backup that failed is tried again, at most.
const retry = 5 * time.Minute

// Worker makes backups. What the directory holds says when the last one was made, so
// that neither a restart of the server nor another leader makes one too early or too late.
func (k *Keeper) Worker() reconcile.Worker {
	return reconcile.Worker{Name: "backups", Title: "makes scheduled backups of this server", Reconcile: k.reconcile}
}

func (k *Keeper) reconcile(ctx context.Context, _ string) (reconcile.Result, error) {
	if k.Dir == "" {
		return reconcile.Result{Gone: true}, nil
	}
	if !k.next().After(k.Server.Now()) {
		k.once(ctx)
	}
	next := k.next()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Next = next
	r := reconcile.Result{After: max(next.Sub(k.Server.Now()), time.Millisecond)}
	if k.status.Failure != "" {
		r.Wait = &reconcile.Wait{Object: "backups in " + k.Dir, Cause: k.status.Failure}
	}
	return r, nil
}

// next is when the next backup is due.
func (k *Keeper) next() time.Time {
	k.mu.Lock()
	failed := k.status.FailedAt
	k.mu.Unlock()
	now := k.Server.Now()
	due := now
	if files, err := list(k.Dir); err == nil && len(files) > 0 && k.carried(files[0].Name) {
		due = k.dueAfter(files[0], now)
	}
	if again := failed.Add(min(retry, k.Every)); !failed.IsZero() && again.After(due) {
		due = again
	}
	return due
}

// dueAfter is when the backup after the newest is due, at the earliest now.
func (k *Keeper) dueAfter(newest Kept, now time.Time) time.Time {
	due := newest.Made.Add(k.Every)
	if latest := now.Add(k.Every); due.After(latest) { // the file is of a clock that was ahead
		return latest
	}
	if due.Before(now) {
		return now
	}
	return due
}

// carried says whether the bucket has a file, as far as it was seen since the server started; without a bucket all are there.
func (k *Keeper) carried(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Offsite == nil || slices.ContainsFunc(k.offsite.Files, func(f Kept) bool { return f.Name == name })
}

// attempt makes a backup if one is due, removes what is too much then, and brings the newest to the bucket.
func (k *Keeper) attempt(ctx context.Context) (name string, size int64, err error) {
	now := k.Server.Now()
	files, err := list(k.Dir)
	if err == nil && len(files) > 0 && k.dueAfter(files[0], now).After(now) {
		name, size = files[0].Name, files[0].Size // the bucket alone lacks it
	} else if name, size, err = k.Make(ctx); err != nil {
		return "", 0, err
	}
	if k.Offsite == nil {
		return name, size, nil
	}
	there, err := k.Offsite.put(ctx, filepath.Join(k.Dir, name), k.Keep)
	if err != nil {
		return "", 0, fmt.Errorf("%s is whole in %s, and the bucket does not have it: %w", name, k.Dir, err)
	}
	k.mu.Lock()
	k.offsite.Files, k.offsite.LookedAt = there, k.Server.Now().UTC()
	k.mu.Unlock()
	return name, size, nil
}

// once makes one attempt and records how it went.
func (k *Keeper) once(ctx context.Context) {
	began := k.Server.Now()
	name, size, err := k.attempt(ctx)
	if ctx.Err() != nil {
		return
	}
	failure := ""
	k.mu.Lock()
	k.status.FailedAt, k.status.Failure = time.Time{}, ""
	if err == nil {
		k.status.Succeeded++
	} else {
		failure = err.Error()
		k.status.Failed++
		k.status.FailedAt, k.status.Failure = k.Server.Now().UTC(), failure
	}
	k.mu.Unlock()
	if err != nil {
		k.Logger.Error("the scheduled backup failed and is tried again", "directory", k.Dir, "error", err)
	} else {
		k.Logger.Info("backup made", "file", filepath.Join(k.Dir, name), "bytes", size, "took", k.Server.Now().Sub(began).Round(time.Millisecond).String())
	}
	if k.Happened != nil {
		k.Happened(name, failure)
	}
}

// Make makes a backup in the directory now, and removes the oldest that are too many.
func (k *Keeper) Make(ctx context.Context) (name string, size int64, err error) {
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return "", 0, fmt.Errorf("make the directory of backups: %w", err)
	}
	name = Name(k.Server.Now(), k.Seal)
	size, err = Save(filepath.Join(k.Dir, name), k.Seal, func(w io.Writer) error {
		return k.Server.writeWith(ctx, w, k.Keys)
	})
	if err != nil {
		return "", 0, err
	}
	return name, size, prune(k.Dir, k.Keep)
}

// writeWith writes a backup, with keys where they are given.
func (s Server) writeWith(ctx context.Context, w io.Writer, keys *Keys) error {
	if keys == nil {
		return s.Write(ctx, w, func(int64) {})
	}
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := s.Write(ctx, to, func(int64) {})
		written <- errors.Join(err, to.CloseWithError(err))
	}()
	_, err := Copy(w, from, keys)
	// Whoever still writes ends with that; who has ended has said the same.
	return errors.Join(err, from.CloseWithError(err), <-written)
}

// Status is how it stands now.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	s, offsite := k.status, k.offsite
	k.mu.Unlock()
	s.Files = []Kept{}
	if s.Dir = k.Dir; s.Dir == "" {
		return s
	}
	if k.Offsite != nil {
		offsite.Place, offsite.Files = k.Offsite.String(), append([]Kept{}, offsite.Files...)
		s.Offsite = &offsite
	}
	s.Every, s.Keep, s.Encrypted, s.Keys = k.Every.String(), k.Keep, k.Seal.Encrypts(), k.Keys != nil
	if files, err := list(k.Dir); err == nil && len(files) > 0 {
		s.Files = files
		s.Well = s.Failure == "" && k.Server.Now().Sub(files[0].Made) < 2*k.Every && k.carried(files[0].Name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && s.Failure == "" {
		s.Failure, s.FailedAt = err.Error(), k.Server.Now().UTC()
	}
	return s
}

// abandoned is how old a half-written file is that nobody writes any more.
const abandoned = 24 * time.Hour

// Name is that of the file of a backup made at a time.
func Name(at time.Time, seal Sealing) string {
	return prefix + at.UTC().Format(stamp) + seal.Suffix()
}

const prefix = "drover-"

// list is the backups in a directory, newest first. Other files are none of them.
func list(dir string) ([]Kept, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	var files []Kept
	for _, e := range entries {
		at, ours := made(e.Name())
		info, err := e.Info()
		if !ours || err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, Kept{Name: e.Name(), Made: at, Size: info.Size()})
	}
	slices.SortFunc(files, func(a, b Kept) int { return b.Made.Compare(a.Made) })
	return files, nil
}

// made is when the backup of a name was made; false for what is not the name of one.
func made(name string) (time.Time, bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	rest, plain := strings.CutSuffix(strings.TrimSuffix(rest, ".age"), ".tar")
	at, err := time.Parse(stamp, rest)
	return at, ours && plain && err == nil
}

// prune removes the oldest backups beyond those that are kept, and what a crash left half-written.
func prune(dir string, keep int) error {
	files, err := list(dir)
	partial, globErr := filepath.Glob(filepath.Join(dir, prefix+"*.partial"))
	err = errors.Join(err, globErr)
	for _, path := range partial {
		at, ours := made(strings.TrimSuffix(filepath.Base(path), ".partial"))
		if ours && len(files) > 0 && files[0].Made.Sub(at) > abandoned {
			err = errors.Join(err, os.Remove(path))
		}
	}
	for _, old := range files[min(keep, len(files)):] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old.Name)))
	}
	return err
}
