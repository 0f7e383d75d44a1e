// A fleet at work for hours: two servers on one etcd, thousands of agents, a roll-out a minute, and in turn cut connections,
// leaders that hang, copies of the store, pages that come and go. What the servers hold is drawn over time; a leak is a line that rises.

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed/sharedetcd"
)

const (
	soakRound = time.Minute
	soakLook  = 10 * time.Second
	soakPages = 40
	// soakHang is how long a leader hangs: longer than its lease lasts, so that the other server leads.
	soakHang = 20 * time.Second
	// soakLimit is how long a roll-out may take, a hanging leader and all.
	soakLimit = 5 * time.Minute
)

// soak is one run.
type soak struct {
	*bench
	fleet   *fleet
	dir     string
	servers [2]*server
	dialers [2]*dialer // of each server
	etcd    string
	store   *clientv3.Client
	pages   string // token of a user with open pages
	round   atomic.Int64
	wanted  atomic.Pointer[[]byte] // the file of the round, as it stands in a plan
	has     []atomic.Int64         // the round of the last plan that each agent carried out
	watches []atomic.Pointer[conn] // of each agent
	again   atomic.Int64           // connections of agents that ended and were made anew
	leaders int                    // that hung
	copies  int
	history history
}

// soak runs for as long as -hours says.
func (b *bench) soak(ctx context.Context) (err error) {
	if b.hours == 0 {
		return nil
	}
	n := b.agents[len(b.agents)-1]
	if err := enoughFiles(2 * n); err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as for fleets
	s := &soak{bench: b, dir: filepath.Join(b.dir, "soak"), has: make([]atomic.Int64, n), watches: make([]atomic.Pointer[conn], n)}
	var stop func()
	if s.etcd, stop, err = sharedetcd.Run(filepath.Join(s.dir, "etcd")); err != nil {
		return err
	}
	defer stop()
	if s.store, err = clientv3.New(clientv3.Config{Endpoints: []string{s.etcd}, Logger: zap.NewNop()}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	for i := range s.servers {
		if err := s.start(ctx, i); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.servers[i].stop(ctx)) }()
	}
	if err := s.join(ctx, n); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer s.hangUp()
	defer cancel()
	for i := range s.servers {
		s.dialers[i] = newDialer(s.servers[i])
	}
	for i := range s.fleet.agents {
		group.Go(func() { s.live(ctx, i) })
	}
	for i := range soakPages {
		group.Go(func() { s.page(ctx, s.servers[i%2]) })
	}
	group.Go(func() { s.look(ctx) })
	if err := s.work(ctx); err != nil {
		return err
	}
	return s.report()
}

// start starts one of the servers; the first one makes the keys and applies the cluster.
func (s *soak) start(ctx context.Context, i int) (err error) {
	dir := filepath.Join(s.dir, fmt.Sprint("server-", i))
	s.say("soak: starting server %d", i)
	one, err := s.launch(ctx, dir, "--etcd-endpoints", s.etcd, "--encryption-key-file", filepath.Join(s.dir, "encryption.key"))
	if err != nil {
		return err
	}
	s.servers[i] = one
	if i == 0 {
		err = one.prepare(ctx, filepath.Join(s.module, "bin", "drover"), filepath.Join(dir, "data"), dir)
	} else {
		err = one.trust(filepath.Join(dir, "data"))
	}
	if err != nil {
		err = errors.Join(err, one.stop(ctx))
	}
	return err
}

// join registers the machines of the one cluster.
func (s *soak) join(ctx context.Context, n int) (err error) {
	s.fleet = &fleet{server: s.servers[0], agents: make([]*simulated, n), failed: make(chan error, 1)}
	if s.fleet.shared, err = newShared(s.servers[0], n); err != nil {
		return err
	}
	if s.fleet.shared.outcome[plans.KeyProbeStatuses], err = allHealthy(); err != nil {
		return err
	}
	if err := s.next(ctx); err != nil {
		return err
	}
	if err := s.servers[0].apply(ctx, changeCluster); err != nil {
		return err
	}
	if err := s.registerCluster(ctx, s.fleet); err != nil {
		return err
	}
	if s.pages, err = s.servers[0].login(ctx); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	return nil
}

// next begins a round: the file of all machines changes.
func (s *soak) next(ctx context.Context) error {
	content := fmt.Sprintf("round %09d", s.round.Load()+1)
	wanted := []byte(base64.StdEncoding.EncodeToString([]byte(content)))
	s.wanted.Store(&wanted)
	s.round.Add(1)
	return s.servers[s.round.Load()%2].apply(ctx, fmt.Sprintf(changeObject, content))
}

// live is an agent that makes its connection anew, in turn to each server, whenever it ends.
func (s *soak) live(ctx context.Context, i int) {
	a := s.fleet.agents[i]
	a.carried = func(plan []byte) {
		if round := s.round.Load(); bytes.Contains(plan, *s.wanted.Load()) {
			s.has[i].Store(round)
		}
	}
	dialers := [2]*dialer{s.dialers[0].agent(), s.dialers[1].agent()}
	for turn := i; ; turn++ {
		a.dialer, a.watch, a.first = dialers[turn%2], nil, nil
		if a.connect(ctx) == nil {
			s.watches[i].Store(a.watch)
			_ = a.follow(ctx) // it ends in one way or another, and is made anew
		}
		a.watch.close()
		if rest(ctx, time.Second+rand.N(2*time.Second)) != nil {
			return
		}
		s.again.Add(1)
	}
}

// hangUp cuts the connections of all agents.
func (s *soak) hangUp() {
	for i := range s.watches {
		s.watches[i].Load().close()
	}
}

// page is a page that is open for some minutes, again and again.
func (s *soak) page(ctx context.Context, one *server) {
	for ctx.Err() == nil {
		open, cancel := context.WithTimeout(ctx, soakRound+rand.N(3*soakRound))
		request, err := http.NewRequestWithContext(open, http.MethodGet, one.url+allClusters, nil)
		if err == nil {
			request.Header.Set("Accept", "text/event-stream")
			request.Header.Set("Authorization", "Bearer "+s.pages)
			if response, err := one.http.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body) // until its time is over, or its server hangs
				_ = response.Body.Close()
			}
		}
		cancel()
		_ = rest(ctx, time.Second)
	}
}

// work has one round after the other, with one kind of trouble in each.
func (s *soak) work(ctx context.Context) error {
	kinds := []struct {
		name string
		run  func(context.Context) error
	}{{"calm", s.calm}, {"connections are cut", s.cut}, {"the leader hangs", s.hang}, {"the store is copied", s.copyStore}}
	for began := time.Now(); time.Since(began).Hours() < s.hours; {
		round := s.round.Load()
		kind := kinds[round%int64(len(kinds))]
		begun := time.Now()
		trouble := make(chan error, 1)
		go func() { trouble <- kind.run(ctx) }()
		err := s.await(ctx)
		took := time.Since(begun)
		if err := errors.Join(err, <-trouble); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if round > 1 { // the first one is the joining of all
			s.history.add(panelRollOut, kind.name, took.Seconds())
		}
		s.say("soak: round %d took %.1f s; connections made anew: %d, leaders that hung: %d, copies of the store: %d", round, took.Seconds(), s.again.Load(), s.leaders, s.copies)
		if err := rest(ctx, soakRound-time.Since(begun)); err != nil {
			return err
		}
		if err := s.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await waits until all agents have carried the round's plan out.
func (s *soak) await(ctx context.Context) error {
	round := s.round.Load()
	return lookUntil(ctx, soakLimit, 100*time.Millisecond, fmt.Sprintf("round %d on all machines", round), func() (bool, error) {
		for i := range s.has {
			if s.has[i].Load() != round {
				return false, nil
			}
		}
		return true, nil
	})
}

func (s *soak) calm(context.Context) error { return nil }

// cut cuts the connections of every tenth agent while the plans are on their way.
func (s *soak) cut(ctx context.Context) error {
	if err := rest(ctx, 3*time.Second); err != nil {
		return err
	}
	for i := rand.IntN(10); i < len(s.watches); i += 10 {
		s.watches[i].Load().close()
	}
	return nil
}

// hang lets the leader hang until the other server leads.
func (s *soak) hang(ctx context.Context) error {
	for _, one := range s.servers {
		figures, err := one.figures(ctx)
		if err != nil {
			return err
		}
		if figures[leads] == 0 {
			continue
		}
		s.leaders++
		if err := one.process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		return errors.Join(rest(ctx, soakHang), one.process.Signal(syscall.SIGCONT))
	}
	return errors.New("no server leads")
}

// copyStore reads a snapshot of the store to its end, as the backup of an etcd of one's own does.
func (s *soak) copyStore(ctx context.Context) error {
	snapshot, err := s.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if _, err := io.Copy(io.Discard, snapshot); err != nil {
		return err
	}
	s.copies++
	return nil
}
