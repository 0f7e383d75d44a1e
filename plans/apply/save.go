// Putting the ledger on disk. A new one is on its way while directories are made and the
// first command is written, which only the agent sees.

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
	file   durable.File
	done   chan error
	cancel context.CancelFunc // has it no longer wait for room
}

// save puts the ledger on disk, waiting for room when there is none.
func (w *work) save(ctx context.Context) error {
	file, err := w.ledgerFile(w.ledger)
	if err != nil {
		return err
	}
	if early := w.early; early != nil {
		err := w.awaitEarly()
		if err != nil || bytes.Equal(early.file.Data, file.Data) {
			return err
		}
	}
	return w.withRoom(ctx, file.Path, func() error { return w.put(file) })
}

// saveWith puts the ledger on disk, and another file before it, without waiting for room.
func (w *work) saveWith(before durable.File) error {
	file, err := w.ledgerFile(w.ledger)
	if err != nil {
		return err
	}
	if err := w.awaitEarly(); err != nil {
		return err
	}
	return w.put(before, file)
}

func (w *work) put(files ...durable.File) error {
	if err := durable.WriteFiles(files...); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	w.isSaved()
	return nil
}

func (w *work) isSaved() {
	w.saved, w.dirty = w.Now(), false
	w.at("ledger")
}

func (w *work) ledgerFile(l *ledger) (durable.File, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return durable.File{}, fmt.Errorf("encode the ledger: %w", err)
	}
	return durable.File{Path: w.ledgerPath(w.d.Source), Data: append(b, '\n'), Mode: 0o600}, nil
}

// saveEarly begins to put a new ledger on disk as it will be when its first step begins.
// Every save waits for it, and writes anew only what has become of it otherwise.
func (w *work) saveEarly(ctx context.Context) {
	first := *w.ledger
	if len(first.Files) == 0 && len(first.Instructions) > 0 && w.d.Plan.Instructions[0].Image == "" {
		first.Instructions = slices.Clone(first.Instructions)
		w.opened(&first.Instructions[0])
	}
	file, err := w.ledgerFile(&first)
	if err != nil {
		return // the save that needs it says so
	}
	ctx, cancel := context.WithCancel(ctx)
	w.early = &earlySave{file: file, done: make(chan error, 1), cancel: cancel}
	go func(early *earlySave) {
		early.done <- w.withRoom(ctx, file.Path, func() error { return durable.WriteFiles(file) })
	}(w.early)
}

// awaitEarly waits until the save that was begun early has ended.
func (w *work) awaitEarly() error {
	early := w.early
	if early == nil {
		return nil
	}
	w.early = nil
	defer early.cancel()
	if err := <-early.done; err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	w.isSaved()
	return nil
}
