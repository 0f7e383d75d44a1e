// Putting the ledger on disk. A new one is on its way while directories are made, files are put in place and the first
// command is written, which only the agent sees; what is struck off by the time that command begins follows beside it.

package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

// foretellFiles is how many files may come before an instruction that the first ledger has as open already. After a reboot while
// they are written it counts as interrupted, so they are few.
const foretellFiles = 64

// saver puts the ledger of a delivery on disk.
type saver struct {
	// write makes a ledger's text durable, waiting for room when there is none; saved is called after that.
	write func(ctx context.Context, text []byte) error
	saved func()

	dirty    bool         // the ledger differs from the disk
	pending  *pendingSave // nil: none is under way
	foretold *ledger      // on disk, with the first instruction open before it is; nil: not
}

// pendingSave is a ledger on its way to the disk.
type pendingSave struct {
	text   []byte
	ledger *ledger // what text is made of, where that differs from the work's
	done   chan error
	cancel context.CancelFunc // has it no longer wait, for room or for its time
}

// save puts the ledger on disk, unless the one that is under way says the same.
func (s *saver) save(ctx context.Context, l *ledger) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the ledger: %w", err)
	}
	if p := s.pending; p != nil {
		err := s.await()
		if err != nil || bytes.Equal(p.text, text) && !s.dirty {
			return err
		}
	}
	s.foretold = nil
	return s.isSaved(s.write(ctx, text))
}

// isSaved notes what became of writing the ledger.
func (s *saver) isSaved(err error) error {
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	s.dirty = false
	s.saved()
	return nil
}

// early begins to put a new ledger on disk as it will be when its first instruction begins. Every save waits for it, and
// writes anew only what has become of it otherwise.
func (s *saver) early(ctx context.Context, first *ledger) {
	text, err := json.Marshal(first)
	if err != nil {
		return // the save that needs it says so
	}
	s.beside(ctx, &pendingSave{text: text, ledger: first}, 0)
}

// soon puts the ledger on disk as it is now, in a moment: with a short instruction that is the ledger with its result.
func (s *saver) soon(ctx context.Context, l *ledger) {
	text, err := json.Marshal(l)
	if err != nil {
		return // the next save says so
	}
	s.beside(ctx, &pendingSave{text: text}, reportFirst)
}

func (s *saver) beside(ctx context.Context, p *pendingSave, after time.Duration) {
	ctx, p.cancel = context.WithCancel(ctx)
	p.done = make(chan error, 1)
	s.pending = p
	go func() {
		select {
		case <-time.After(after):
			p.done <- s.write(ctx, p.text)
		case <-ctx.Done():
			p.done <- ctx.Err()
		}
	}()
}

// await waits until the save that was begun has ended. A save that was put off for a moment is given up: the next ledger says more.
func (s *saver) await() error {
	p := s.pending
	if p == nil {
		return nil
	}
	s.pending = nil
	defer p.cancel()
	if p.ledger == nil {
		p.cancel()
		<-p.done
		return nil // the ledger is still dirty, and what is to be saved is saved now
	}
	s.foretold = p.ledger
	return s.isSaved(<-p.done)
}

// giveUp has nothing be under way any more.
func (s *saver) giveUp() {
	if s.pending != nil {
		s.pending.cancel()
		_ = s.await() // why it ends is why the ledger does not matter
	}
}

// first has the ledger durable before the host is touched: the one that is on its way, or as it is now.
func (s *saver) first(ctx context.Context, l *ledger) error {
	if s.pending != nil {
		return s.await()
	}
	return s.save(ctx, l)
}

// open has the ledger on disk say that an instruction is open, before it begins. It says that already where it was written with that
// before the files: then they are still to be struck off there.
func (s *saver) open(ctx context.Context, l *ledger, i int) error {
	if err := s.await(); err != nil {
		return err
	}
	if s.foretold != nil {
		was, is := s.foretold.Instructions[i], l.Instructions[i]
		if was.Supervisor.PID == 0 {
			is.Supervisor = was.Supervisor // it was only being started, and is noted once it has begun
		}
		if was == is {
			l.Instructions[i] = is
			return nil
		}
	}
	return s.save(ctx, l)
}

// hasFiles says that the ledger on disk has files that are done.
func (s *saver) hasFiles() bool { return s.foretold != nil && len(s.foretold.Files) > 0 }

// newSaver is that of a delivery.
func newSaver(w *work) *saver {
	path := w.ledgerPath(w.d.Source)
	return &saver{
		write: func(ctx context.Context, text []byte) error {
			return w.withRoom(ctx, path, func() error { return durable.Rewrite(path, text) })
		},
		saved: func() {
			w.saved = w.Now()
			w.at("ledger")
		},
	}
}

// save puts the ledger on disk.
func (w *work) save(ctx context.Context) error { return w.disk.save(ctx, w.ledger) }

// saveEarly begins to put a new ledger on disk.
func (w *work) saveEarly(ctx context.Context) {
	first := *w.ledger
	if len(first.Files) <= foretellFiles && len(first.Instructions) > 0 && w.d.Plan.Instructions[0].Image == "" {
		first.Instructions = slices.Clone(first.Instructions)
		w.opened(&first.Instructions[0], w.ready())
	}
	w.disk.early(ctx, &first)
}
