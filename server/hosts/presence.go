// Each server publishes to all servers of its store which hosts are connected to it:
// where its tunnel ends, and where its agent watches its plan. Each server writes what
// it holds under a lease, so that it is removed when the server is gone, however it went.
// A server that shares its store with no other publishes nothing.

package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// leaseLife is how long a server that vanished is believed to live.
	leaseLife = 10 * time.Second
	// batch is how many changes one transaction carries; an external etcd takes 128.
	batch = 100
	// gather is how long changes are collected before they are written: hosts come in
	// crowds when a server starts or ends.
	gather = 50 * time.Millisecond
	// endLimit bounds taking everything back when the server stops.
	endLimit = 2 * time.Second
)

// PresenceOptions are what a Presence is made of. All but Alone and Agent are required.
type PresenceOptions struct {
	State *state.State
	// Self is this server; its ID is different after each start.
	Self records.Replica
	// Alone says that no other server can use this store, so that no server reads what would
	// be published.
	Alone bool
	// Agent is the release of the agent at the other end of a subject's tunnel to this server; nil knows none.
	Agent  func(subject string) string
	Logger *slog.Logger
	Now    func() time.Time
}

// Presence is what this server publishes and what it reads of the others.
type Presence struct {
	PresenceOptions
	// Tunnels are the tunnels of hosts, by their subjects.
	Tunnels *board
	// Watches are the watches of agents, by the keys of their plan Secrets.
	Watches *board

	wake chan struct{} // has one entry when something is to be written
}

// NewPresence makes a Presence; nothing is written before Run.
func NewPresence(o PresenceOptions) *Presence {
	p := &Presence{PresenceOptions: o, wake: make(chan struct{}, 1)}
	p.Tunnels = newBoard(p, o.State.Connections)
	p.Watches = newBoard(p, o.State.Watches)
	p.Watches.grace = observed.AgentGrace
	if o.Agent != nil {
		p.Tunnels.agent = o.Agent
	}
	return p
}

// Servers are those that run, this one first.
func (p *Presence) Servers() []records.Replica {
	return append([]records.Replica{p.Self}, p.Others()...)
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

// Run keeps the store up to date until ctx ends, and then takes back what it wrote. It returns no error.
func (p *Presence) Run(ctx context.Context) error {
	if p.Alone {
		<-ctx.Done()
		return nil
	}
	defer p.Tunnels.follow()()
	defer p.Watches.follow()()
	pause := backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Floor: 0.5}
	for {
		err := p.under(ctx, &pause)
		if ctx.Err() != nil {
			return nil
		}
		p.Logger.Warn("which hosts are connected here could not be published to other servers, trying again", "error", err)
		if backoff.Wait(ctx, pause.Next()) != nil {
			return nil
		}
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
	p.Tunnels.republish()
	p.Watches.republish()
	for {
		for _, b := range []*board{p.Tunnels, p.Watches} {
			if err := b.write(ctx, lease); err != nil {
				return err
			}
		}
		pause.Reset()
		// The pause comes after a write: a connection that comes alone is published at once.
		if err := backoff.Wait(ctx, gather); err != nil {
			return err
		}
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
		p.Logger.Debug("what this server published stays until its lease ends", "error", err)
	}
}

// replica is the write of this server's own document.
func (p *Presence) replica() store.Op {
	if d, ok := p.State.Replicas.Get(p.Self.ID); ok {
		d.Value = p.Self
		return p.State.Replicas.Updating(d)
	}
	return p.State.Replicas.Creating(p.Self.ID, p.Self)
}
