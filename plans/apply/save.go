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

// pendingSave is a ledger on its way to the disk.
type pendingSave struct {
	text   []byte
	ledger *ledger // what text is made of, where that differs from the work's
	done   chan error
	cancel context.CancelFunc // has it no longer wait, for room or for its time
}

// save puts the ledger on disk, waiting for room when there is none.
func (w *work) save(ctx context.Context) error {
	text, err := json.Marshal(w.ledger)
	if err != nil {
		return fmt.Errorf("encode the ledger: %w", err)
	}
	if p := w.pending; p != nil {
		err := w.awaitPending()
		if err != nil || bytes.Equal(p.text, text) && !w.dirty {
			return err
		}
	}
	w.foretold = nil
	return w.isSaved(w.write(ctx, text))
}

func (w *work) write(ctx context.Context, text []byte) error {
	path := w.ledgerPath(w.d.Source)
	return w.withRoom(ctx, path, func() error { return durable.Rewrite(path, text) })
}

// isSaved notes what became of writing the ledger.
func (w *work) isSaved(err error) error {
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	w.saved, w.dirty = w.Now(), false
	w.at("ledger")
	return nil
}

// saveEarly begins to put a new ledger on disk as it will be when its first instruction begins. Every save waits for it, and
// writes anew only what has become of it otherwise.
func (w *work) saveEarly(ctx context.Context) {
	first := *w.ledger
	if len(first.Files) <= foretellFiles && len(first.Instructions) > 0 && w.d.Plan.Instructions[0].Image == "" {
		first.Instructions = slices.Clone(first.Instructions)
		w.opened(&first.Instructions[0], w.ready())
	}
	text, err := json.Marshal(&first)
	if err != nil {
		return // the save that needs it says so
	}
	w.saveBeside(ctx, &pendingSave{text: text, ledger: &first}, 0)
}

// saveSoon puts the ledger on disk as it is now, in a moment: with a short instruction that is the ledger with its result.
func (w *work) saveSoon(ctx context.Context) {
	text, err := json.Marshal(w.ledger)
	if err != nil {
		return // the next save says so
	}
	w.saveBeside(ctx, &pendingSave{text: text}, reportFirst)
}

func (w *work) saveBeside(ctx context.Context, p *pendingSave, after time.Duration) {
	ctx, p.cancel = context.WithCancel(ctx)
	p.done = make(chan error, 1)
	w.pending = p
	go func() {
		select {
		case <-time.After(after):
			p.done <- w.write(ctx, p.text)
		case <-ctx.Done():
			p.done <- ctx.Err()
		}
	}()
}

// awaitPending waits until the save that was begun has ended. One that was to be done in a moment is given up: what comes next has more to say.
func (w *work) awaitPending() error {
	p := w.pending
	if p == nil {
		return nil
	}
	w.pending = nil
	defer p.cancel()
	if p.ledger == nil {
		p.cancel()
		<-p.done
		return nil // the ledger is still dirty, and what is to be saved is saved now
	}
	w.foretold = p.ledger
	return w.isSaved(<-p.done)
}

// saveFirst has the ledger durable before the host is touched: the one that is on its way, or as it is now.
func (w *work) saveFirst(ctx context.Context) error {
	if w.pending != nil {
		return w.awaitPending()
	}
	return w.save(ctx)
}

// saveOpen has the ledger on disk say that an instruction is open, before it begins. It says that already where it was written with that
// before the files: then they are still to be struck off there.
func (w *work) saveOpen(ctx context.Context, i int) error {
	if err := w.awaitPending(); err != nil {
		return err
	}
	if w.foretold != nil {
		was, is := w.foretold.Instructions[i], w.ledger.Instructions[i]
		if was.Supervisor.PID == 0 {
			is.Supervisor = was.Supervisor // it was only being started, and is noted once it has begun
		}
		if was == is {
			w.ledger.Instructions[i] = is
			return nil
		}
	}
	return w.save(ctx)
}
