// Plans that are gone. What they did to the host stays done; what is kept for them, and
// would do no harm but fill the disk, is not.

package drop

import (
	"path/filepath"
	"slices"
	"time"
)

// removedKept is how many removed plans the status still shows.
const removedKept = 32

// missing forgets plans whose file is not there any more, and says when to look again. A
// file may be gone for a moment while an editor puts another in its place.
func (s *Source) missing(f *found) time.Duration {
	next, now := s.o.Sweep, s.o.Now()
	for path, p := range s.plans {
		switch {
		case f.has(path):
			p.missing = time.Time{}
		case f.unknown(path):
		case p.missing.IsZero():
			p.missing = now
			next = min(next, settle)
		case now.Sub(p.missing) >= settle:
			p.stop()
			delete(s.plans, path)
			s.removed(path, p.source, p.checksum)
		default:
			next = min(next, settle)
		}
	}
	return next
}

// leftBehind does the same, once, for plans that were removed while no agent ran.
func (s *Source) leftBehind(f *found) {
	if s.settled || len(f.unread) > 0 {
		return
	}
	sources, err := s.o.Engine.Sources()
	s.note("ledgers", "ledgers of removed plans cannot be looked for", err)
	if err != nil {
		return
	}
	s.settled = true
	for _, source := range sources {
		path := filepath.Join(s.o.Dir, source)
		if filepath.IsLocal(source) && isPlan(filepath.Base(source)) && !f.has(path) {
			s.removed(path, source, "")
		}
	}
}

// removed reports that a plan is gone and forgets what the engine holds of it. Its position
// stays: putting the plan back does not ask for it to be applied again.
func (s *Source) removed(path, source, checksum string) {
	s.report(Status{Path: path, Checksum: checksum, State: Removed, Reason: "what it did is not undone"})
	s.forgetRemoved()
	if err := s.o.Engine.Forget(source); err != nil {
		s.o.Logger.Warn("ledger of a removed plan stays", "path", path, "error", err)
	}
}

// forgetRemoved bounds the status: the oldest of the removed plans go.
func (s *Source) forgetRemoved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []Status
	for _, st := range s.status {
		if st.State == Removed {
			gone = append(gone, st)
		}
	}
	slices.SortFunc(gone, func(a, b Status) int { return b.Since.Compare(a.Since) })
	for _, st := range gone[min(removedKept, len(gone)):] {
		delete(s.status, st.Path)
	}
}
