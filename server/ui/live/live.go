// Package live tells open pages that something which they show has changed. A page names topics; whoever sees a
// change names those that it touches. Nothing is queued: a page that is told twice looks once.
package live

import (
	"slices"
	"sync"
)

// Hub is where changes come in and pages wait. The zero value is ready.
type Hub struct {
	mu   sync.Mutex
	open map[string]map[*Page]struct{} // by topic
}

// Page is an open page.
type Page struct {
	hub *Hub
	// topics are those that the hub has the page under; guarded by hub.mu.
	topics []string
	due    chan struct{}
}

// Open adds a page without topics. Close ends it.
func (h *Hub) Open() *Page { return &Page{hub: h, due: make(chan struct{}, 1)} }

// Changed tells the pages of these topics. It never blocks.
func (h *Hub) Changed(topics ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range topics {
		for p := range h.open[topic] {
			p.tell()
		}
	}
}

// Topics is how many topics there are that somebody waits for.
func (h *Hub) Topics() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// Watch has the page told of changes of these topics, and no others, from now on. It says whether they are others
// than before: who looks at what is shown after that misses nothing.
func (p *Page) Watch(topics []string) bool {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if slices.Equal(topics, p.topics) {
		return false
	}
	p.leave()
	if p.hub.open == nil {
		p.hub.open = map[string]map[*Page]struct{}{}
	}
	p.topics = topics
	for _, topic := range topics {
		if p.hub.open[topic] == nil {
			p.hub.open[topic] = map[*Page]struct{}{}
		}
		p.hub.open[topic][p] = struct{}{}
	}
	return true
}

// Tell has the page look again whatever changed.
func (p *Page) Tell() { p.tell() }

// Due has a value when something changed since it was taken from last.
func (p *Page) Due() <-chan struct{} { return p.due }

// Close forgets the page.
func (p *Page) Close() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.leave()
}

func (p *Page) tell() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// leave takes the page out of its topics, under hub.mu.
func (p *Page) leave() {
	for _, topic := range p.topics {
		delete(p.hub.open[topic], p)
		if len(p.hub.open[topic]) == 0 {
			delete(p.hub.open, topic)
		}
	}
	p.topics = nil
}
