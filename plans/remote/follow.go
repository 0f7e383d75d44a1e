// Keeping up with the Secret: what exists now, then every change, for ever, through
// restarts of the server and cuts of the network.

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	retryMin = 800 * time.Millisecond
	retryMax = 30 * time.Second
	// unansweredMax is the longest pause while nothing answers: a server that is back is found
	// soon, and a server that runs but is in trouble is spared.
	unansweredMax = 2500 * time.Millisecond
	// freshFor is how long a server that was away counts as one that is starting.
	freshFor = 30 * time.Second
	// markLimit is how long a server may take to send the initial state on a watch. Some
	// accept the parameter, ignore it and stay silent.
	markLimit = 10 * time.Second
	// shortWatch is the age below which a watch that the server ended has failed, steadyWatch
	// the age from which the next failure is the first of a row.
	shortWatch  = time.Second
	steadyWatch = 10 * time.Second
)

// pace is how patient a source is. Tests are less so.
type pace struct {
	retryMin, retryMax time.Duration
	mark               time.Duration
	// unanswered is the longest pause while the server cannot be reached at all, and for the time
	// fresh after it was back.
	unanswered, fresh time.Duration
	report            time.Duration // of host reports
}

// row is the pauses of a row of attempts.
func (p pace) row(now func() time.Time) backoff.Row {
	return backoff.Row{Backoff: backoff.Backoff{Min: p.retryMin, Max: p.retryMax, Floor: 0.5}, Away: p.unanswered, Fresh: p.fresh, Now: now}
}

var (
	errNoMark     = errors.New("the server accepts sendInitialEvents and sends none")
	errShortWatch = errors.New("the server ended the watch at once")
)

// follower watches the Secret.
type follower struct {
	c    *client
	log  *slog.Logger
	pace pace
	now  func() time.Time
	// deliver gets each version in order, nil when there is no Secret. It must not block.
	deliver func(*Secret)
	// anew is called before the first version of a watch that goes on from no other.
	anew func()
	// connected and failed report how the connection is; next is when it is tried again. renewed
	// is called when the server's history did not reach back to where the watch was.
	connected func()
	failed    func(err error, next time.Duration)
	renewed   func()
	// wake has an entry when the server may be back.
	wake <-chan struct{}

	version   string // from which a watch can go on; empty: unknown
	listFirst bool   // the server does not send the initial state on a watch
	steady    bool   // the last watch lasted
}

// run follows until the context ends.
func (f *follower) run(ctx context.Context) {
	pause := f.pace.row(f.now)
	greet := true
	for ctx.Err() == nil {
		err := f.once(ctx, greet)
		greet = err != nil
		if err == nil {
			pause.Reset()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if f.steady {
			pause.Reset()
			f.steady = false
		}
		if code(err) == http.StatusGone && f.version != "" {
			f.version = "" // as happens after some time without a change
			f.renewed()
			continue
		}
		wait := f.after(err, pause.After(err))
		f.failed(err, wait)
		if !f.rest(ctx, wait) {
			return
		}
	}
}

// rest waits until the server is tried again, or may be back; false is the end of the context.
func (f *follower) rest(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// after is the pause that follows an error, and forgets where we were when that is of no use any more.
func (f *follower) after(err error, pause time.Duration) time.Duration {
	var answer *StatusError
	if !errors.As(err, &answer) {
		return pause
	}
	if answer.Code != http.StatusTooManyRequests {
		f.version = ""
	}
	return max(pause, answer.RetryAfter)
}

// once is one watch from its beginning to its end. With greet it asks for the version
// first, which fails early and cheaply when the server is not there or does not know us.
func (f *follower) once(ctx context.Context, greet bool) error {
	if greet {
		if err := f.c.version(ctx); err != nil {
			return fmt.Errorf("ask for the server's version: %w", err)
		}
	}
	if f.version == "" {
		f.anew()
	}
	if f.version == "" && !f.listFirst {
		err := f.watch(ctx, true)
		if f.refusesInitial(err) {
			f.log.Debug("server does not send the initial state on a watch, falling back to a list", "reason", err)
			f.listFirst = true
		} else {
			return err
		}
	}
	if f.version == "" {
		if err := f.list(ctx); err != nil {
			return fmt.Errorf("list the plan Secret: %w", err)
		}
	}
	return f.watch(ctx, false)
}

// refusesInitial says whether an error of the first watch means that this server has to be asked by a list.
func (f *follower) refusesInitial(err error) bool {
	if errors.Is(err, errNoMark) {
		return true
	}
	switch code(err) {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}

func (f *follower) list(ctx context.Context) error {
	s, version, err := f.c.list(ctx)
	if err != nil {
		return err
	}
	f.version = version
	f.deliver(s)
	return nil
}

// watch opens a watch and follows it to its end, which is not an error when the server ends it in due time.
func (f *follower) watch(ctx context.Context, initial bool) error {
	seconds := watchSeconds + rand.IntN(watchSeconds) // #nosec G404 -- spreads load, nothing secret
	s, err := f.c.watch(ctx, f.version, initial, seconds)
	if err != nil {
		return fmt.Errorf("watch the plan Secret: %w", err)
	}
	defer s.close()
	f.connected()
	opened := time.Now()
	defer func() { f.steady = time.Since(opened) >= steadyWatch }()

	unmarked := time.AfterFunc(f.pace.mark, func() { s.cancel(errNoMark) })
	defer unmarked.Stop()
	known := !initial // what exists now
	defer func() {
		if !known {
			f.version = "" // a later watch would begin behind what was never sent
		}
	}()
	for {
		if known {
			unmarked.Stop()
		}
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			if time.Since(opened) < shortWatch {
				return errShortWatch
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch the plan Secret: %w", err)
		}
		if e.version != "" {
			f.version = e.version
		}
		if e.secret != nil || e.deleted || (e.synced && !known) {
			known = true
			f.deliver(e.secret)
		}
	}
}
