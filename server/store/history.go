package store

// This file holds how much history etcd keeps. The embedded one keeps by itself what was written in so many revisions,
// and looks every five minutes: thousands of hosts that report have written each of their documents several times by
// then, and the database file, which is mapped into memory, has grown by all of it for good. So history is dropped by
// its size, too. An external one keeps all of it where its owner does not say otherwise, until it is full: as
// Kubernetes does with its etcd, what is minutes old is dropped.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// PastChange is a change of a document that observers have not seen.
type PastChange struct {
	Collection, Key string
	Revision        int64
	// Created says that the document was not there before. Removed is the last value of one that was removed, as its collection has them.
	Created bool
	Removed any
	removed bool
}

const (
	// pastKept is how many revisions of the past are read: etcd gives a thousand of them every 100 ms, and has all of those in memory.
	pastKept = 1000
	// pastAsked is the time between two questions how far etcd has answered.
	pastAsked = 20 * time.Millisecond
)

// Past is what etcd still knows of the changes of documents up to a revision, at most 1,000 revisions, in the order of the revisions, and the revision
// after which none is missing. The error says that etcd does not answer.
func (s *Store) Past(ctx context.Context, upTo int64) (all []PastChange, floor int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	floor = max(0, upTo-pastKept)
	from := func() clientv3.WatchChan {
		return s.client.Watch(ctx, rootPrefix, clientv3.WithPrefix(), clientv3.WithRev(floor+1))
	}
	ticker := time.NewTicker(pastAsked)
	defer ticker.Stop()
	for watch := from(); floor < upTo; {
		select {
		case <-ticker.C: // the last change may be of a key that is not drover's
			err = s.client.RequestProgress(ctx)
		case response, open := <-watch:
			if response.CompactRevision > 0 {
				floor = response.CompactRevision
				watch = from()
				continue
			}
			if err = response.Err(); err == nil && !open {
				err = cmp.Or(ctx.Err(), context.Canceled)
			}
			last := response.Header.Revision
			for _, e := range response.Events {
				if last = e.Kv.ModRevision; last > upTo {
					break
				}
				if name, key, ok := splitKey(string(e.Kv.Key)); ok && s.collections[name] != nil {
					all = append(all, PastChange{Collection: name, Key: key, Revision: last, Created: e.IsCreate(), removed: e.Type == clientv3.EventTypeDelete})
				}
			}
			if err == nil && last >= upTo && (len(response.Events) > 0 || response.IsProgressNotify()) {
				return lastValues(ctx, s, all, floor)
			}
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read what changed before revision %d: %w", upTo, err)
		}
	}
	return all, floor, nil
}

// lastValues asks for the values of what was removed. One is not known that a release wrote in another form, or with keys that are gone: it is left
// out with all before it.
func lastValues(ctx context.Context, s *Store, all []PastChange, floor int64) ([]PastChange, int64, error) {
	first := 0
	for i := range all {
		p := &all[i]
		if !p.removed {
			continue
		}
		response, err := s.client.Get(ctx, documentKey(p.Collection, p.Key), clientv3.WithRev(p.Revision-1))
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return nil, 0, fmt.Errorf("read what was removed at revision %d: %w", p.Revision, err)
		}
		known := err == nil && len(response.Kvs) == 1
		if known {
			raw, err := s.raw(p.Collection, p.Key, response.Kvs[0])
			if err == nil {
				p.Removed, err = s.collections[p.Collection].value(raw)
			}
			known = err == nil
		}
		if !known {
			first, floor = i+1, p.Revision
		}
	}
	return all[first:], floor, nil
}
