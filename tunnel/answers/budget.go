package answers

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// all is what all answers of a process may weigh that are being read, in bytes. What an answer weighs is near to the memory
	// that its objects take.
	all = 128 << 20
	// small is the weight up to which an answer never waits: those of an ordinary cluster are read while others take all there is.
	small = 256 << 10
	// patience is how long an answer waits for others to end.
	patience = 2 * time.Second
)

// process is the budget of this process, whose memory all answers share.
var process = NewBudget(all, patience)

// Budget is the memory that answers may take which are being read at the same time.
type Budget struct {
	most     int64
	patience time.Duration

	mu    sync.Mutex
	taken int64
	// freed is closed when something was given back.
	freed chan struct{}
}

// NewBudget is one of so many bytes. An answer that finds it used up waits at most for patience.
func NewBudget(most int64, patience time.Duration) *Budget {
	return &Budget{most: most, patience: patience, freed: make(chan struct{})}
}

// BusyError says that an answer was not read to its end because others take all the memory there is for answers.
type BusyError struct {
	From, What string
	// Bytes is how much there is.
	Bytes int64
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s answered %s, which was not read: other answers of clusters and hosts take all %s that there are for them", e.From, e.What, inBytes(e.Bytes))
}

// Taken is what is being read now, in bytes.
func (b *Budget) Taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// take takes bytes; at once those of a small answer. The error is a BusyError, or why the context ended.
func (b *Budget) take(ctx context.Context, bytes int64, small bool) error {
	freed := b.try(bytes, small)
	if freed == nil {
		return nil
	}
	timer := time.NewTimer(b.patience)
	defer timer.Stop()
	for {
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return &BusyError{Bytes: b.most}
		}
		if freed = b.try(bytes, small); freed == nil {
			return nil
		}
	}
}

// try takes bytes if there are so many; otherwise it returns what is closed when there are more.
func (b *Budget) try(bytes int64, small bool) (freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if small || b.taken+bytes <= b.most {
		b.taken += bytes
		return nil
	}
	return b.freed
}

// give gives back bytes.
func (b *Budget) give(bytes int64) {
	if bytes == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= bytes
	close(b.freed)
	b.freed = make(chan struct{})
}
