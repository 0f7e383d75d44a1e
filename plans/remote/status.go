// How a source stands, kept for the code that shows it to people.

package remote

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

// Status is how a source stands, for people.
type Status struct {
	// Connected says that the watch is open, or why it is not: since when, by what error, and
	// when it is tried next.
	Connected bool
	Since     time.Time
	Cause     error
	Next      time.Time
	// Doing is what the source does or waits for, and since when.
	Doing      string
	DoingSince time.Time
	// Checksum is that of the plan it is about; empty when there is none.
	Checksum string
	// Unwritten is why the server does not take what is to be written; nil when there is no
	// such trouble.
	Unwritten error
}

// String is the status in one line.
func (s Status) String() string {
	doing := s.Doing
	if s.Unwritten != nil {
		doing = fmt.Sprintf("%s since %s: %v, tried again", doing, s.DoingSince.UTC().Format(time.RFC3339), s.Unwritten)
	}
	if s.Connected || s.Since.IsZero() {
		return doing
	}
	why := "connecting to the server"
	if s.Cause != nil {
		why = s.Cause.Error()
	}
	return fmt.Sprintf("%s; not connected since %s: %s", doing, s.Since.UTC().Format(time.RFC3339), why)
}

func (s *Source) doing(checksum, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.change(func(st *Status) bool {
		if st.Doing == text && st.Checksum == checksum {
			return false
		}
		st.Doing, st.DoingSince, st.Checksum = text, s.o.Now(), checksum
		return true
	})
}

// unwritten keeps why a write is not taken; nil says that it was.
func (s *Source) unwritten(err error) {
	s.change(func(st *Status) bool {
		if err == nil && st.Unwritten == nil {
			return false
		}
		st.Unwritten = err
		return true
	})
}

// unwatched is what is logged of a watch that is not open.
const unwatched = "plan Secret cannot be watched"

func (s *Source) connected() {
	s.change(func(st *Status) bool {
		if st.Connected {
			return false
		}
		log := s.aboutSecret()
		if !st.Since.IsZero() {
			log = log.With("after", s.o.Now().Sub(st.Since).Round(time.Millisecond))
		}
		// Between warnings that are summed, one that breaks a moment later is not worth a line.
		say := log.Debug
		if s.down.IsZero() || s.warned {
			say = log.Info
		}
		say("plan Secret is watched")
		s.warned = false
		st.Connected, st.Since, st.Cause, st.Next = true, s.o.Now(), nil, time.Time{}
		return true
	})
}

func (s *Source) disconnected(err error, next time.Duration) {
	s.change(func(st *Status) bool {
		switch now := s.o.Now(); {
		case st.Connected && !s.down.IsZero() && now.Sub(st.Since) < steadyWatch:
			st.Connected, st.Since = false, s.down // a moment in between is not the end of the trouble
		case st.Connected || st.Since.IsZero():
			s.warnings.Over(unwatched) // what stood for a while ends the row
			st.Connected, st.Since = false, now
		}
		s.down = st.Since
		st.Cause, st.Next = err, s.o.Now().Add(next)
		if s.warnings.Log(s.aboutSecret(), backoff.Warning{Message: unwatched, Err: err, Since: st.Since, Next: next}, s.o.Now()) {
			s.warned = true
		}
		return true
	})
}

// renewed says that the watch begins anew, which is not trouble.
func (s *Source) renewed() {
	s.aboutSecret().Info("plan Secret is watched anew, as the server's history ended before the last known version")
}

// warn logs a trouble that is tried again, see warnings.
func (s *Source) warn(message string, err error, since time.Time, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings.Log(s.aboutSecret(), backoff.Warning{Message: message, Err: err, Since: since, Next: next}, s.o.Now())
}

// over says that a trouble is over.
func (s *Source) over(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings.Over(message)
}

// aboutSecret is the log of what has to do with the server and not with a plan.
func (s *Source) aboutSecret() *slog.Logger {
	return s.o.Logger.With("secret", s.o.Namespace+"/"+s.o.SecretName, "server", s.o.Access.Server.Redacted())
}

// change makes a change of the status known when there is one. Calls of Changed are in order.
func (s *Source) change(f func(*Status) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f(&s.status) && s.o.Changed != nil {
		s.o.Changed(s.status)
	}
}

// Status is how the source stands now.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}
