package store

// This file holds whether the view may be behind an external etcd. The embedded one is in
// this process and always heard of.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// askEvery is how often the view is compared with etcd.
	askEvery = 2 * time.Second
	// staleAfter is how long the view may not be known to be complete until it counts as stale.
	staleAfter = 10 * time.Second
	// writeLimit bounds a Commit, and CatchUp before it: who waits for it has to be answered some time.
	writeLimit = 15 * time.Second
)

// errCatchUpLimit is why CatchUp was given up.
var errCatchUpLimit = errors.New("etcd has changes that have not arrived here in time")

// errWriteLimit is why a Commit that took too long was given up.
var errWriteLimit = errors.New("etcd did not answer in time; whether this was written is not known")

// contact is when the view was known to be complete.
type contact struct {
	upTo      progress // what the watch said that it is complete up to
	mu        sync.Mutex
	last      time.Time
	stale     bool
	observers []func()
}

// heard is that the watch is complete up to a revision.
func (c *contact) heard(revision int64) {
	c.mu.Lock()
	c.last = time.Now()
	c.mu.Unlock()
	c.upTo.advance(revision)
}

// complete says whether the view, or the watch, had all of what etcd had at a moment.
func (c *contact) complete(etcd, view int64, at time.Time) bool {
	if etcd > max(view, c.upTo.reached()) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.last) {
		c.last = at
	}
	return true
}

// Stale says whether the view in memory may be behind etcd by more than ten seconds, and
// since when it may be: what was revoked since then is not seen.
func (s *Store) Stale() (since time.Time, stale bool) {
	if len(s.options.Endpoints) == 0 {
		return time.Time{}, false
	}
	s.contact.mu.Lock()
	defer s.contact.mu.Unlock()
	return s.contact.last, time.Since(s.contact.last) > s.options.staleAfter
}

// CatchUp waits until the view has what an external etcd had when it was called, so that what is decided
// next is not decided on what others have changed since: a server that was cut off for a moment, and is
// not stale yet, answers reads before it has heard everything. It gives up when a Commit does. The
// embedded etcd has no other writers.
func (s *Store) CatchUp(ctx context.Context) error {
	if len(s.options.Endpoints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.writeLimit, errCatchUpLimit)
	defer cancel()
	answer, err := s.client.Get(ctx, schemaKey, clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("ask etcd for its revision: %w", err)
	}
	heard := s.contact.upTo.at(answer.Header.Revision)
	if heard == nil {
		return nil
	}
	// For what others than drover have written there, which the watch is silent about. Where the watch is
	// just being opened again this fails, and the wait goes on all the same.
	if err := s.client.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil && ctx.Err() == nil {
		s.log.Debug("etcd could not be asked for the progress of the watch", "error", err)
	}
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for revision %d of etcd: %w", answer.Header.Revision, context.Cause(ctx))
	case <-s.alive.Done():
		return s.Err()
	}
}

// OnStale calls f when the view becomes stale. f must not block.
func (s *Store) OnStale(f func()) {
	s.contact.mu.Lock()
	defer s.contact.mu.Unlock()
	s.contact.observers = append(s.contact.observers, f)
}

// keepContact looks after the contact with an external etcd until the store ends.
func (s *Store) keepContact() {
	ticker := time.NewTicker(s.options.staleAfter / 10)
	defer ticker.Stop()
	for {
		select {
		case <-s.alive.Done():
			return
		case <-ticker.C:
		}
		since, stale := s.Stale()
		s.contact.mu.Lock()
		changed, observers := stale != s.contact.stale, s.contact.observers
		s.contact.stale = stale
		s.contact.mu.Unlock()
		switch {
		case changed && stale:
			s.log.Error("cut off from etcd: this server is not ready and serves no administrators until etcd answers", "since", since)
			for _, f := range observers {
				f()
			}
		case changed:
			s.log.Info("etcd answers again")
		}
	}
}

// ask compares the view with etcd now and then, while the watch of ctx lasts.
func (s *Store) ask(ctx context.Context) {
	every := min(askEvery, s.options.staleAfter/4)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, every)
		answer, err := s.client.Get(limited, schemaKey, clientv3.WithKeysOnly())
		cancel()
		if err != nil {
			continue // who is stale says so
		}
		if s.contact.complete(answer.Header.Revision, s.Revision(), began) {
			continue
		}
		// Either changes are on their way, or they are of keys that are not drover's. etcd answers
		// this on the watch when it is complete; it does not while nothing has changed at all.
		if err := s.client.RequestProgress(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("etcd could not be asked for the progress of the watch", "error", err)
		}
	}
}
