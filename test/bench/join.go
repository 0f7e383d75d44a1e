// One cluster of thousands: what a server spends from its start until all machines have
// joined by one token and carried a new plan out. Nothing is settled or collected in
// between, so that the processor time is that of the work alone.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/drover-project/drover/test/bed/process"
)

// Budgets for 5,000 machines on two cores, where the simulated agents work too.
const (
	joinAgents  = 5000
	maxJoinRoll = 4 * time.Second
	maxJoinCPU  = 6 * time.Second
	maxJoinMiB  = 400
)

func (b *bench) join(ctx context.Context) (err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as for fleets
	if err := enoughFiles(2 * joinAgents); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "join")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx), os.RemoveAll(dir)) }()
	f := &fleet{server: s, agents: make([]*simulated, joinAgents), failed: make(chan error, 1)}
	if f.shared, err = newShared(s, joinAgents); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer f.close()
	defer cancel()
	const profiled = 20 * time.Second // from the beginning of the roll-out on
	profile := func() error { return nil }
	var used [4]time.Duration
	var registering, connecting, rolling time.Duration
	stages := []func() error{
		func() error { return nil },
		func() error { return b.registerFleet(ctx, f) },
		func() error { return b.watchFleet(ctx, f) },
		func() error {
			requests, wanted, err := f.plans()
			if err != nil {
				return err
			}
			profile = b.startProfile(ctx, s, "join", profiled)
			b.say("%d agents: rolling a plan out", joinAgents)
			if _, rolling, err = b.deliver(ctx, f, requests, wanted); err != nil {
				return err
			}
			return nil
		},
	}
	took := [4]*time.Duration{new(time.Duration), &registering, &connecting, new(time.Duration)}
	for i, stage := range stages {
		began := time.Now()
		if err := stage(); err != nil {
			return err
		}
		*took[i] = time.Since(began)
		if used[i], err = process.ProcessorTime(s.process.PID(), false); err != nil {
			return err
		}
	}
	after, err := memoryOf(s.process.PID())
	if err != nil {
		return err
	}
	if b.profile != "" {
		text, err := s.profile(ctx, "heap?debug=1")
		if err != nil {
			return err
		}
		kept, err := s.profile(ctx, "heap?gc=1")
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(filepath.Join(b.profile, "memstats-join.txt"), text, 0o600),
			os.WriteFile(filepath.Join(b.profile, "kept-join.pprof"), kept, 0o600)); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%d machines join one cluster: ", joinAgents)
	b.table.measure(name+"new plan to all, all reported back", fmt.Sprintf("%.2f s", rolling.Seconds()), float64(rolling), fmt.Sprintf("≤ %.0f s", maxJoinRoll.Seconds()), float64(maxJoinRoll))
	b.table.measure(name+"processor time of the server since its start", fmt.Sprintf("%.2f s", used[3].Seconds()), float64(used[3]), fmt.Sprintf("≤ %.0f s", maxJoinCPU.Seconds()), float64(maxJoinCPU))
	b.table.note(name+"of that to start, register, connect, roll out",
		fmt.Sprintf("%.2f s, %.2f s, %.2f s, %.2f s", used[0].Seconds(), (used[1]-used[0]).Seconds(), (used[2]-used[1]).Seconds(), (used[3]-used[2]).Seconds()))
	b.table.note(name+"registered, connected within", fmt.Sprintf("%.1f s, %.1f s", registering.Seconds(), connecting.Seconds()))
	b.table.measure(name+"server memory after that (resident)", fmt.Sprintf("%s (of it anonymous %s)", inMiB(after.resident), inMiB(after.anonymous)),
		mib(after.resident), fmt.Sprintf("≤ %d MiB", maxJoinMiB), maxJoinMiB)
	return profile()
}
