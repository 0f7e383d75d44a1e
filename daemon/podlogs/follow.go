package podlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	// lookAgain is how often a log that is followed is looked at.
	lookAgain = 500 * time.Millisecond
	// maxPiece is how much of it is shown at a time, in bytes. A longer line is shown in pieces.
	maxPiece = 64 << 10
)

// Follow calls show with the lines that a component writes after those that Tail gave of its last run, and with those of the
// runs and pods after that one, until ctx ends or show fails. It calls began before the first line of each further run.
func (p Pod) Follow(ctx context.Context, component string, began func(restart int) error, show func([]Line) error) error {
	at, err := p.last()
	if err != nil {
		return err
	}
	defer func() { at.file.Close() }()
	at.offset = at.part.info.Size()
	for {
		next := at.next(p.directory, component)
		err := at.drain(show) // all that came before next, if there is one
		if next != nil {
			at.file.Close()
			another := next.part.path != at.part.path
			if at = next; err == nil && another {
				err = began(at.restart)
			}
		}
		if err != nil {
			return err
		}
		if next == nil && backoff.Wait(ctx, lookAgain) != nil {
			return nil
		}
	}
}

// followed is a file whose further lines are awaited.
type followed struct {
	part    part
	restart int
	file    *os.File
	offset  int64
}

// last opens the file that the last run writes into.
func (p Pod) last() (*followed, error) {
	root, err := os.OpenRoot(p.directory)
	if err != nil {
		return nil, fmt.Errorf("follow the log of a pod: %w", err)
	}
	defer root.Close()
	run := p.Last()
	part := run.parts[len(run.parts)-1]
	f, err := open(root, part.path)
	if err != nil {
		return nil, fmt.Errorf("follow the log of a pod, %s/%s: %w", p.directory, part.path, err)
	}
	return &followed{part: part, restart: run.Restart, file: f}, nil
}

// next opens the file that the component writes into instead; nil where there is none yet.
func (f *followed) next(directory, component string) *followed {
	pod, err := Find(directory, component)
	if err != nil {
		return nil // a pod is being replaced
	}
	run := pod.Last()
	if now := run.parts[len(run.parts)-1]; now.ended != current || os.SameFile(now.info, f.part.info) {
		return nil
	}
	next, err := pod.last()
	if err != nil {
		return nil // it has gone meanwhile
	}
	return next
}

// drain shows the whole lines that have come.
func (f *followed) drain(show func([]Line) error) error {
	piece := make([]byte, maxPiece)
	for {
		n, err := f.file.ReadAt(piece, f.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("follow the log of a pod: %w", err)
		}
		whole := bytes.LastIndexByte(piece[:n], '\n') + 1
		if whole == 0 && n == maxPiece {
			whole = n
		}
		if whole == 0 {
			return nil
		}
		f.offset += int64(whole)
		if err := show(Lines(piece[:whole])); err != nil {
			return err
		}
	}
}
