package store

// This file holds leadership: one holder of a name at a time, and writes that only the
// holder can do.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	// leaseTTL is how long a leader that vanished is waited for, in seconds.
	leaseTTL = 10
	// resignTimeout bounds giving a leadership back while the store closes.
	resignTimeout = 2 * time.Second
)

// Leadership is a won election. It ends by Resign, by Close, or when it is lost.
type Leadership struct {
	store    *Store
	name     string
	identity string
	key      string // the leader's key in etcd
	revision int64  // its create revision, which no later leader has
	session  *concurrency.Session
	election *concurrency.Election

	lostOnce sync.Once
	lost     chan struct{}
}

// leaderships are the elections that this store has won and not given back.
type leaderships struct {
	mu    sync.Mutex
	byKey map[string]*Leadership
}

func (ls *leaderships) add(l *Leadership) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byKey == nil {
		ls.byKey = make(map[string]*Leadership)
	}
	ls.byKey[l.key] = l
}

func (ls *leaderships) remove(l *Leadership) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.byKey, l.key)
}

// deleted tells the holder of a leader's key that it is gone.
func (ls *leaderships) deleted(key string) {
	ls.mu.Lock()
	l := ls.byKey[key]
	ls.mu.Unlock()
	if l != nil {
		l.lose()
	}
}

func (ls *leaderships) resignAll() {
	ls.mu.Lock()
	var all []*Leadership
	for _, l := range ls.byKey {
		all = append(all, l)
	}
	ls.mu.Unlock()
	for _, l := range all {
		ctx, cancel := context.WithTimeout(l.store.ctx, resignTimeout)
		_ = l.Resign(ctx)
		cancel()
	}
}

// Campaign blocks until identity leads name, or ctx ends. Each call stands for itself,
// also with the same identity. The leadership does not end with ctx.
func (s *Store) Campaign(ctx context.Context, name, identity string) (*Leadership, error) {
	if err := checkKey(name); err != nil {
		return nil, fmt.Errorf("campaign for %q: %w", name, err)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("campaign for %q: %w", name, err)
	}
	session, err := concurrency.NewSession(s.client, concurrency.WithTTL(leaseTTL), concurrency.WithContext(s.ctx))
	if err != nil {
		return nil, fmt.Errorf("campaign for %q: open a session with etcd: %w", name, err)
	}
	election := concurrency.NewElection(session, leadersPrefix+name)
	if err := election.Campaign(ctx, identity); err != nil {
		_ = session.Close()
		return nil, fmt.Errorf("campaign for %q: %w", name, err)
	}
	l := &Leadership{
		store: s, name: name, identity: identity, key: election.Key(), revision: election.Rev(),
		session: session, election: election, lost: make(chan struct{}),
	}
	s.leaders.add(l)
	if !s.run(func() {
		select {
		case <-session.Done():
		case <-l.lost:
		case <-s.failed:
		case <-s.ctx.Done():
		}
		l.lose()
	}) {
		l.lose()
		return nil, fmt.Errorf("campaign for %q: %w", name, ErrClosed)
	}
	return l, nil
}

// Lost is closed when the leadership is over, also by Resign.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

func (l *Leadership) lose() {
	l.lostOnce.Do(func() {
		l.store.leaders.remove(l)
		close(l.lost)
	})
}

// Resign gives the leadership back, so that the next candidate has it at once.
func (l *Leadership) Resign(ctx context.Context) error {
	l.lose()
	err := l.election.Resign(ctx)
	if err := errors.Join(err, l.session.Close()); err != nil {
		return fmt.Errorf("resign from %q: the next leader has to wait up to %d seconds: %w", l.name, leaseTTL, err)
	}
	return nil
}

// dropOldLeaders ends the leaderships of earlier processes. With the embedded etcd the
// lock on the data directory proves that they are gone, so nobody need wait until their
// leases end.
func (s *Store) dropOldLeaders(ctx context.Context) error {
	if len(s.options.Endpoints) > 0 {
		return nil
	}
	leases, err := s.client.Leases(ctx)
	if err != nil {
		return fmt.Errorf("look for the leases of an earlier server: %w", err)
	}
	for _, lease := range leases.Leases {
		if _, err := s.client.Revoke(ctx, lease.ID); err != nil {
			return fmt.Errorf("end the lease of an earlier server: %w", err)
		}
	}
	// A leader's key without a lease cannot be, but would block for ever.
	if _, err := s.client.Delete(ctx, leadersPrefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("end the leadership of an earlier server: %w", err)
	}
	return nil
}

type fenceKey struct{}

// Fenced is a context below which every write to the store has, as a condition of its
// transaction, that l is still the leader: *DeposedError when it is not.
func Fenced(ctx context.Context, l *Leadership) context.Context {
	return context.WithValue(ctx, fenceKey{}, l)
}

func fenceOf(ctx context.Context) *Leadership {
	l, _ := ctx.Value(fenceKey{}).(*Leadership)
	return l
}
