package store

// This file holds what this store is writing at the moment, so that the view need not
// decrypt and decode again what it gave away a millisecond ago.

import (
	"bytes"
	"sync"
)

// flights are the writes of commits that have not returned, by etcd key.
type flights struct {
	mu    sync.Mutex
	byKey map[string][]*flight
}

// flight is one value on its way: as it is, and as it goes to etcd. A sensitive record
// has a random nonce and is like no other; others that are alike have equal values.
type flight struct {
	key     string
	encoded []byte
	size    int // of the JSON
	value   any
}

func newFlights() *flights { return &flights{byKey: make(map[string][]*flight)} }

// begin is called before etcd gets the writes; landed ends it.
func (fs *flights) begin(all []*flight) (landed func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range all {
		fs.byKey[f.key] = append(fs.byKey[f.key], f)
	}
	return func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		for _, f := range all {
			fs.end(f)
		}
	}
}

func (fs *flights) end(f *flight) {
	others := fs.byKey[f.key][:0:0]
	for _, other := range fs.byKey[f.key] {
		if other != f {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		delete(fs.byKey, f.key)
		return
	}
	fs.byKey[f.key] = others
}

// find is the value that was encoded to this record, with the size of its JSON; nil when this store is not writing it.
func (fs *flights) find(key string, record []byte) (value any, size int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.byKey[key] {
		if bytes.Equal(f.encoded, record) {
			return f.value, f.size
		}
	}
	return nil, 0
}
