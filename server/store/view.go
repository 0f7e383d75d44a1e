package store

// This file holds the view: the documents in memory, loaded once and then kept up to
// date by one etcd watch.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The keys in etcd. The etcd key is a part of what is authenticated with a sensitive
// document, so a change of these is a migration.
const (
	rootPrefix      = "/drover/"
	documentsPrefix = rootPrefix + "d/" // + collection + "/" + document key
	leadersPrefix   = rootPrefix + "leaders/"
	schemaKey       = rootPrefix + "schema"
	canaryKey       = rootPrefix + "encryption"
	restoredKey     = rootPrefix + "restored"
)

func documentKey(collection, key string) string { return documentsPrefix + collection + "/" + key }

// splitKey is the collection of a document's etcd key, and its own key.
func splitKey(etcdKey string) (collection, key string, ok bool) {
	rest, ok := strings.CutPrefix(etcdKey, documentsPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// pageSize is how many documents one read of a load asks for.
const pageSize = 2000

// readAll is every key below a prefix at one revision, sorted.
func (s *Store) readAll(ctx context.Context, prefix string) ([]*mvccpb.KeyValue, int64, error) {
	var all []*mvccpb.KeyValue
	var revision int64
	from := prefix
	for {
		response, err := s.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
			clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return nil, 0, fmt.Errorf("read %s from etcd: %w", prefix, err)
		}
		revision = cmp.Or(revision, response.Header.Revision)
		all = append(all, response.Kvs...)
		if !response.More || len(response.Kvs) == 0 {
			return all, revision, nil
		}
		from = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
	}
}

// load fills the collections before they are used.
func (s *Store) load(ctx context.Context) error {
	kvs, revision, err := s.readAll(ctx, documentsPrefix)
	if err != nil {
		return err
	}
	written, err := s.rekey(ctx, kvs)
	if err != nil {
		return err
	}
	if written > 0 {
		if kvs, revision, err = s.readAll(ctx, documentsPrefix); err != nil {
			return err
		}
	}
	documents, err := s.sort(kvs)
	if err != nil {
		return err
	}
	for name, c := range s.collections {
		if err := c.load(documents[name]); err != nil {
			return err
		}
	}
	if err := s.readLeaders(ctx); err != nil {
		return err
	}
	s.view.Advance(revision)
	return nil
}

// sort decrypts documents and puts them by collection; those of collections that this
// store was not opened with are left out.
func (s *Store) sort(kvs []*mvccpb.KeyValue) (map[string][]rawEvent, error) {
	documents := make(map[string][]rawEvent)
	for _, kv := range kvs {
		name, key, ok := splitKey(string(kv.Key))
		if !ok || s.collections[name] == nil {
			continue
		}
		e, err := s.raw(name, key, kv)
		if err != nil {
			return nil, err
		}
		documents[name] = append(documents[name], e)
	}
	return documents, nil
}

// raw decrypts one document.
func (s *Store) raw(name, key string, kv *mvccpb.KeyValue) (rawEvent, error) {
	e := rawEvent{key: key, revision: kv.ModRevision}
	if e.known, e.size = s.flights.find(string(kv.Key), kv.Value); e.known != nil {
		return e, nil
	}
	e.value, e.size = kv.Value, len(kv.Value)
	if !s.collections[name].isSensitive() {
		return e, nil
	}
	var err error
	if e.value, err = s.keys.Open(string(kv.Key), kv.Value); err != nil {
		return rawEvent{}, fmt.Errorf("read %s/%s at revision %d: %w", name, key, kv.ModRevision, err)
	}
	e.size = len(e.value)
	return e, nil
}

// watchRetry is the pause before the watch is opened again after it broke.
const watchRetry = 200 * time.Millisecond

// follow keeps the view up to date until the store is closed or fails.
func (s *Store) follow() {
	for {
		if err := s.followOnce(); err != nil {
			s.fail(err)
			return
		}
		pause := time.NewTimer(watchRetry)
		select {
		case <-s.alive.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// followOnce is one watch, from the revision reached until it breaks. An error means
// that the view cannot go on at all.
func (s *Store) followOnce() error {
	ctx, cancel := context.WithCancel(s.alive)
	var asking sync.WaitGroup
	defer func() { cancel(); asking.Wait() }()
	external := len(s.options.Endpoints) > 0
	if external {
		// A member that lost its cluster would otherwise be silent for ever.
		ctx = clientv3.WithRequireLeader(ctx)
	}
	watch := s.client.Watch(ctx, rootPrefix, clientv3.WithPrefix(), clientv3.WithRev(s.Revision()+1))
	if external {
		asking.Go(func() { s.ask(ctx) })
	}
	for response := range watch {
		if response.CompactRevision > 0 {
			s.log.Warn("etcd has dropped history that the view did not see: reading everything again",
				"revision", s.Revision(), "compacted", response.CompactRevision)
			return s.reload()
		}
		if err := response.Err(); err != nil {
			if s.alive.Err() == nil {
				s.log.Warn("the watch on etcd broke: opening it again", "error", err)
			}
			return nil
		}
		if err := s.applyAll(response.Events); err != nil {
			return err
		}
		complete := s.Revision()
		if response.IsProgressNotify() { // the header of events may be ahead of them
			complete = response.Header.Revision
		}
		s.contact.Heard(complete)
	}
	return nil
}

// applyAll takes events in the order of their revisions, each revision at once.
func (s *Store) applyAll(events []*clientv3.Event) error {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Kv.ModRevision == events[0].Kv.ModRevision {
			n++
		}
		if err := s.apply(events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// apply takes the events of one revision into the view.
func (s *Store) apply(events []*clientv3.Event) error {
	revision := events[0].Kv.ModRevision
	changes := make(map[string][]rawEvent, 1)
	for _, e := range events {
		name, key, ok := splitKey(string(e.Kv.Key))
		if !ok {
			s.leaders.changed(e)
			if string(e.Kv.Key) == schemaKey && e.Type == clientv3.EventTypePut {
				if _, err := s.readSchema(e.Kv.Value); err != nil {
					return err
				}
			}
			continue
		}
		if s.collections[name] == nil {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			changes[name] = append(changes[name], rawEvent{key: key, revision: revision})
			continue
		}
		raw, err := s.raw(name, key, e.Kv)
		if err != nil {
			return err
		}
		changes[name] = append(changes[name], raw)
	}
	// Observers of one collection find what was written into the others with it: one who is called before would
	// decide on half of it, and they need no further call.
	s.view.Begin(revision)
	notify := make([]func(), 0, len(changes))
	for name, raw := range changes {
		f, err := s.collections[name].change(raw)
		if err != nil {
			return err
		}
		notify = append(notify, f)
	}
	for _, f := range notify {
		f()
	}
	s.view.Advance(revision)
	return nil
}

// reload brings the view from where it is to the present without history: it reads
// everything and applies the differences, as events in the order of their revisions.
// Deletions get the newest revision, since their own is not known.
func (s *Store) reload() error {
	kvs, revision, err := s.readAll(s.alive, documentsPrefix)
	if err != nil {
		s.log.Warn("reading everything again failed: trying again", "error", err)
		return nil
	}
	known := make(map[string]map[string]int64)
	for name, c := range s.collections {
		known[name] = c.current()
	}
	var events []*clientv3.Event
	for _, kv := range kvs {
		name, key, ok := splitKey(string(kv.Key))
		if !ok || known[name] == nil {
			continue
		}
		before, had := known[name][key]
		delete(known[name], key)
		if before == kv.ModRevision {
			continue
		}
		if had && kv.CreateRevision > before {
			// It was deleted and made again: another object under the same key.
			events = append(events, deletion(string(kv.Key), kv.CreateRevision-1))
		}
		events = append(events, &clientv3.Event{Type: clientv3.EventTypePut, Kv: kv})
	}
	for name, gone := range known {
		for key := range gone {
			events = append(events, deletion(documentKey(name, key), revision))
		}
	}
	slices.SortStableFunc(events, func(a, b *clientv3.Event) int { return cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision) })
	if err := s.applyAll(events); err != nil {
		return err
	}
	if err := s.readLeaders(s.alive); err != nil {
		s.log.Warn("who leads is not known until another server leads", "error", err)
	}
	s.view.Advance(revision)
	return nil
}

func deletion(key string, revision int64) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}}
}

// EventType is what happened to a document.
type EventType int

const (
	// Put says that the document was created or replaced.
	Put EventType = iota + 1
	// Deleted says that it was removed.
	Deleted
)

// String is "put" or "deleted".
func (t EventType) String() string {
	switch t {
	case Put:
		return "put"
	case Deleted:
		return "deleted"
	default:
		return fmt.Sprintf("event type %d", int(t))
	}
}

// Event is one change of a document. Values are shared: never change them. Keep none: thousands of documents that change at once would be held as they were.
type Event[T any] struct {
	Type EventType
	Key  string
	// Revision is the revision of the change; for Deleted that of the deletion.
	Revision int64
	// Value is the new value, for Deleted the last one.
	Value T
	// Old is the value before, nil when the document was created.
	Old *T
}
