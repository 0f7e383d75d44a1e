package store

// This file holds indexes: documents found by something other than their keys.

import (
	"slices"
	"strings"
)

// Index finds the documents of a collection by keys that are made of their values. It is
// kept up to date with the collection's view in memory, under the same lock: a reader sees
// a document in the collection and in all its indexes, or in none.
type Index[T any, K comparable] struct {
	collection *Collection[T]
	keys       func(*T) []K
	entries    map[K][]*Document[T] // sorted by the keys of documents
}

// indexer is an index of any type of keys.
type indexer[T any] interface {
	// replace is called with the collection's lock held; either may be nil. Their JSON has and had that many bytes.
	replace(before, after *Document[T], had, has int)
}

// NewIndex makes an index over a collection. A document is found by each of the keys that
// the function gives for its value, which must be different from each other and depend on
// nothing but the value, and by none when it gives none.
func NewIndex[T any, K comparable](c *Collection[T], keys func(*T) []K) *Index[T, K] {
	x := &Index[T, K]{collection: c, keys: keys, entries: make(map[K][]*Document[T])}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.sorted {
		x.replace(nil, c.documents[key], 0, 0)
	}
	c.indexes = append(c.indexes, x)
	return x
}

// Find reads the documents with a key, sorted by the keys of documents. They are those of
// the view itself, so that thousands cost no copy: change none of them, not even their fields.
func (x *Index[T, K]) Find(key K) []*Document[T] {
	x.collection.mu.RLock()
	defer x.collection.mu.RUnlock()
	return slices.Clone(x.entries[key])
}

// Count is how many documents have a key.
func (x *Index[T, K]) Count(key K) int {
	x.collection.mu.RLock()
	defer x.collection.mu.RUnlock()
	return len(x.entries[key])
}

// First reads the first of the documents with a key: the one where keys are unique.
func (x *Index[T, K]) First(key K) (Document[T], bool) {
	x.collection.mu.RLock()
	defer x.collection.mu.RUnlock()
	if found := x.entries[key]; len(found) > 0 {
		return *found[0], true
	}
	return Document[T]{}, false
}

// Keys reads all keys under which there is a document, in no order.
func (x *Index[T, K]) Keys() []K {
	x.collection.mu.RLock()
	defer x.collection.mu.RUnlock()
	keys := make([]K, 0, len(x.entries))
	for key := range x.entries {
		keys = append(keys, key)
	}
	return keys
}

func (x *Index[T, K]) replace(before, after *Document[T], _, _ int) {
	var had, has []K
	if before != nil {
		had = x.keys(&before.Value)
	}
	if after != nil {
		has = x.keys(&after.Value)
	}
	for _, key := range had {
		if !slices.Contains(has, key) {
			x.remove(key, before)
		}
	}
	for _, key := range has {
		x.put(key, after)
	}
}

func (x *Index[T, K]) put(key K, d *Document[T]) {
	entry := x.entries[key]
	i, found := find(entry, d.Key)
	if found {
		entry[i] = d
		return
	}
	x.entries[key] = slices.Insert(entry, i, d)
}

func (x *Index[T, K]) remove(key K, d *Document[T]) {
	entry := x.entries[key]
	i, found := find(entry, d.Key)
	if !found {
		return
	}
	if len(entry) == 1 {
		delete(x.entries, key)
		return
	}
	x.entries[key] = slices.Delete(entry, i, i+1)
}

func find[T any](entry []*Document[T], key string) (int, bool) {
	return slices.BinarySearchFunc(entry, key, func(d *Document[T], key string) int { return strings.Compare(d.Key, key) })
}
