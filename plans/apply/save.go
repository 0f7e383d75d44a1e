// Putting the ledger on disk, one of two files that change places. A new one is on its way while
// directories are made and the first command is written, which only the agent sees.

package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/drover-project/drover/plans/durable"
)

// earlySave is a ledger on its way to the disk.
type earlySave struct {
	text   []byte
	done   chan error
	cancel context.CancelFunc // has it no longer wait for room
}

// save puts the ledger on disk, waiting for room when there is none.
func (w *work) save(ctx context.Context) error {
	text, err := json.Marshal(w.ledger)
	if err != nil {
		return fmt.Errorf("encode the ledger: %w", err)
	}
	if early := w.early; early != nil {
		err := w.awaitEarly()
		if err != nil || bytes.Equal(early.text, text) {
			return err
		}
	}
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

// saveEarly begins to put a new ledger on disk as it will be when its first step begins.
// Every save waits for it, and writes anew only what has become of it otherwise.
func (w *work) saveEarly(ctx context.Context) {
	first := *w.ledger
	if len(first.Files) == 0 && len(first.Instructions) > 0 && w.d.Plan.Instructions[0].Image == "" {
		first.Instructions = slices.Clone(first.Instructions)
		w.opened(&first.Instructions[0], w.ready())
	}
	text, err := json.Marshal(&first)
	if err != nil {
		return // the save that needs it says so
	}
	ctx, cancel := context.WithCancel(ctx)
	early := &earlySave{text: text, done: make(chan error, 1), cancel: cancel}
	w.early = early
	go func() { early.done <- w.write(ctx, text) }()
}

// awaitEarly waits until the save that was begun early has ended.
func (w *work) awaitEarly() error {
	early := w.early
	if early == nil {
		return nil
	}
	w.early = nil
	defer early.cancel()
	return w.isSaved(<-early.done)
}
