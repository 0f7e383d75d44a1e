// How often an agent waits for the disk for one plan, counted by strace.

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// syncPlans is how many plans of each kind are counted.
	syncPlans = 10
	// attached is how long strace may take to attach to a process with all its threads.
	attached = time.Second
)

// syncs counts the syncs of the agent and its supervisors for a plan of each kind.
func (b *bench) syncs(ctx context.Context, t *timing) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		b.table.note("syncs of one plan", "strace is not installed")
		return nil
	}
	for _, k := range kinds[:2] {
		n, err := countSyncs(ctx, strace, t, k)
		if err != nil {
			return fmt.Errorf("count syncs: %w", err)
		}
		b.table.note("agent: syncs of one plan of "+k.name, fmt.Sprintf("%.1f", n))
	}
	return nil
}

func countSyncs(ctx context.Context, strace string, t *timing, k kind) (float64, error) {
	out := filepath.Join(t.agent.dir, "strace")
	pid := t.agent.process.PID()
	args := []string{"-f", "-qq", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o", out, "-p", fmt.Sprint(pid)}
	for _, child := range childrenOf(pid) {
		args = append(args, "-p", child)
	}
	cmd := exec.CommandContext(ctx, strace, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if err := rest(ctx, attached); err != nil {
		return 0, err
	}
	for range syncPlans {
		if err := rest(ctx, pause); err != nil {
			return 0, err
		}
		if err := t.round(ctx, k, &figures{}); err != nil {
			return 0, err
		}
	}
	if err := rest(ctx, pause); err != nil {
		return 0, err
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		return 0, fmt.Errorf("%w: %s", err, said.String())
	}
	_ = cmd.Wait() // it ends by the signal
	trace, err := os.ReadFile(out)
	if err != nil {
		return 0, err
	}
	count := 0
	for line := range strings.Lines(string(trace)) {
		if strings.Contains(line, "sync(") || strings.Contains(line, "syncfs(") {
			count++
		}
	}
	return float64(count) / syncPlans, nil
}

// childrenOf are the numbers of a process's children.
func childrenOf(pid int) []string {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var all []string
	for _, list := range lists {
		if b, err := os.ReadFile(list); err == nil {
			all = append(all, strings.Fields(string(b))...)
		}
	}
	return all
}
