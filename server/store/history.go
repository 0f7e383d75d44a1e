package store

// This file holds how much history etcd keeps. The embedded one keeps by itself what was written in so many revisions,
// and looks every five minutes: thousands of hosts that report have written each of their documents several times by
// then, and the database file, which is mapped into memory, has grown by all of it for good. So history is dropped by
// its size, too. An external one keeps all of it where its owner does not say otherwise, until it is full: as
// Kubernetes does with its etcd, what is minutes old is dropped.

import (
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// historyBytes is how many bytes of records are written between two compactions. What was written since the one before
// the last stays, for a view that is behind: between once and twice as much.
const historyBytes = 16 << 20

// historyAge is the time between two compactions of an external etcd, of which the same is true.
const historyAge = 5 * time.Minute

// history counts what is written.
type history struct {
	limit      int           // bytes; 0 drops by age
	age        time.Duration // between two compactions
	mu         sync.Mutex
	bytes      int       // since the last compaction began
	began      time.Time // when that was
	since      int64     // the revision then, up to which the next one drops; 0 before the first
	compacting bool
}

// due adds a write, and says up to which revision history is to be dropped now; 0 for not at all.
func (h *history) due(bytes int, revision int64, now time.Time) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += bytes
	if h.bytes < h.limit || h.limit == 0 && now.Sub(h.began) < h.age || h.compacting {
		return 0
	}
	upTo := h.since
	h.bytes, h.since, h.began = 0, revision, now
	h.compacting = upTo > 0
	return upTo
}

func (h *history) done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.compacting = false
}

// wrote has history dropped when enough was written. The view has reached the revision, and every one before.
func (s *Store) wrote(bytes int, revision int64) {
	upTo := s.history.due(bytes, revision, time.Now())
	if upTo == 0 {
		return
	}
	s.run(func() {
		defer s.history.done()
		_, err := s.client.Compact(s.alive, upTo, clientv3.WithCompactPhysical())
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) && s.alive.Err() == nil {
			s.log.Warn("old revisions could not be dropped from etcd: its database grows until they are, by the server or by its own --auto-compaction-retention", "revision", upTo, "error", err)
		}
	})
}
