package store

// This file holds group commits: writes that are asked for while another is under way wait
// for its end and then go to etcd together, each as a transaction of its own inside one.
// A write that comes alone is not kept waiting. What one transaction costs (a proposal of
// raft, an entry and a sync of the log, a message of the watch) is then shared by many, where
// thousands of agents report at once.
//
// Writes of one group get the same revision, as those of one Commit do.

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Bounds of a group. An etcd that is not tuned takes 128 operations of a transaction, in
// which an inner one and the group's size count together, and 1.5 MiB.
const (
	maxGroup      = 32      // transactions
	maxGroupOps   = 16      // of each
	maxGroupBytes = 1 << 20 // of records, together
)

// waiting is a transaction that waits for its turn.
type waiting struct {
	transaction
	ctx       context.Context //nolint:containedctx // of who waits
	done      chan struct{}
	revision  int64 // of the whole group
	succeeded bool
	responses []*pb.ResponseOp
	err       error
}

// small says whether a transaction may share a group. One below a lease may not: when the
// lease is gone, etcd refuses the whole group.
func (t *transaction) small() bool {
	return !t.leased && len(t.conditions) <= maxGroupOps && len(t.reads) <= maxGroupOps && t.bytes <= maxGroupBytes
}

// send sends a transaction to etcd, alone or in a group.
func (s *Store) send(ctx context.Context, t transaction) (*waiting, error) {
	w := &waiting{transaction: t, ctx: ctx, done: make(chan struct{})}
	if !t.small() {
		s.alone(ctx, w)
		return w, w.err
	}
	s.groupLock.Lock()
	if s.groupBusy {
		s.queue = append(s.queue, w)
		s.groupLock.Unlock()
		select {
		case <-w.done:
			return w, w.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.groupBusy = true
	s.groupLock.Unlock()
	s.alone(ctx, w)
	s.groupLock.Lock()
	s.groupBusy = len(s.queue) > 0 && s.run(s.drain) // a store that is closed lets no writer wait
	s.groupLock.Unlock()
	return w, w.err
}

// alone performs one transaction by itself.
func (s *Store) alone(ctx context.Context, w *waiting) {
	response, err := s.client.Txn(ctx).If(w.conditions...).Then(w.writes...).Else(w.reads...).Commit()
	if w.err = err; err == nil {
		w.revision, w.succeeded, w.responses = response.Header.Revision, response.Succeeded, response.Responses
	}
}

// drain performs what waits, group after group, until nothing does.
func (s *Store) drain() {
	for {
		group := s.nextGroup()
		if len(group) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(s.alive, s.options.writeLimit)
		s.together(ctx, group)
		cancel()
		for _, w := range group {
			close(w.done)
		}
	}
}

// nextGroup takes from the queue what may go together: no two writes of one document. What
// no caller waits for any more is dropped: its writer was notified that it failed, perhaps long ago,
// and a store that is cut off must not gather such writes and perform them when it is back.
func (s *Store) nextGroup() (group []*waiting) {
	s.groupLock.Lock()
	defer s.groupLock.Unlock()
	keys := make(map[string]struct{})
	bytes := 0
	rest := s.queue[:0]
	for _, w := range s.queue {
		if w.ctx.Err() != nil {
			continue
		}
		if len(group) == maxGroup || bytes+w.bytes > maxGroupBytes && len(group) > 0 || overlaps(keys, w.keys) {
			rest = append(rest, w)
			continue
		}
		for key := range w.keys {
			keys[key] = struct{}{}
		}
		bytes += w.bytes
		group = append(group, w)
	}
	clear(s.queue[len(rest):])
	s.queue = rest
	s.groupBusy = len(group) > 0
	return group
}

func overlaps(keys, others map[string]struct{}) bool {
	for key := range others {
		if _, ok := keys[key]; ok {
			return true
		}
	}
	return false
}

// together performs transactions as one whose parts succeed or fail by themselves.
func (s *Store) together(ctx context.Context, group []*waiting) {
	if len(group) == 1 {
		s.alone(ctx, group[0])
		return
	}
	inner := make([]clientv3.Op, len(group))
	for i, w := range group {
		inner[i] = clientv3.OpTxn(w.conditions, w.writes, w.reads)
	}
	response, err := s.client.Txn(ctx).Then(inner...).Commit()
	for i, w := range group {
		if w.err = err; err == nil {
			part := response.Responses[i].GetResponseTxn()
			w.revision, w.succeeded, w.responses = response.Header.Revision, part.Succeeded, part.Responses
		}
	}
}
