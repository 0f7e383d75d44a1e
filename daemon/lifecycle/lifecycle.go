// Package lifecycle runs the parts of an agent, of whichever kind: each is started again when it
// ends, takes nothing else down, and systemd learns that they live.
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	// Pauses before a part is started again.
	pauseMin = time.Second
	pauseMax = time.Minute
	// steady is how long a part has to run for its next end to be the first of a row.
	steady = time.Hour
)

// errSlow is the end of a life whose parts did not.
var errSlow = errors.New("the agent did not stop in time")

// Part is something that runs as long as the agent does.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
	// Alive says whether it still turns, for the watchdog; nil: it cannot be asked.
	Alive func(ctx context.Context) bool
}

// Life is one life of an agent. Parts, Logger and Now are required.
type Life struct {
	Parts  []Part
	Logger *slog.Logger
	Now    func() time.Time
	// Hopeless says of a part's error that only a new process can help: then the life ends
	// with it. Nil says so of none.
	Hopeless func(error) bool
	// Fault is called with the error of a part that has ended, and with nil when it is started
	// again. It may be nil.
	Fault func(part string, err error)
	// Notify sends a state to systemd; nil when systemd does not listen.
	Notify func(state string) error
	// Watchdog is the time within which systemd wants a sign of life; 0 is never.
	Watchdog time.Duration
	// StopLimit is how long the parts may take to end; 0 is as long as they need.
	StopLimit time.Duration
	// Ended is called once all parts have ended. It may be nil.
	Ended func()
}

// Run runs the parts until the context ends, which is not an error. Another one is that of a part
// that makes the life hopeless, or that the parts did not end in time.
func (l *Life) Run(ctx context.Context) error {
	var running sync.WaitGroup
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, p := range l.Parts {
		running.Go(func() { l.keep(ctx, stop, p) })
	}
	l.Send("READY=1")
	if l.Watchdog > 0 {
		running.Go(func() { l.watchdog(ctx) })
	}
	<-ctx.Done()
	l.Send("STOPPING=1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
		if l.Ended != nil {
			l.Ended()
		}
	}()
	var limit <-chan time.Time
	if l.StopLimit > 0 {
		timer := time.NewTimer(l.StopLimit)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-ended:
	case <-limit:
		return errSlow
	}
	if cause := context.Cause(ctx); l.hopeless(cause) {
		return cause
	}
	return nil
}

func (l *Life) hopeless(err error) bool { return err != nil && l.Hopeless != nil && l.Hopeless(err) }

// keep runs a part, and again whenever it ends.
func (l *Life) keep(ctx context.Context, stop context.CancelCauseFunc, p Part) {
	pause := backoff.Backoff{Min: pauseMin, Max: pauseMax, Floor: 0.5}
	for {
		began := l.Now()
		err := p.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.hopeless(err) {
			stop(err)
			return
		}
		if l.Now().Sub(began) > steady {
			pause.Reset()
		}
		wait := pause.Next()
		l.Logger.Error("part of the agent ended and is started again", "part", p.Name, "error", err, "next", wait.Round(time.Millisecond))
		l.fault(p.Name, err)
		if backoff.Wait(ctx, wait) != nil {
			return
		}
		l.fault(p.Name, nil)
	}
}

func (l *Life) fault(part string, err error) {
	if l.Fault != nil {
		l.Fault(part, err)
	}
}

// Send sends a state to systemd and says whether that worked, or systemd does not listen. That it
// did not work is no reason to stop.
func (l *Life) Send(state string) bool {
	if l.Notify == nil {
		return true
	}
	if err := l.Notify(state); err != nil {
		l.Logger.Debug("systemd cannot be notified", "state", state, "error", err)
		return false
	}
	return true
}

// watchdog gives signs of life as long as each part that can be asked gives them.
func (l *Life) watchdog(ctx context.Context) {
	for {
		silent := l.silent(ctx)
		if len(silent) == 0 {
			l.Send("WATCHDOG=1")
		} else if ctx.Err() == nil {
			l.Logger.Error("parts of the agent give no sign of life, systemd will start it again", "parts", silent)
		}
		if backoff.Wait(ctx, l.Watchdog/3) != nil {
			return
		}
	}
}

// silent names the parts that give no sign of life.
func (l *Life) silent(ctx context.Context) []string {
	var silent []string
	for _, p := range l.Parts {
		if p.Alive != nil && !p.Alive(ctx) {
			silent = append(silent, p.Name)
		}
	}
	return silent
}
