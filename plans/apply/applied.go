// What the history of applied plans gets of a delivery.

package apply

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/history"
	"github.com/drover-project/drover/plans/durable"
)

// remember has the delivery added to the history, a moment after its outcome is in the ledger: the report of the outcome does not wait
// for it, and the next delivery does.
func (w *work) remember() {
	entry := entryOf(w.ledger)
	entry.Plan = w.d.Plan
	w.past.addSoon(entry)
}

func entryOf(l *ledger) history.Entry {
	return history.Entry{
		Checksum: l.Checksum, Source: l.Source, ID: l.ID,
		Began: l.Begun, Ended: l.Outcome.Ended, Succeeded: l.Outcome.Succeeded, Reason: l.Outcome.Reason,
	}
}

// past is the history of applied plans, and the entry that is about to be added.
type past struct {
	dir string // empty where applied plans are not remembered
	log *slog.Logger

	mu    sync.Mutex
	timer *time.Timer
	due   *history.Entry
}

// add adds an entry, or replaces the newest one of its source where that is of the same delivery. No fault here may hold a plan up.
func (p *past) add(e history.Entry) {
	if p.dir == "" {
		return
	}
	if err := history.Add(p.dir, fileKey(e.Source), e); err != nil {
		p.log.Error("applied plan is not added to the history", "directory", p.dir, "error", err)
	}
}

// has says that the history has the end of a ledger's delivery.
func (p *past) has(l *ledger) bool {
	_, found := history.Find(p.dir, fileKey(l.Source), func(e history.Entry) bool {
		return e.ID == l.ID && e.Checksum == l.Checksum && e.Began.Equal(l.Begun)
	})
	return found
}

// addSoon adds an entry in a moment, and what was to be added before at once.
func (p *past) addSoon(e history.Entry) {
	p.finish()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due, p.timer = &e, time.AfterFunc(reportFirst, p.finish)
}

// finish adds what is due, and returns once it is there.
func (p *past) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due == nil {
		return
	}
	p.timer.Stop()
	p.add(*p.due)
	p.due = nil
}

// recall makes durable what an earlier life wrote into its ledgers, which must not be written over before that, and adds to
// the history what that life ended and died before adding; the plan itself is not known any more.
func (p *past) recall(ledgers string) error {
	paths, err := filepath.Glob(filepath.Join(ledgers, "*.json"))
	if err != nil {
		return fmt.Errorf("look for ledgers: %w", err)
	}
	for _, path := range paths {
		if err := durable.SyncFile(path); err != nil {
			return fmt.Errorf("sync the ledger %s: %w", path, err)
		}
		if l, err := readLedger(path); err == nil && l.Outcome != nil && !p.has(l) {
			p.add(entryOf(l))
		}
	}
	if err := durable.SyncDir(ledgers); err != nil {
		return fmt.Errorf("sync the ledger directory: %w", err)
	}
	return nil
}

// Past is how a delivery ended that is older than the ledger's, by the history of applied plans:
// the last of those with that ID, or with it and a number after a dot, and that checksum. Nil:
// the history does not have it, or there is none. A history that cannot be read has nothing.
func (e *Engine) Past(source, id, checksum string) *Ending {
	if e.AppliedDir == "" {
		return nil
	}
	e.past.finish()
	found, ok := history.Find(e.AppliedDir, fileKey(source), func(a history.Entry) bool {
		base, _, _ := strings.Cut(a.ID, ".")
		return a.Source == source && base == id && a.Checksum == checksum
	})
	if !ok {
		return nil
	}
	return &Ending{Succeeded: found.Succeeded, Reason: found.Reason, At: found.Ended}
}
