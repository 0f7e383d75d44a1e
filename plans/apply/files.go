// Files of a plan, in order. Each is brought to its state on its own: a crash or a fault
// leaves the ones before it new, it itself old, and the ones after it untouched.

package apply

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/hostfs"
)

// files does the files that the ledger still holds.
func (w *work) files(ctx context.Context) error {
	if len(w.ledger.Files) > 0 && w.dirty {
		if err := w.save(ctx); err != nil {
			return err
		}
	}
	all := w.d.Plan.Files
	for len(w.ledger.Files) > 0 {
		if err := w.file(ctx, all[len(all)-len(w.ledger.Files)]); err != nil {
			return err
		}
		w.ledger.Files = w.ledger.Files[1:]
		w.dirty = true
		w.at("file")
		if w.Now().Sub(w.saved) > strikeEvery {
			if err := w.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// file brings one file to its state, and names it when that cannot be done.
func (w *work) file(ctx context.Context, f plans.File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	changed := false
	err := w.withRoom(ctx, f.Path, func() (err error) {
		changed, err = w.place(f)
		return err
	})
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case err != nil:
		return failed("file %s: %s", f.Path, reason(err))
	case changed && f.Action == plans.ActionDelete:
		w.log.Info("file removed", "path", f.Path)
		w.tellFile(FileChanged, f)
	case changed:
		w.log.Info("file written", "path", f.Path)
		w.tellFile(FileChanged, f)
	default:
		w.log.Debug("file is as wanted", "path", f.Path)
	}
	return nil
}

func (w *work) tellFile(kind EventKind, f plans.File) {
	event := w.event(kind)
	event.Name = f.Path
	w.tell(event)
}

// RestoreFiles brings the plan's files back to the wanted state, runs nothing, and returns
// the paths that were missing or different. It stops at the first that cannot be.
func (e *Engine) RestoreFiles(ctx context.Context, source string, p *plans.Plan) (changed []string, err error) {
	release, err := e.acquire(ctx, source)
	if err != nil {
		return nil, err
	}
	defer release()
	w := &work{Engine: e, d: Delivery{Source: source, Plan: p}, log: e.Logger.With("source", source)}
	for _, f := range p.Files {
		was := false
		err := w.withRoom(ctx, f.Path, func() (err error) {
			was, err = w.place(f)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return changed, ctx.Err()
		case err != nil:
			return changed, failed("file %s: %s", f.Path, reason(err))
		}
		if was {
			changed = append(changed, f.Path)
			w.log.Info("file put back", "path", f.Path)
			w.tellFile(FilePutBack, f)
		}
	}
	return changed, nil
}

// place brings one file to its state on the host.
func (e *Engine) place(f plans.File) (changed bool, err error) {
	entries, err := e.entries(f)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if e.linksToItself(entry) {
			continue
		}
		done, err := e.host.Bring(entry)
		if err != nil {
			return false, err
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
