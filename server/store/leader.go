package store

// This file holds leadership: one holder of a name at a time, and writes that only the
// holder can do.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	key      string               // the leader's key in etcd
	revision int64                // its create revision, which no later leader has
	session  *concurrency.Session // keeps the lease, without which etcd deletes the key

	lostOnce sync.Once
	lost     chan struct{}
}

// leaderships are the elections that this store has won and not given back, and the
// leases of those and of the campaigns under way.
type leaderships struct {
	mu     sync.Mutex
	byKey  map[string]*Leadership
	leases map[clientv3.LeaseID]struct{}
	closed bool // no campaign is won any more
	// standing are the candidacies of all servers.
	standing candidates
}

func newLeaderships() *leaderships {
	return &leaderships{byKey: make(map[string]*Leadership), leases: make(map[clientv3.LeaseID]struct{})}
}

func (ls *leaderships) addLease(id clientv3.LeaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.leases[id] = struct{}{}
}

func (ls *leaderships) removeLease(id clientv3.LeaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.leases, id)
}

// add is false when the store closes: the leadership is over before it began.
func (ls *leaderships) add(l *Leadership) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.closed {
		ls.byKey[l.key] = l
	}
	return !ls.closed
}

func (ls *leaderships) remove(l *Leadership) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.byKey, l.key)
}

// changed takes an event of a leader's key, and does nothing with others. The holder of one that is gone is told.
func (ls *leaderships) changed(e *clientv3.Event) {
	key := string(e.Kv.Key)
	if !strings.HasPrefix(key, leadersPrefix) {
		return
	}
	if e.Type == clientv3.EventTypePut {
		ls.standing.Put(key, candidacy{Identity: string(e.Kv.Value), Made: e.Kv.CreateRevision})
		return
	}
	ls.standing.Delete(key)
	ls.mu.Lock()
	l := ls.byKey[key]
	ls.mu.Unlock()
	if l != nil {
		l.lose()
	}
}

// giveBack ends leaderships and campaigns while the store closes, so that no server has to
// wait for their leases to end.
func (s *Store) giveBack() {
	s.leaders.mu.Lock()
	s.leaders.closed = true
	leaders := slices.Collect(maps.Values(s.leaders.byKey))
	leases := slices.Collect(maps.Keys(s.leaders.leases))
	s.leaders.mu.Unlock()
	for _, l := range leaders {
		l.lose()
	}
	ctx, cancel := context.WithTimeout(s.ctx, resignTimeout)
	defer cancel()
	for _, id := range leases {
		if _, err := s.client.Revoke(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			s.log.Warn("giving a leadership back failed: the next leader has to wait for its lease to end", "error", err)
		}
	}
}

// Campaign blocks until identity leads name, or ctx ends. Each call stands for itself,
// also with the same identity. The leadership does not end with ctx. Its errors are that of ctx and ErrClosed.
func (s *Store) Campaign(ctx context.Context, name, identity string) (*Leadership, error) {
	l, err := s.campaign(ctx, name, identity)
	if err != nil {
		return nil, fmt.Errorf("campaign for %q: %w", name, err)
	}
	if !s.leaders.add(l) || !s.run(l.watch) {
		l.lose()
		return nil, fmt.Errorf("campaign for %q: %w", name, ErrClosed)
	}
	// The view reports of the deletion of a leader's key only what comes after add, so one
	// that came before it is looked for.
	response, err := s.client.Get(ctx, l.key, clientv3.WithKeysOnly())
	if err == nil && (len(response.Kvs) == 0 || response.Kvs[0].CreateRevision != l.revision) {
		l.lose()
	}
	return l, nil
}

// Leader is the identity of who leads name, as far as the view has come; empty when none does, or when that is not known yet.
func (s *Store) Leader(name string) string {
	return s.leaders.standing.Leader(leadersPrefix + name + "/")
}

// OnLeader has f called after a candidacy came or went. f must not block.
func (s *Store) OnLeader(f func()) { s.leaders.standing.Observe(f) }

// readLeaders looks at all candidacies anew.
func (s *Store) readLeaders(ctx context.Context) error {
	kvs, _, err := s.readAll(ctx, leadersPrefix)
	if err != nil {
		return err
	}
	all := map[string]candidacy{}
	for _, kv := range kvs {
		all[string(kv.Key)] = candidacy{Identity: string(kv.Value), Made: kv.CreateRevision}
	}
	s.leaders.standing.Replace(all)
	return nil
}

func (s *Store) campaign(ctx context.Context, name, identity string) (*Leadership, error) {
	if err := checkKey(name); err != nil {
		return nil, err
	}
	if strings.Contains(name, "/") {
		return nil, errors.New("the name of a leadership holds no slash, which would make it part of another")
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	lease, err := s.client.Grant(ctx, leaseTTL)
	if err != nil {
		return nil, fmt.Errorf("get a lease from etcd: %w", err)
	}
	s.leaders.addLease(lease.ID)
	session, err := concurrency.NewSession(s.client, concurrency.WithLease(lease.ID), concurrency.WithContext(s.ctx))
	if err != nil {
		s.leaders.removeLease(lease.ID)
		return nil, fmt.Errorf("keep the lease from etcd: %w", err)
	}
	election := concurrency.NewElection(session, leadersPrefix+name)
	abandon := func() {
		_ = session.Close() // where this fails etcd ends the lease by itself
		s.leaders.removeLease(lease.ID)
	}
	// In its own goroutine, since taking a candidacy back waits for etcd as long as it
	// takes, also after ctx has ended.
	won := make(chan error, 1)
	if !s.run(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		err := election.Campaign(ctx, identity)
		if err != nil {
			abandon()
		}
		won <- err
	}) {
		return nil, ErrClosed
	}
	select {
	case err = <-won:
	case <-ctx.Done():
		err = ctx.Err()
		s.run(func() {
			if <-won == nil { // at the last moment
				abandon()
			}
		})
	case <-s.alive.Done():
		err = s.Err()
	}
	if err != nil {
		return nil, err
	}
	return &Leadership{
		store: s, name: name, identity: identity, key: election.Key(), revision: election.Rev(),
		session: session, lost: make(chan struct{}),
	}, nil
}

// watch waits for the end of the leadership.
func (l *Leadership) watch() {
	select {
	case <-l.session.Done():
	case <-l.lost:
	case <-l.store.alive.Done():
	}
	l.lose()
}

// Lost is closed when the leadership is over, also by Resign.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

func (l *Leadership) lose() {
	l.lostOnce.Do(func() {
		l.store.leaders.remove(l)
		close(l.lost)
	})
}

// Resign gives the leadership back, so that the next candidate has it at once. A leadership that is over already is no error.
func (l *Leadership) Resign(ctx context.Context) error {
	l.lose()
	l.session.Orphan()
	defer l.store.leaders.removeLease(l.session.Lease())
	if _, err := l.store.client.Revoke(ctx, l.session.Lease()); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("resign from %q: the next leader has to wait up to %d seconds: %w", l.name, leaseTTL, err)
	}
	return nil
}

// dropOldLeaders ends the leaderships of earlier processes. With the embedded etcd the
// lock on the data directory proves that they are gone, so no server need wait until their
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
// transaction, that l is still the leader: *DeposedError when it is not. A nil l lets
// nothing be written.
func Fenced(ctx context.Context, l *Leadership) context.Context {
	return context.WithValue(ctx, fenceKey{}, l)
}

// fenceOf is the leadership that writes below ctx are bound to; false when there is none.
func fenceOf(ctx context.Context) (*Leadership, bool) {
	l, fenced := ctx.Value(fenceKey{}).(*Leadership)
	return l, fenced
}

// holds refuses what need not be tried: a leadership that is known to be over.
func (l *Leadership) holds(s *Store) error {
	if l == nil {
		return errors.New("write to the store: the write is fenced by no leadership")
	}
	if l.store != s {
		return fmt.Errorf("write to the store: the leadership %q is of another store", l.name)
	}
	if isClosed(l.lost) {
		return &DeposedError{Name: l.name, Identity: l.identity}
	}
	return nil
}

// candidacy is one server's.
type candidacy struct {
	// Identity is who stands, and Made the revision at which they began to, which is above zero.
	Identity string
	Made     int64
}

// candidates is all candidacies by their keys. Its zero value is empty and ready for use.
type candidates struct {
	mu        sync.Mutex
	all       map[string]candidacy
	observers []func()
}

// Leader is the identity of who leads among those whose keys begin with a prefix; empty for none.
func (s *candidates) Leader(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := candidacy{}
	for key, one := range s.all {
		if strings.HasPrefix(key, prefix) && (first.Made == 0 || one.Made < first.Made) {
			first = one
		}
	}
	return first.Identity
}

// Observe has f called after each change. f must not block.
func (s *candidates) Observe(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, f)
}

// Put adds one, or changes it.
func (s *candidates) Put(key string, one candidacy) {
	s.change(func() {
		if s.all == nil {
			s.all = map[string]candidacy{}
		}
		s.all[key] = one
	})
}

// Delete takes one away.
func (s *candidates) Delete(key string) { s.change(func() { delete(s.all, key) }) }

// Replace makes it these.
func (s *candidates) Replace(all map[string]candidacy) { s.change(func() { s.all = maps.Clone(all) }) }

func (s *candidates) change(do func()) {
	s.mu.Lock()
	do()
	observers := slices.Clone(s.observers)
	s.mu.Unlock()
	for _, f := range observers {
		f()
	}
}
