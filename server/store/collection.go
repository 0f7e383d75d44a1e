package store

// This file holds collections: typed documents under one name, read from memory.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Document is one stored value.
type Document[T any] struct {
	Key string
	// Revision is the etcd revision of the last write, a Kubernetes resourceVersion.
	Revision int64
	// Value is shared with other readers, also after it was written: never change it, change
	// a copy whose maps, slices and pointers are replaced and not changed.
	Value T
}

// Bindable is a collection of any type. Only *Collection[T] implements it.
type Bindable interface {
	collectionName() string
	isSensitive() bool
	bind(s *Store) error
	load(documents []rawEvent) error
	change(events []rawEvent) (notify func(), err error)
	current() map[string]int64
	size(key string) (bytes int, ok bool)
	value(e rawEvent) (any, error)
}

// rawEvent is a change of a document as etcd has it, decrypted. When it was deleted it
// has neither value.
type rawEvent struct {
	key      string
	revision int64
	value    []byte // JSON
	known    any    // what this store wrote, a T; value is then not filled in
	size     int    // of the JSON
}

// Collection is the documents of one type. Make it with NewCollection and bind it with
// Open; before that it is empty and refuses writes.
type Collection[T any] struct {
	name      string
	sensitive bool

	mu        sync.RWMutex
	store     *Store
	documents map[string]*Document[T]
	sorted    []string       // the keys of documents
	sizes     map[string]int // of the JSON of documents
	indexes   []indexer[T]
	observers []*func(Event[T]) // replaced, never changed
}

var _ Bindable = (*Collection[struct{}])(nil)

// NewCollection makes a collection. The name is a part of the keys in etcd: lower-case
// letters only. Documents of a sensitive one are encrypted at rest. T must survive
// encoding/json unharmed.
func NewCollection[T any](name string, sensitive bool) *Collection[T] {
	return &Collection[T]{name: name, sensitive: sensitive, documents: make(map[string]*Document[T]), sizes: make(map[string]int)}
}

func checkCollectionName(name string) error {
	if !regexp.MustCompile(`^[a-z]{1,63}$`).MatchString(name) {
		return fmt.Errorf("collection name %q: expected 1 to 63 lower-case letters", name)
	}
	return nil
}

// Name is that of the collection, as people are told of it.
func (c *Collection[T]) Name() string { return c.name }

func (c *Collection[T]) collectionName() string { return c.name }
func (c *Collection[T]) isSensitive() bool      { return c.sensitive }

func (c *Collection[T]) bind(s *Store) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store != nil {
		return fmt.Errorf("collection %q is bound to a store already", c.name)
	}
	c.store = s
	return nil
}

func (c *Collection[T]) bound() (*Store, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.store == nil {
		return nil, fmt.Errorf("collection %q is not bound to a store: give it to Open", c.name)
	}
	return c.store, nil
}

// Get reads a document from memory.
func (c *Collection[T]) Get(key string) (Document[T], bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	d, ok := c.documents[key]
	if !ok {
		return Document[T]{}, false
	}
	return *d, true
}

// List reads all documents from memory, sorted by key.
func (c *Collection[T]) List() []Document[T] { return c.ListIn("") }

// ListIn reads the documents whose keys begin with prefix from memory, sorted by key.
func (c *Collection[T]) ListIn(prefix string) []Document[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	from, _ := slices.BinarySearch(c.sorted, prefix)
	to := from
	for to < len(c.sorted) && strings.HasPrefix(c.sorted[to], prefix) {
		to++
	}
	list := make([]Document[T], 0, to-from)
	for _, key := range c.sorted[from:to] {
		list = append(list, *c.documents[key])
	}
	return list
}

// Create writes a new document. It returns *ExistsError when there is one.
func (c *Collection[T]) Create(ctx context.Context, key string, v T) (Document[T], error) {
	return c.write(ctx, key, v, c.Creating(key, v))
}

// Update replaces a document that is still at d.Revision. It returns *ConflictError
// when it is not, and *NotFoundError when it is gone.
func (c *Collection[T]) Update(ctx context.Context, d Document[T]) (Document[T], error) {
	return c.write(ctx, d.Key, d.Value, c.Updating(d))
}

func (c *Collection[T]) write(ctx context.Context, key string, v T, op Op) (Document[T], error) {
	s, err := c.bound()
	if err != nil {
		return Document[T]{}, err
	}
	revision, err := s.Commit(ctx, op)
	if err != nil {
		return Document[T]{}, err
	}
	return Document[T]{Key: key, Revision: revision, Value: v}, nil
}

// Delete removes a document at the revision, or at any when revision is 0. It returns
// *ConflictError when it is at another, and *NotFoundError when it is gone.
func (c *Collection[T]) Delete(ctx context.Context, key string, revision int64) error {
	s, err := c.bound()
	if err != nil {
		return err
	}
	_, err = s.Commit(ctx, c.Deleting(key, revision))
	return err
}

// modifyTries bounds Modify. Each conflict means that another write succeeded,
// so only a document that very many write at once comes near it.
const modifyTries = 100

// Modify reads a document, gives a deep copy to change, and writes what that returns if
// the document was not changed meanwhile; if it was, it begins again. When change
// returns ErrUnchanged nothing is written and the current document is returned; any
// other error of change is returned as it is. Modify returns *NotFoundError when there
// is not a document, and *ConflictError after 100 conflicts.
func (c *Collection[T]) Modify(ctx context.Context, key string, change func(T) (T, error)) (Document[T], error) {
	s, err := c.bound()
	if err != nil {
		return Document[T]{}, err
	}
	var conflict *ConflictError
	for range modifyTries {
		current, ok := c.Get(key)
		if !ok {
			return Document[T]{}, &NotFoundError{Collection: c.name, Key: key}
		}
		value, err := copied(current.Value)
		if err == nil {
			value, err = change(value)
		}
		if errors.Is(err, ErrUnchanged) {
			return current, nil
		}
		if err != nil {
			return Document[T]{}, err
		}
		written, err := c.Update(ctx, Document[T]{Key: key, Revision: current.Revision, Value: value})
		if !errors.As(err, &conflict) {
			return written, err
		}
		if err := s.await(ctx, conflict.Current); err != nil {
			return Document[T]{}, err
		}
	}
	return Document[T]{}, conflict
}

// copied is a deep copy: what would be read of what would be written.
func copied[T any](v T) (is T, err error) {
	text, err := appendJSON(nil, v)
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	return is, err
}

func (c *Collection[T]) decode(e rawEvent) (*Document[T], error) {
	d := &Document[T]{Key: e.key, Revision: e.revision}
	if known, ok := e.known.(T); ok {
		d.Value = known
		return d, nil
	}
	if err := json.Unmarshal(e.value, &d.Value); err != nil {
		if c.sensitive {
			// The error of encoding/json can quote what it could not decode.
			err = errors.New("the decrypted record is not the JSON expected")
		}
		return nil, fmt.Errorf("read %s/%s at revision %d: %w", c.name, e.key, e.revision, err)
	}
	return d, nil
}

// value is the value of a document alone, a T.
func (c *Collection[T]) value(e rawEvent) (any, error) {
	d, err := c.decode(e)
	if err != nil {
		return nil, err
	}
	return d.Value, nil
}

// load takes the documents as they are; they arrive sorted by key.
func (c *Collection[T]) load(documents []rawEvent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range documents {
		d, err := c.decode(e)
		if err != nil {
			return err
		}
		c.documents[e.key] = d
		c.sorted = append(c.sorted, e.key)
		c.reindex(nil, d, e)
	}
	return nil
}

// change applies the events of one revision, all at once for every reader; notify calls the
// observers. Only the view calls them.
func (c *Collection[T]) change(raw []rawEvent) (notify func(), err error) {
	decoded := make([]*Document[T], len(raw))
	for i, e := range raw {
		if e.value == nil && e.known == nil {
			continue
		}
		d, err := c.decode(e)
		if err != nil {
			return nil, err
		}
		decoded[i] = d
	}
	events := make([]*Event[T], 0, len(raw))
	c.mu.Lock()
	for i, e := range raw {
		if event := c.replace(e, decoded[i]); event != nil {
			events = append(events, event)
		}
	}
	observers := c.observers
	c.mu.Unlock()
	return func() {
		for _, event := range events {
			for _, f := range observers {
				(*f)(*event)
			}
		}
	}, nil
}

// replace puts one document in its place, or takes it away when d is nil. It is nil for
// the deletion of what was not there.
func (c *Collection[T]) replace(e rawEvent, d *Document[T]) *Event[T] {
	before, had := c.documents[e.key]
	event := &Event[T]{Key: e.key, Revision: e.revision}
	if had {
		event.Old = &before.Value
	}
	if d != nil {
		c.documents[e.key] = d
		if !had {
			i, _ := slices.BinarySearch(c.sorted, e.key)
			c.sorted = slices.Insert(c.sorted, i, e.key)
		}
		c.reindex(before, d, e)
		event.Type, event.Value = Put, d.Value
		return event
	}
	if !had {
		return nil
	}
	delete(c.documents, e.key)
	i, _ := slices.BinarySearch(c.sorted, e.key)
	c.sorted = slices.Delete(c.sorted, i, i+1)
	c.reindex(before, nil, e)
	event.Type, event.Value = Deleted, before.Value
	return event
}

// reindex brings the indexes up to date with one document; either may be nil.
func (c *Collection[T]) reindex(before, after *Document[T], e rawEvent) {
	for _, x := range c.indexes {
		x.replace(before, after, c.sizes[e.key], e.size)
	}
	if c.sizes[e.key] = e.size; after == nil {
		delete(c.sizes, e.key)
	}
}

// current is the revision of each document.
func (c *Collection[T]) current() map[string]int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	revisions := make(map[string]int64, len(c.documents))
	for key, d := range c.documents {
		revisions[key] = d.Revision
	}
	return revisions
}

func (c *Collection[T]) size(key string) (bytes int, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	bytes, ok = c.sizes[key]
	return bytes, ok
}

// Observe calls f for every later change, in the order of revisions, from the one
// goroutine that keeps the view, after the view has the change and before the Commit
// that made it returns. f must neither block nor write to the store. stop ends it; a call
// under way may still finish.
func (c *Collection[T]) Observe(f func(Event[T])) (stop func()) {
	entry := &f
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(slices.Clone(c.observers), entry)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.observers = slices.DeleteFunc(slices.Clone(c.observers), func(other *func(Event[T])) bool { return other == entry })
	}
}
