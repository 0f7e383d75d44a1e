// Package live keeps what open pages show. The code that sees a change names the topics that it touches (Hub); what shows one
// of them is drawn again, once for all pages that show the same, and in a bounded share of the time (Board). Nothing is
// queued: what is told twice is looked at once, and a page that is slow gets the newest drawing and none of those before.
package live

import (
	"slices"
	"sync"
)

// Hub is where changes come in. The zero value is ready.
type Hub struct {
	mu       sync.Mutex
	open     map[string]map[*Watch]struct{} // by topic
	revision uint64
}

// Watch waits for changes of topics.
type Watch struct {
	hub  *Hub
	told func()
	// topics are those that the hub has the watch under; guarded by hub.mu.
	topics []string
}

// Open adds a watch without topics, which calls told at each change of them. told must neither block nor call the hub.
// Close ends it.
func (h *Hub) Open(told func()) *Watch { return &Watch{hub: h, told: told} }

// Changed tells those who watch one of these topics. It never blocks.
func (h *Hub) Changed(topics ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revision++
	for _, topic := range topics {
		for w := range h.open[topic] {
			w.told()
		}
	}
}

// Revision counts the changes.
func (h *Hub) Revision() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// Of has the watch told of changes of these topics, and no others, from now on. It says whether it may have missed one since
// a revision, because the topics are others than before.
func (w *Watch) Of(topics []string, since uint64) (missed bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if slices.Equal(topics, w.topics) {
		return false
	}
	w.leave()
	if w.hub.open == nil {
		w.hub.open = map[string]map[*Watch]struct{}{}
	}
	w.topics = slices.Clone(topics)
	for _, topic := range topics {
		if w.hub.open[topic] == nil {
			w.hub.open[topic] = map[*Watch]struct{}{}
		}
		w.hub.open[topic][w] = struct{}{}
	}
	return w.hub.revision != since
}

// Close forgets the watch.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.leave()
}

// leave takes the watch out of its topics, under hub.mu.
func (w *Watch) leave() {
	for _, topic := range w.topics {
		delete(w.hub.open[topic], w)
		if len(w.hub.open[topic]) == 0 {
			delete(w.hub.open, topic)
		}
	}
	w.topics = nil
}
