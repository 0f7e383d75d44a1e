// Writing own keys into a Secret that the server may change at the same time.

package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/plans"
)

// supersededError says that a write was not made, as the Secret is about something else by now.
type supersededError struct{ what string }

func (e *supersededError) Error() string { return e.what }

// store writes keys into the Secret until they are there. Each try is made on the newest
// version known and only if that fits, so that a newer plan is never written over.
// Errors are *supersededError, the context's, and a *StatusError that makes further tries useless.
func (s *Source) store(ctx context.Context, keys map[string][]byte, fits func(fresh *Secret) bool) error {
	pause, began := s.pace.row(s.o.Now), s.o.Now()
	defer s.unwritten(nil)
	defer s.over("plan Secret cannot be written")
	for conflicts := 0; ; {
		err := s.try(ctx, keys, fits)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case isSuperseded(err) || tooLarge(err):
			return err
		case code(err) == http.StatusConflict && conflicts < 5:
			conflicts++
			continue
		}
		wait := max(pause.After(err), retryAfter(err))
		s.warn("plan Secret cannot be written", err, began, wait)
		s.unwritten(err)
		if err := s.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// try is one try. After a conflict the newest version is read, so that the next has a chance.
func (s *Source) try(ctx context.Context, keys map[string][]byte, fits func(fresh *Secret) bool) error {
	base := s.current
	switch {
	case base == nil:
		return &supersededError{"the plan Secret is gone"}
	case base.holds(keys):
		return nil // a write whose answer was lost
	case !fits(base):
		if err := s.look(ctx); err != nil { // the watch may be behind
			return fmt.Errorf("read the plan Secret: %w", err)
		}
		if base = s.current; base == nil || !fits(base) {
			return &supersededError{"the plan Secret has moved on"}
		}
	}
	stored, err := s.client.put(ctx, base.with(plans.MergeAgentKeys(base.Data, keys)))
	if err == nil {
		if !s.Status().Connected {
			s.Wake()
		}
		s.learn(stored)
		s.memory.Wrote = stored.ResourceVersion
		return nil
	}
	if c := code(err); c != http.StatusConflict && c != http.StatusNotFound {
		return err
	}
	if lookErr := s.look(ctx); lookErr != nil {
		return fmt.Errorf("read the plan Secret after a conflict: %w", lookErr)
	}
	return err
}

// pause waits, or less when the watch brings a newer version.
func (s *Source) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		s.pulse.Turn()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		case <-s.pulse.Asked():
		case n := <-s.mail:
			s.observe(ctx, n)
			return nil
		case <-s.updates:
		}
	}
}

func isSuperseded(err error) bool {
	var newer *supersededError
	return errors.As(err, &newer)
}

// tooLarge says whether the server finds the Secret too large. Kubernetes answers 422 to
// data beyond 1 MiB and 413 to a request beyond its limit.
func tooLarge(err error) bool {
	c := code(err)
	return c == http.StatusRequestEntityTooLarge || c == http.StatusUnprocessableEntity
}

func retryAfter(err error) time.Duration {
	var answer *StatusError
	if errors.As(err, &answer) {
		return answer.RetryAfter
	}
	return 0
}
