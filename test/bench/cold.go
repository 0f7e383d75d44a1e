// Many small clusters: how long a server that starts on their data needs until nothing is
// left to do. The machines joined and got their plans before; none of their agents is there
// when the server starts, which is the most that can have changed for its planner.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed/process"
)

const (
	coldMachines = 5 // of each cluster: one with all roles, the others workers
	maxCold      = 10 * time.Second
	maxApplied   = 5 * time.Second
	// quietFor is how long a server uses next to no processor before it counts as done.
	quietFor = 2 * time.Second
)

func (b *bench) coldStarts(ctx context.Context) error {
	for _, n := range b.clusterCounts {
		if err := b.coldStart(ctx, n); err != nil {
			return fmt.Errorf("%d clusters: %w", n, err)
		}
	}
	return nil
}

func (b *bench) coldStart(ctx context.Context, clusters int) (err error) {
	dir := filepath.Join(b.dir, "cold")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx), os.RemoveAll(dir)) }()
	b.say("%d clusters of %d machines: applying and registering", clusters, coldMachines)
	applied, err := b.populate(ctx, s, dir, clusters)
	if err != nil {
		return err
	}
	if err := quiet(ctx, s.process.PID(), nil); err != nil {
		return err
	}
	if err := s.stop(ctx); err != nil {
		return err
	}
	b.say("%d clusters of %d machines: starting the server again", clusters, coldMachines)
	began := time.Now()
	again, err := b.launch(ctx, dir)
	if err != nil {
		return err
	}
	again.admin, again.roots, again.http = s.admin, s.roots, s.http
	s.process, s.url, s.port = again.process, again.url, again.port // which is stopped at the end
	ready := time.Since(began)
	var last time.Time
	if err := quiet(ctx, s.process.PID(), &last); err != nil {
		return err
	}
	took := last.Sub(began)
	used, err := process.ProcessorTime(s.process.PID(), false)
	if err != nil {
		return err
	}
	m, err := memoryOf(s.process.PID())
	if err != nil {
		return err
	}
	if err := s.decided(ctx, clusters); err != nil {
		return err
	}
	name := fmt.Sprintf("%d clusters of %d machines: ", clusters, coldMachines)
	b.clusters.add(clusters, costs{
		"drover apply of all in one file, s": applied.Seconds(), "start until it answers, s": ready.Seconds(),
		"start until nothing is left to do, s": took.Seconds(), "resident memory, MiB": mib(m.resident),
	})
	b.table.measure(name+"drover apply of all in one file", fmt.Sprintf("%.2f s", applied.Seconds()), float64(applied), fmt.Sprintf("≤ %.0f s", maxApplied.Seconds()), float64(maxApplied))
	b.table.measure(name+"cold start until nothing is left to do", fmt.Sprintf("%.2f s", took.Seconds()), float64(took), fmt.Sprintf("≤ %.0f s", maxCold.Seconds()), float64(maxCold))
	b.table.note(name+"of that until it answers; its processor time, memory", fmt.Sprintf("%.2f s; %.2f s, %s", ready.Seconds(), used.Seconds(), inMiB(m.resident)))
	return nil
}

// populate makes the clusters by one file, which takes so long, and lets their machines join.
func (b *bench) populate(ctx context.Context, s *server, dir string, clusters int) (applied time.Duration, err error) {
	var text strings.Builder
	for i := range clusters {
		text.WriteString("---\n" + strings.Replace(clusterYAML, "name: "+clusterName, fmt.Sprintf("name: cold-%d", i), 1))
	}
	file := filepath.Join(dir, "clusters.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return 0, err
	}
	began := time.Now()
	apply := exec.CommandContext(ctx, filepath.Join(b.module, "bin", "drover"), "--data-dir", filepath.Join(dir, "data"), "apply", "-f", file)
	if out, err := apply.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("drover apply: %w\n%.2000s", err, out)
	}
	applied = time.Since(began)
	tokens, err := s.tokens(ctx)
	if err != nil {
		return 0, err
	}
	var joining []string
	for _, token := range tokens {
		if token != s.joining {
			joining = append(joining, token)
		}
	}
	if len(joining) != clusters {
		return 0, fmt.Errorf("%d registration tokens for %d clusters", len(joining), clusters)
	}
	return applied, inParallel(clusters*coldMachines, registerAtOnce, func(i int) error {
		roles := []string{workerRole}
		if i%coldMachines == 0 {
			roles = []string{workerRole, etcdRole, planeRole}
		}
		_, err := s.register(ctx, joining[i/coldMachines], fmt.Sprint("cold-", i), roles...)
		return err
	})
}

// decided checks that each machine is shown as the planner left it: with a plan that its
// agent has not taken, or waiting for one.
func (s *server) decided(ctx context.Context, clusters int) error {
	var list struct {
		Data []struct {
			ID    string `json:"id"`
			State string `json:"droverState"`
		} `json:"data"`
	}
	if err := s.get(ctx, "/v3/nodes?limit=-1", &list); err != nil {
		return err
	}
	states := map[string]int{}
	for _, m := range list.Data {
		states[m.State]++
	}
	if states["Applying plan"] != clusters || states["Waiting for plan"] != clusters*(coldMachines-1) {
		return fmt.Errorf("the machines are shown as %v", states)
	}
	return nil
}

// quiet waits until a process has used next to no processor for a while, and says since when.
func quiet(ctx context.Context, pid int, since *time.Time) error {
	const step, limit = 50 * time.Millisecond, 10 * time.Minute
	began, last := time.Now(), time.Now()
	before, err := process.ProcessorTime(pid, false)
	if err != nil {
		return err
	}
	for time.Since(last) < quietFor {
		if time.Since(began) > limit {
			return fmt.Errorf("the server is still at work after %s", limit)
		}
		if err := rest(ctx, step); err != nil {
			return err
		}
		now, err := process.ProcessorTime(pid, false)
		if err != nil {
			return err
		}
		if now-before > step/2 { // two ticks of the kernel's clock at least
			last, before = time.Now(), now
		}
		if time.Since(last) > quietFor/4 {
			before = now // what an idle server uses does not add up
		}
	}
	if since != nil {
		*since = last
	}
	return nil
}
