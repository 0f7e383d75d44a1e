// One kind of connection of hosts, over all servers.

package hosts

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// board is who is connected in one way: to this server, by what Set reports, and to the
// others, by what they published.
type board struct {
	presence  *Presence
	documents *store.Collection[records.Connection]
	agent     func(subject string) string
	// grace is how long a server waits before it publishes that a subject is gone.
	grace time.Duration

	mu        sync.Mutex
	held      map[string]time.Time // this server's subjects, and since when
	dirty     map[string]struct{}  // subjects whose document may not say so yet
	gone      map[string]departure // of subjects whose last connection ended
	observers []func(subject string, connected bool)
}

// departure is when the last connection of a subject ended, or when this server heard so from another one.
type departure struct {
	at     time.Time
	server string // that other one
}

func newBoard(p *Presence, documents *store.Collection[records.Connection]) *board {
	return &board{presence: p, documents: documents, agent: func(string) string { return "" }, held: map[string]time.Time{}, dirty: map[string]struct{}{}, gone: map[string]departure{}}
}

// OnChange calls f when a subject's first connection to any server opened or its last one
// ended. f must not block. Call OnChange before the first Set.
func (b *board) OnChange(f func(subject string, connected bool)) {
	b.observers = append(b.observers, f)
}

func (b *board) changed(subject string, connected bool) {
	for _, f := range b.observers {
		f(subject, connected)
	}
}

// Set records that a subject is connected to this server since a time, or is not since then.
func (b *board) Set(subject string, connected bool, since time.Time) {
	elsewhere := len(b.others(subject)) > 0
	b.mu.Lock()
	if connected {
		b.held[subject] = since.UTC()
		delete(b.gone, subject)
	} else {
		delete(b.held, subject)
		b.gone[subject] = departure{at: since.UTC()}
	}
	if !b.presence.Alone {
		b.dirty[subject] = struct{}{}
	}
	b.mu.Unlock()
	select {
	case b.presence.wake <- struct{}{}:
	default:
	}
	if !elsewhere {
		b.changed(subject, connected)
	}
}

// Forget drops what is remembered of a subject that does not exist any more.
func (b *board) Forget(subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.gone, subject)
}

// Connected says whether a subject is connected to any server, and since when the longest;
// when it is not, since when it is gone, as far as this server has seen that.
func (b *board) Connected(subject string) (since time.Time, ok bool) {
	b.mu.Lock()
	since, ok = b.held[subject]
	gone := b.gone[subject]
	b.mu.Unlock()
	for _, c := range b.others(subject) {
		if !ok || c.Since.Before(since) {
			since, ok = c.Since, true
		}
	}
	if !ok {
		return b.wentAt(gone), false
	}
	return since, true
}

// wentAt is when a subject went. A server that is still there has waited before it published that; one that ended has not.
func (b *board) wentAt(gone departure) time.Time {
	if _, there := b.presence.State.Replicas.Get(gone.server); there && gone.server != "" {
		return gone.at.Add(-b.grace)
	}
	return gone.at
}

// Holders are the other servers that a subject is connected to.
func (b *board) Holders(subject string) []records.Replica {
	var all []records.Replica
	for _, c := range b.others(subject) {
		if d, ok := b.presence.State.Replicas.Get(c.Replica); ok {
			all = append(all, d.Value)
		}
	}
	return all
}

// Link is a connection of a host, with the server that it ends at.
type Link struct {
	Server records.Replica
	Since  time.Time
	// Agent is the release of the agent that opened it; empty when it is not known.
	Agent string
}

// Links are a subject's connections to all servers, that to this one first.
func (b *board) Links(subject string) []Link {
	b.mu.Lock()
	since, held := b.held[subject]
	b.mu.Unlock()
	var all []Link
	if held {
		all = append(all, Link{Server: b.presence.Self, Since: since, Agent: b.agent(subject)})
	}
	for _, c := range b.others(subject) {
		l := Link{Server: records.Replica{ID: c.Replica, URL: c.Replica}, Since: c.Since, Agent: c.Agent}
		if d, ok := b.presence.State.Replicas.Get(c.Replica); ok {
			l.Server = d.Value
		}
		all = append(all, l)
	}
	return all
}

// Release is that of the agent at the other end of a subject's connections; empty when it is not known.
func (b *board) Release(subject string) (release string) {
	for _, l := range b.Links(subject) {
		release = cmp.Or(release, l.Agent)
	}
	return release
}

// others are a subject's connections to the other servers.
func (b *board) others(subject string) []records.Connection {
	if b.presence.Alone {
		return nil
	}
	var all []records.Connection
	for _, d := range b.documents.ListIn(subject + "|") {
		if d.Value.Replica != b.presence.Self.ID {
			all = append(all, d.Value)
		}
	}
	return all
}

// follow reports changes at other servers until stop is called.
func (b *board) follow() (stop func()) { return b.documents.Observe(b.published) }

// published is a change that a server has written.
func (b *board) published(e store.Event[records.Connection]) {
	subject, replica, _ := strings.Cut(e.Key, "|")
	if replica == b.presence.Self.ID || (e.Type != store.Deleted && e.Old != nil) {
		return
	}
	b.mu.Lock()
	_, here := b.held[subject]
	if e.Type == store.Deleted && !here {
		b.gone[subject] = departure{at: b.presence.Now().UTC(), server: replica}
	}
	b.mu.Unlock()
	elsewhere := 0
	for _, c := range b.others(subject) {
		if c.Replica != replica {
			elsewhere++
		}
	}
	if !here && elsewhere == 0 {
		b.changed(subject, e.Type != store.Deleted)
	}
}

// republish has everything that is held here written again.
func (b *board) republish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for subject := range b.held {
		b.dirty[subject] = struct{}{}
	}
}

// write brings the documents of all dirty subjects up to date. What could not be written stays dirty.
func (b *board) write(ctx context.Context, lease *store.Lease) error {
	for {
		subjects := b.take()
		if len(subjects) == 0 {
			return nil
		}
		var ops []store.Op
		for _, subject := range subjects {
			if op, ok := b.change(subject, lease); ok {
				ops = append(ops, op)
			}
		}
		if _, err := b.presence.State.Store.Commit(ctx, ops...); err != nil {
			b.putBack(subjects)
			return fmt.Errorf("write which hosts are connected here: %w", err)
		}
	}
}

func (b *board) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var subjects []string
	for subject := range b.dirty {
		if len(subjects) == batch {
			break
		}
		subjects = append(subjects, subject)
		delete(b.dirty, subject)
	}
	return subjects
}

func (b *board) putBack(subjects []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, subject := range subjects {
		b.dirty[subject] = struct{}{}
	}
}

// change is the write that a subject's document needs; false when it is right already.
func (b *board) change(subject string, lease *store.Lease) (store.Op, bool) {
	b.mu.Lock()
	since, held := b.held[subject]
	b.mu.Unlock()
	want := records.Connection{Subject: subject, Replica: b.presence.Self.ID, Since: since}
	if held {
		want.Agent = b.agent(subject)
	}
	d, exists := b.documents.Get(want.Key())
	switch {
	case held && exists:
		d.Value = want
		return b.documents.Updating(d).Under(lease), true
	case held:
		return b.documents.Creating(want.Key(), want).Under(lease), true
	case exists:
		return b.documents.Deleting(d.Key, 0), true
	}
	return store.Op{}, false
}
