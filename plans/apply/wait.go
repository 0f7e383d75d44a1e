// Waits that name themselves: a wait without a name is an agent that has gone silent.

package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/apply/interlock"
	"github.com/drover-project/drover/plans/backoff"
)

const (
	roomRetryMin = 250 * time.Millisecond
	roomRetryMax = 15 * time.Second
	// restartLook is the distance of looks for the installer's file.
	restartLook = time.Second
)

// waiter reports one wait of one source, once when it begins and once when it is over.
type waiter struct {
	e      *Engine
	source string
	since  time.Time // when waits begin; zero: when they are reported
	now    Wait
}

// on says what is waited for; the same again is not reported again.
func (w *waiter) on(what, cause, next string) {
	if w.now.For == what && w.now.Cause == cause {
		return
	}
	since := w.since
	if since.IsZero() {
		since = w.e.Now()
	}
	w.now = Wait{Source: w.source, For: what, Cause: cause, Since: since.UTC(), Next: next}
	w.e.Logger.Warn("waiting", "source", w.source, "for", what, "cause", cause, "since", w.now.Since, "next", next)
	if w.e.Waiting != nil {
		w.e.Waiting(w.now)
	}
}

func (w *waiter) over() {
	if w.now.For == "" {
		return
	}
	w.e.Logger.Info("no longer waiting", "source", w.source, "for", w.now.For, "after", w.e.Now().Sub(w.now.Since))
	w.now = Wait{}
	if w.e.Waiting != nil {
		w.e.Waiting(Wait{Source: w.source})
	}
}

// withRoom does something that writes to what, again and again while the disk has no room
// or answers with an I/O error: space returns, and the plan is not to blame.
func (w *work) withRoom(ctx context.Context, what string, do func() error) error {
	wait := &waiter{e: w.Engine, source: w.d.Source}
	defer wait.over()
	pause := backoff.Backoff{Min: roomRetryMin, Max: roomRetryMax, Floor: 0.5}
	for {
		err := do()
		if !noRoom(err) {
			return err
		}
		wait.on(what, reason(err), "tried again until it can be written")
		if err := backoff.Wait(ctx, pause.Next()); err != nil {
			return err
		}
	}
}

// enterWaiting takes the interlock as soon as no installer is in the way.
func (w *work) enterWaiting(ctx context.Context) (leave func(), err error) {
	wait := &waiter{e: w.Engine, source: w.d.Source}
	defer wait.over()
	for {
		ok, err := w.interlock.Enter()
		if err != nil {
			return nil, err
		}
		if ok {
			return w.leaveOnce(), nil
		}
		wait.on(w.interlock.Installer(), "an installer is about to restart the agent",
			"goes on when the file is gone, at the latest after "+interlock.Patience.String())
		if err := backoff.Wait(ctx, restartLook); err != nil {
			return nil, err
		}
	}
}

func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}

// reason is the system's word for an error without the names of our temporary files.
func reason(err error) string {
	var onPath *fs.PathError
	var onLink *os.LinkError
	var inCall *os.SyscallError
	var number syscall.Errno
	switch {
	case errors.As(err, &onPath):
		return onPath.Err.Error()
	case errors.As(err, &onLink):
		return onLink.Err.Error()
	case errors.As(err, &inCall):
		return inCall.Err.Error()
	case errors.As(err, &number):
		return number.Error()
	}
	return err.Error()
}
