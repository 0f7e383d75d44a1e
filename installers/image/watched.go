// Reading a layer that may be too long, may stop coming, or may no longer be wanted.

package image

import (
	"context"
	"errors"
	"io"
	"time"
)

// errStalled is a layer that stopped coming.
var errStalled = errors.New("the registry stopped sending")

// watched counts what is read of all layers together and notices when nothing comes.
type watched struct {
	r       io.Reader
	u       *unpacker
	stopped func() error // why reading has to end, if it has to
	timer   *time.Timer  // ends the pull
	stall   time.Duration
}

// watch reads r, and calls abort when nothing comes for as long as stall.
func (u *unpacker) watch(ctx context.Context, r io.Reader, stall time.Duration, abort context.CancelCauseFunc) *watched {
	return &watched{
		r: r, u: u, stall: stall,
		stopped: func() error { return context.Cause(ctx) },
		timer:   time.AfterFunc(stall, func() { abort(errStalled) }),
	}
}

// Read is of io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	if err := w.stopped(); err != nil {
		return 0, err
	}
	if w.u.bytes < 0 {
		return 0, refused("the image is larger than %d bytes", w.u.maxBytes)
	}
	n, err := w.r.Read(p[:min(int64(len(p)), w.u.bytes+1)])
	w.u.bytes -= int64(n)
	w.timer.Reset(w.stall)
	if stopped := w.stopped(); stopped != nil {
		err = stopped // what the reader says is only the consequence
	}
	return n, err
}
