// Who is there: an agent that has nothing to report writes nothing, so its open watch
// is the only sign of life.

package fanout

import (
	"sync"
	"time"
)

// presence counts the open watches of each machine.
type presence struct {
	now   func() time.Time
	grace time.Duration

	// calls is held while subscribers are notified, so that they hear things in their order.
	calls sync.Mutex

	mu          sync.Mutex
	agents      map[string]*attendance // by key of the Secret
	subscribers []func(key string, connected bool)
	stopped     bool
}

// attendance is one agent's.
type attendance struct {
	open  int
	since time.Time   // when there became what it is
	there bool        // as subscribers were notified
	ended time.Time   // when the last watch ended
	leave *time.Timer // runs while nothing is open and the agent is still there
}

func newPresence(now func() time.Time, grace time.Duration) *presence {
	return &presence{now: now, grace: grace, agents: map[string]*attendance{}}
}

func (p *presence) subscribe(f func(string, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribers = append(p.subscribers, f)
}

func (p *presence) of(key string) (since time.Time, connected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[key]
	if a == nil {
		return time.Time{}, false
	}
	return a.since, a.there
}

// opened notes one more watch.
func (p *presence) opened(key string) {
	p.change(key, func(a *attendance) {
		a.open++
		if a.leave != nil {
			a.leave.Stop()
			a.leave = nil
		}
		if !a.there {
			a.there, a.since = true, p.now()
		}
	})
}

// leastGrace is what is left of the grace for the agent of a host that was silent before its watch ended: it may be there,
// and open a new watch at once.
const leastGrace = time.Second

// closed notes that a watch ended whose client had been silent so long; what comes of a grace counts from then.
func (p *presence) closed(key string, silent time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[key]
	if a == nil {
		return
	}
	a.open--
	if a.open > 0 || p.stopped {
		return
	}
	a.ended = p.now().Add(-silent)
	a.leave = time.AfterFunc(max(p.grace-silent, min(p.grace, leastGrace)), func() { p.left(key) })
}

// left is the end of the grace: no new watch was opened in time.
func (p *presence) left(key string) {
	p.change(key, func(a *attendance) {
		if a.open == 0 && a.there {
			a.there, a.since, a.leave = false, a.ended, nil
		}
	})
}

// change changes an attendance and notifies subscribers when that made a difference.
func (p *presence) change(key string, f func(*attendance)) {
	p.calls.Lock()
	defer p.calls.Unlock()
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return
	}
	a := p.agents[key]
	if a == nil {
		a = &attendance{}
		p.agents[key] = a
	}
	before := a.there
	f(a)
	after, subscribers := a.there, p.subscribers
	p.mu.Unlock()
	if before == after {
		return
	}
	for _, f := range subscribers {
		f(key, after)
	}
}

// forget drops an agent whose Secret is gone.
func (p *presence) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.agents[key]; a != nil && a.open == 0 {
		if a.leave != nil {
			a.leave.Stop()
		}
		delete(p.agents, key)
	}
}

// stop ends everything that runs; no observer is notified any more.
func (p *presence) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, a := range p.agents {
		if a.leave != nil {
			a.leave.Stop()
		}
	}
}
