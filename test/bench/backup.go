// A backup of a server with many machines, made while plans go out.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/drover-project/drover/plans"
)

const (
	// maxBackup is how long a backup may take.
	maxBackup = 5 * time.Second
	// backupRounds are timed before and at least as many during backups.
	backupRounds  = 200
	backupsTimed  = 3
	backupBetween = 5 * time.Millisecond // plans go out one after the other, as people give them
)

// backup measures backups of a server with the largest number of agents, and what plans wait for it.
func (b *bench) backup(ctx context.Context) (err error) {
	n := slices.Max(b.agents)
	if err := enoughFiles(2 * n); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "backup")
	b.say("backup: starting a server")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx), os.RemoveAll(dir)) }()
	f := &fleet{server: s, agents: make([]*simulated, n), failed: make(chan error, 1)}
	if f.shared, err = newShared(s, n); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer f.close()
	defer cancel()
	if err := errors.Join(b.registerFleet(ctx, f), b.watchFleet(ctx, f)); err != nil {
		return err
	}
	requests, wanted, err := f.plans()
	if err != nil {
		return err
	}
	b.say("backup: each of %d machines gets a plan first", n)
	if _, _, err := b.deliver(ctx, f, requests, wanted); err != nil {
		return err
	}
	calm, err := f.oneByOne(ctx, "calm", func(round int) bool { return round < backupRounds })
	if err != nil {
		return err
	}
	b.say("backup: making %d", backupsTimed)
	type result struct {
		took []time.Duration
		size int64
		err  error
	}
	made := make(chan result, 1)
	go func() {
		var r result
		r.took, r.size, r.err = b.makeBackups(ctx, filepath.Join(dir, "data"), dir)
		made <- r
	}()
	var r result
	ended := false
	busy, err := f.oneByOne(ctx, "busy", func(int) bool {
		select {
		case r = <-made:
			ended = true
		default:
		}
		return !ended
	})
	if !ended {
		r = <-made
	}
	if err := errors.Join(err, r.err); err != nil {
		return err
	}
	longest := slices.Max(r.took)
	name := fmt.Sprintf("backup of a server with %d machines", n)
	b.table.measure(name+", with keys and encrypted: the longest of "+fmt.Sprint(backupsTimed), fmt.Sprintf("%.2f s, %s", longest.Seconds(), inMiB(r.size)), float64(longest), fmt.Sprintf("≤ %g s", maxBackup.Seconds()), float64(maxBackup))
	b.table.latencies(name+": plan written → outcome stored, while none is made", calm, 0)
	b.table.latencies(fmt.Sprintf("%s: the same while they are made (%d plans)", name, len(busy)), busy, 0)
	return nil
}

// makeBackups makes some by the command line, as an operator does.
func (b *bench) makeBackups(ctx context.Context, data, dir string) (took []time.Duration, size int64, err error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, 0, err
	}
	for i := range backupsTimed {
		file := filepath.Join(dir, fmt.Sprintf("backup-%d.tar.age", i))
		command := exec.CommandContext(ctx, filepath.Join(b.module, "bin", "drover"), "server", "backup", "--data-dir", data, "--to", file, "--with-keys", "--encrypt-to", key.Recipient().String())
		began := time.Now()
		if out, err := command.CombinedOutput(); err != nil {
			return nil, 0, fmt.Errorf("drover server backup: %w: %s", err, out)
		}
		took = append(took, time.Since(began))
		info, err := os.Stat(file)
		if err != nil {
			return nil, 0, err
		}
		size = info.Size()
	}
	return took, size, nil
}

// oneByOne times single plans, each from its writing until its outcome is stored.
func (f *fleet) oneByOne(ctx context.Context, what string, more func(round int) bool) (all []time.Duration, err error) {
	c, err := f.shared.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var buffer []byte
	for round := 0; more(round); round++ {
		a := f.agents[round%len(f.agents)]
		plan, err := rolledOut(fmt.Sprintf("%s-%s-%d", a.secret, what, round))
		if err != nil {
			return nil, err
		}
		body, err := patch(plan, false)
		if err != nil {
			return nil, err
		}
		wanted := map[string]bool{plans.Checksum(plan): true}
		began := time.Now()
		if buffer, err = c.ask(request(nil, http.MethodPatch, a.path(), f.server.admin, "application/merge-patch+json", body), buffer); err != nil {
			return nil, fmt.Errorf("write the plan of %s: %w", a.secret, err)
		}
		if err := f.await(ctx, wanted); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backupBetween):
		}
	}
	return all, nil
}
