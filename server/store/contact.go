package store

// This file holds whether the view may be behind an external etcd, and how writers wait for it. The embedded one is in
// this process and always heard of.

import (
	"context"
	"errors"
	"fmt"
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

// Stale says whether the view in memory may be behind etcd by more than ten seconds, and
// since when it may be: what was revoked since then is not seen.
func (s *Store) Stale() (since time.Time, stale bool) {
	if len(s.options.Endpoints) == 0 {
		return time.Time{}, false
	}
	since = s.contact.Last()
	return since, time.Since(since) > s.options.staleAfter
}

// CatchUp waits until the view has what an external etcd had when it was called, so that what is decided
// next is not decided on what others have changed since: a server that was cut off for a moment, and is
// not stale yet, answers reads before it has heard everything. It gives up when a Commit does. The
// embedded etcd has no other writers. It ends with the error of ctx, or of an etcd that cannot be reached.
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
	heard := s.contact.UpTo.At(answer.Header.Revision)
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

// await waits until the view has reached a revision.
func (s *Store) await(ctx context.Context, revision int64) error {
	reached := s.view.At(revision)
	if reached == nil {
		return nil
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for revision %d: %w", revision, ctx.Err())
	case <-s.alive.Done():
		return s.Err()
	}
}

// OnStale calls f when the view becomes stale. f must not block.
func (s *Store) OnStale(f func()) { s.contact.OnStale(f) }

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
		switch changed := s.contact.Found(stale); {
		case changed && stale:
			s.log.Error("cut off from etcd: this server is not ready and serves no administrators until etcd answers", "since", since)
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
		if s.contact.Complete(answer.Header.Revision, s.Revision(), began) {
			continue
		}
		// Either changes are on their way, or they are of keys that are not drover's. etcd answers
		// this on the watch when it is complete; it does not while nothing has changed at all.
		if err := s.client.RequestProgress(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("etcd could not be asked for the progress of the watch", "error", err)
		}
	}
}
