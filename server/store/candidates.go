// Which server leads, by the candidacies of all servers as they come and go: of the candidacies for one name, the first leads.

package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

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
