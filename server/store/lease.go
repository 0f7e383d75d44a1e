package store

// This file holds documents that live no longer than the server that wrote them.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Lease is a sign of life. The documents written under it go when it ends: by End, by
// Close, or some seconds after the process vanished.
type Lease struct {
	store   *Store
	session *concurrency.Session
	id      clientv3.LeaseID
}

// NewLease begins a lease that outlives a vanished process by ttl, in whole seconds. Its errors are etcd's.
func (s *Store) NewLease(ctx context.Context, ttl time.Duration) (*Lease, error) {
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("begin a lease: %w", err)
	}
	granted, err := s.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, fmt.Errorf("begin a lease: %w", err)
	}
	// Close ends it like those of leaders.
	s.leaders.addLease(granted.ID)
	session, err := concurrency.NewSession(s.client, concurrency.WithLease(granted.ID), concurrency.WithContext(s.ctx))
	if err != nil {
		s.leaders.removeLease(granted.ID)
		return nil, fmt.Errorf("keep a lease: %w", err)
	}
	return &Lease{store: s, session: session, id: granted.ID}, nil
}

// Lost is closed when the lease has ended or could not be kept.
func (l *Lease) Lost() <-chan struct{} { return l.session.Done() }

// End takes the lease's documents away at once. A lease that is over already is no error.
func (l *Lease) End(ctx context.Context) error {
	l.session.Orphan()
	defer l.store.leaders.removeLease(l.id)
	if _, err := l.store.client.Revoke(ctx, l.id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("end a lease: %w", err)
	}
	return nil
}

// Under binds what the op writes to the lease. A commit fails when the lease is over.
func (op Op) Under(l *Lease) Op {
	op.lease = l
	return op
}

func (op Op) putOptions() []clientv3.OpOption {
	if op.lease == nil {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithLease(op.lease.id)}
}
