// Files of a plan, in order. Each is brought to its state on its own: a fault leaves the ones
// before it new, it itself old, and the ones after it untouched; after a crash each is old or
// new, and those that are struck off the ledger are new. The syncs of several are shared, see
// hostfs.Batch.

package apply

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/plans/apply/supervise"
)

// files does the files that the ledger still holds.
func (w *work) files(ctx context.Context) error {
	if w.resumed && w.begunAfterFiles() {
		w.ledger.Files, w.disk.dirty = []string{}, true
	}
	if len(w.ledger.Files) > 0 && w.disk.dirty {
		if err := w.disk.first(ctx, w.ledger); err != nil {
			return err
		}
	}
	if len(w.ledger.Files) > 0 {
		if err := w.mayBegin(ctx); err != nil {
			return err
		}
	}
	all := w.d.Plan.Files
	return w.bring(ctx, all[len(all)-len(w.ledger.Files):], func(f plans.File, changed bool) error {
		w.ledger.Files = w.ledger.Files[1:]
		w.disk.dirty = true
		w.at("file")
		switch {
		case changed && f.Action == plans.ActionDelete:
			w.log.Info("file removed", "path", f.Path)
			w.emitFile(FileChanged, f)
		case changed:
			w.log.Info("file written", "path", f.Path)
			w.emitFile(FileChanged, f)
		default:
			w.log.Debug("file is as wanted", "path", f.Path)
		}
		if w.Now().Sub(w.saved) > strikeEvery {
			return w.save(ctx)
		}
		return nil
	})
}

// begunAfterFiles says that the first instruction was begun, and so that all files were done, though the ledger still has them: see saver.open.
// They are not done again then, as the instruction may have changed them. An instruction that was not begun is not open any more.
func (w *work) begunAfterFiles() bool {
	if len(w.ledger.Files) == 0 || len(w.ledger.Instructions) == 0 || !w.ledger.Instructions[0].Open {
		return false
	}
	in := &w.ledger.Instructions[0]
	running, result, err := supervise.Attach(w.tryDir(w.ledger, 0), in.Supervisor)
	if running != nil {
		running.Close()
	}
	if running != nil || result != nil || errors.Is(err, supervise.ErrLost) && exists(w.tryDir(w.ledger, 0)) {
		return true
	}
	if in.Boot == w.boot { // after a reboot the directory may have been lost with the host
		in.Open, w.disk.dirty = false, true
		in.Runs--
	}
	return false
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// bring brings files to their state, in order, and calls done for each that is durable. The
// error names the file that cannot be brought to its state; the ones before it are.
func (w *work) bring(ctx context.Context, files []plans.File, done func(f plans.File, changed bool) error) error {
	b := &bringing{work: w, batch: w.host.Batch(), done: done}
	err := b.all(ctx, files)
	return errors.Join(err, b.batch.Close())
}

// bringing is a row of files on their way to their state.
type bringing struct {
	*work
	batch *hostfs.Batch
	done  func(f plans.File, changed bool) error
	// placed are those that are done but for the flush of the batch.
	placed []placed
}

// placed is a file that is as wanted once the batch has flushed this many.
type placed struct {
	file    plans.File
	changed bool
	after   int
}

func (b *bringing) all(ctx context.Context, files []plans.File) error {
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, b.flush(ctx))
		}
		changed := false
		err := b.withRoom(ctx, f.Path, func() error {
			now, err := b.place(f, b.batch)
			changed = changed || now
			if noRoom(err) {
				err = errors.Join(err, b.batch.Flush()) // those before it need not wait
			}
			return err
		})
		if err != nil {
			if fault := b.flush(ctx); fault != nil {
				return fault // of a file before
			}
			return faultOf(ctx, f, err)
		}
		b.placed = append(b.placed, placed{f, changed, b.batch.Done() + b.batch.Waiting()})
		if err := b.report(); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// flush makes everything durable that was placed.
func (b *bringing) flush(ctx context.Context) error {
	for len(b.placed) > 0 {
		f := b.placed[0].file
		err := b.withRoom(ctx, f.Path, b.batch.Flush)
		if fault := b.report(); fault != nil {
			return fault
		}
		if err != nil && len(b.placed) > 0 {
			return faultOf(ctx, b.placed[0].file, err)
		}
		if err != nil {
			return faultOf(ctx, f, err)
		}
	}
	return nil
}

// report calls done for what is durable. What did not go through the batch, like a removal,
// is durable when nothing waits any more.
func (b *bringing) report() error {
	for _, name := range b.batch.InPlace() {
		b.log.Warn("file is the place of a mount and cannot be replaced: it was written in place, so that a crash in the middle leaves a part of it", "path", name)
	}
	for len(b.placed) > 0 {
		one := b.placed[0]
		if b.batch.Done() < one.after || b.batch.Dirty() {
			return nil
		}
		b.placed = b.placed[1:]
		if err := b.done(one.file, one.changed); err != nil {
			return err
		}
	}
	return nil
}

// faultOf names a file that cannot be brought to its state; the end of the context is not its fault.
func faultOf(ctx context.Context, f plans.File, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return failed("file %s: %s", f.Path, reason(err))
}

func (w *work) emitFile(kind EventKind, f plans.File) {
	event := w.event(kind)
	event.Name = f.Path
	w.emit(event)
}

// RestoreFiles brings the plan's files back to the wanted state, runs nothing, and returns
// the paths that were missing or different. It stops at the first that cannot be. What the plan's
// own instructions made of its files stays, see untouched.
func (e *Engine) RestoreFiles(ctx context.Context, s Standing) (changed []string, err error) {
	release, err := e.acquire(ctx, s.Source)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := e.load(s.Source)
	if err != nil {
		return nil, err
	}
	w := newWork(e, Delivery{Source: s.Source, Checksum: s.Checksum, Plan: s.Plan}, nil)
	files := slices.DeleteFunc(slices.Clone(s.Plan.Files), func(f plans.File) bool { return w.untouched(l, s, f) })
	err = w.bring(ctx, files, func(f plans.File, was bool) error {
		if was {
			changed = append(changed, f.Path)
			w.log.Info("file put back", "path", f.Path)
			w.emitFile(FilePutBack, f)
		}
		return nil
	})
	return changed, err
}

// untouched says whether a file of a plan that stands is left as it is: the plan's own instructions
// changed it, or may have where that was not noted, as by an agent before this one.
func (w *work) untouched(l *ledger, s Standing, f plans.File) bool {
	switch {
	case len(s.Plan.Instructions) == 0:
		return false
	case l != nil && l.Checksum != s.Checksum: // the host has been at another plan since
		return false
	case l != nil && l.Changed != nil:
		return slices.Contains(l.Changed, f.Path)
	}
	entries, err := w.entries(f)
	return err == nil && !slices.ContainsFunc(entries, func(entry hostfs.Entry) bool {
		have, err := w.host.Look(entry, -1)
		return err != nil || have.Kind == hostfs.Nothing
	})
}

// changedFiles are the paths of the plan's files that differ from the plan at its end: its instructions
// have changed them, as those do that fill in a file. It is never nil.
func (w *work) changedFiles() []string {
	changed, last := []string{}, map[string]bool{}
	if w.d.Plan == nil || len(w.d.Plan.Instructions) == 0 {
		return changed
	}
	for _, f := range slices.Backward(w.d.Plan.Files) {
		entries, err := w.entries(f)
		if err != nil || last[path.Clean(f.Path)] {
			continue
		}
		last[path.Clean(f.Path)] = true
		if slices.ContainsFunc(entries, func(entry hostfs.Entry) bool { return !w.linksToItself(entry) && !w.host.Holds(entry) }) {
			changed = append(changed, f.Path)
		}
	}
	return changed
}

// place brings one file to its state on the host, but for the flush of the batch.
func (e *Engine) place(f plans.File, b *hostfs.Batch) (changed bool, err error) {
	entries, err := e.entries(f)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if e.linksToItself(entry) {
			continue
		}
		done, err := b.Bring(entry)
		if errors.Is(err, hostfs.ErrMounted) && entry.Kind == hostfs.Link {
			e.Logger.Warn("a link cannot take the place of a mount: the file is written at both paths", "path", entry.Name, "kept", entry.Target)
			file := entries[0]
			file.Name = entry.Name
			done, err = b.Bring(file)
		}
		if err != nil {
			return changed, err
		}
		changed = changed || done.Action != hostfs.None
	}
	return changed, nil
}

// entries are what a file of a plan means for the host: more than one where it is kept
// elsewhere and linked to.
func (e *Engine) entries(f plans.File) ([]hostfs.Entry, error) {
	really, redirected := e.redirect(f.Path)
	if f.Action == plans.ActionDelete {
		gone := []hostfs.Entry{{Name: f.Path, Tree: f.Directory}}
		if redirected {
			gone = append(gone, hostfs.Entry{Name: really, Tree: f.Directory})
		}
		return gone, nil
	}
	mode, err := f.Mode()
	if err != nil {
		return nil, err
	}
	owner := hostfs.Owner{UID: f.UID, GID: f.GID}
	if f.Directory {
		return []hostfs.Entry{{Name: f.Path, Kind: hostfs.Dir, Mode: mode, Owner: owner}}, nil
	}
	content, err := f.Bytes()
	if err != nil {
		return nil, err
	}
	wanted := []hostfs.Entry{{Name: really, Kind: hostfs.File, Content: content, Mode: mode, Owner: owner}}
	if redirected {
		wanted = append(wanted, hostfs.Entry{Name: f.Path, Kind: hostfs.Link, Target: really})
	}
	return wanted, nil
}

// linksToItself says whether the entry is a link to its own place: an operator may have
// made one directory a link to the other, and then both places hold already.
func (e *Engine) linksToItself(entry hostfs.Entry) bool {
	return entry.Kind == hostfs.Link && e.host.SameEntry(entry.Name, entry.Target)
}

// redirect is where a regular file of this path is really kept.
func (e *Engine) redirect(name string) (really string, redirected bool) {
	name = path.Clean(name)
	for _, r := range e.Redirects {
		if rest, ok := strings.CutPrefix(name, path.Clean(r.Prefix)+"/"); ok {
			return path.Join(r.Dir, rest), true
		}
	}
	return name, false
}
