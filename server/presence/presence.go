// Package presence tells all servers of one store which of them a host's tunnel ends at.
// Each server writes down what it holds under a lease, so that it is forgotten when the
// server is gone, however it went.
package presence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// leaseLife is how long a server that vanished is believed to live.
	leaseLife = 10 * time.Second
	// batch is how many changes one transaction carries; an external etcd takes 128.
	batch = 100
	// endLimit bounds taking everything back when the server stops.
	endLimit = 2 * time.Second
)

// Options are what a Presence is made of. All are required.
type Options struct {
	State *state.State
	// Self is this server; its ID is different after each start.
	Self records.Replica
	// Changed is called when a subject's first tunnel to any server opened or its last one
	// ended. It must not block.
	Changed func(subject string, connected bool)
	Logger  *slog.Logger
	Now     func() time.Time
}

// Presence is what this server says and what it hears of the others.
type Presence struct {
	Options
	wake chan struct{} // has one entry when something is to be written

	mu    sync.Mutex
	held  map[string]time.Time // this server's subjects, and since when
	dirty map[string]struct{}  // subjects whose document may not say so yet
	gone  map[string]time.Time // when the last tunnel of a subject ended
}

// New makes a Presence; nothing is written before Run.
func New(o Options) *Presence {
	return &Presence{
		Options: o, wake: make(chan struct{}, 1),
		held: map[string]time.Time{}, dirty: map[string]struct{}{}, gone: map[string]time.Time{},
	}
}

// Local takes what the tunnels of this server tell; see tunnel.Server.OnChange.
func (p *Presence) Local(subject string, connected bool) {
	elsewhere := len(p.others(subject)) > 0
	p.mu.Lock()
	if connected {
		p.held[subject] = p.Now().UTC()
		delete(p.gone, subject)
	} else {
		delete(p.held, subject)
		p.gone[subject] = p.Now().UTC()
	}
	p.dirty[subject] = struct{}{}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	if !elsewhere {
		p.Changed(subject, connected)
	}
}

// Connected says whether any server holds a tunnel of the subject, and since when the
// oldest; when none does, since when it is gone, as far as this server has seen that.
func (p *Presence) Connected(subject string) (since time.Time, ok bool) {
	p.mu.Lock()
	since, ok = p.held[subject]
	gone := p.gone[subject]
	p.mu.Unlock()
	for _, c := range p.others(subject) {
		if !ok || c.Since.Before(since) {
			since, ok = c.Since, true
		}
	}
	if !ok {
		return gone, false
	}
	return since, true
}

// Holders are the other servers that hold a tunnel of the subject.
func (p *Presence) Holders(subject string) []records.Replica {
	var all []records.Replica
	for _, c := range p.others(subject) {
		if d, ok := p.State.Replicas.Get(c.Replica); ok {
			all = append(all, d.Value)
		}
	}
	return all
}

// Others are the other servers that run.
func (p *Presence) Others() []records.Replica {
	var all []records.Replica
	for _, d := range p.State.Replicas.List() {
		if d.Value.ID != p.Self.ID {
			all = append(all, d.Value)
		}
	}
	return all
}

func (p *Presence) others(subject string) []records.Connection {
	var all []records.Connection
	for _, d := range p.State.Connections.ListIn(subject + "|") {
		if d.Value.Replica != p.Self.ID {
			all = append(all, d.Value)
		}
	}
	return all
}

// Run keeps the store up to date until ctx ends, and then takes back what it wrote.
func (p *Presence) Run(ctx context.Context) error {
	defer p.State.Connections.Observe(p.heard)()
	pause := backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Floor: 0.5}
	for {
		err := p.under(ctx, &pause)
		if ctx.Err() != nil {
			return nil
		}
		p.Logger.Warn("other servers cannot be told which hosts are connected here, trying again", "error", err)
		if backoff.Wait(ctx, pause.Next()) != nil {
			return nil
		}
	}
}

// heard tells when a tunnel to another server came or went.
func (p *Presence) heard(e store.Event[records.Connection]) {
	subject, replica, _ := strings.Cut(e.Key, "|")
	if replica == p.Self.ID || (e.Type != store.Deleted && e.Old != nil) {
		return
	}
	p.mu.Lock()
	_, here := p.held[subject]
	if e.Type == store.Deleted && !here {
		p.gone[subject] = p.Now().UTC()
	}
	p.mu.Unlock()
	elsewhere := 0
	for _, c := range p.others(subject) {
		if c.Replica != replica {
			elsewhere++
		}
	}
	if !here && elsewhere == 0 {
		p.Changed(subject, e.Type != store.Deleted)
	}
}

// under writes everything that is held here under one lease, and each change, until the
// lease is lost or ctx ends.
func (p *Presence) under(ctx context.Context, pause *backoff.Backoff) error {
	lease, err := p.State.Store.NewLease(ctx, leaseLife)
	if err != nil {
		return err
	}
	defer p.end(ctx, lease)
	if _, err := p.State.Store.Commit(ctx, p.replica().Under(lease)); err != nil {
		return fmt.Errorf("announce this server: %w", err)
	}
	p.mu.Lock()
	for subject := range p.held {
		p.dirty[subject] = struct{}{}
	}
	p.mu.Unlock()
	for {
		if err := p.write(ctx, lease); err != nil {
			return err
		}
		pause.Reset()
		select {
		case <-p.wake:
		case <-lease.Lost():
			return errors.New("the lease of this server was lost")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Presence) end(ctx context.Context, lease *store.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if err := lease.End(ctx); err != nil {
		p.Logger.Debug("other servers learn late that this one is gone", "error", err)
	}
}

// replica is this server's own document.
func (p *Presence) replica() store.Op {
	if d, ok := p.State.Replicas.Get(p.Self.ID); ok {
		d.Value = p.Self
		return p.State.Replicas.Updating(d)
	}
	return p.State.Replicas.Creating(p.Self.ID, p.Self)
}

// write brings the documents of all dirty subjects up to date. What could not be written stays dirty.
func (p *Presence) write(ctx context.Context, lease *store.Lease) error {
	for {
		subjects := p.take()
		if len(subjects) == 0 {
			return nil
		}
		var ops []store.Op
		for _, subject := range subjects {
			if op, ok := p.change(subject, lease); ok {
				ops = append(ops, op)
			}
		}
		if _, err := p.State.Store.Commit(ctx, ops...); err != nil {
			p.putBack(subjects)
			return fmt.Errorf("write which hosts are connected here: %w", err)
		}
	}
}

func (p *Presence) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var subjects []string
	for subject := range p.dirty {
		if len(subjects) == batch {
			break
		}
		subjects = append(subjects, subject)
		delete(p.dirty, subject)
	}
	return subjects
}

func (p *Presence) putBack(subjects []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, subject := range subjects {
		p.dirty[subject] = struct{}{}
	}
}

// change is the write that a subject's document needs; false when it is right already.
func (p *Presence) change(subject string, lease *store.Lease) (store.Op, bool) {
	p.mu.Lock()
	since, held := p.held[subject]
	p.mu.Unlock()
	want := records.Connection{Subject: subject, Replica: p.Self.ID, Since: since}
	d, exists := p.State.Connections.Get(want.Key())
	switch {
	case held && exists:
		d.Value = want
		return p.State.Connections.Updating(d).Under(lease), true
	case held:
		return p.State.Connections.Creating(want.Key(), want).Under(lease), true
	case exists:
		return p.State.Connections.Deleting(d.Key, 0), true
	}
	return store.Op{}, false
}
