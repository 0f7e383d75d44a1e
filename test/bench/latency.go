// How long a plan takes on one real agent: from the server, and from the directory.

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans"
)

// Budgets of one plan on one machine, as medians.
const (
	maxRunning = 15 * time.Millisecond
	maxStored  = 25 * time.Millisecond
	maxDropped = 20 * time.Millisecond
)

const (
	// pause between two plans, so that none meets what the one before left to do.
	pause = 100 * time.Millisecond
	// longRest is when an agent has closed the connection of its last report.
	longRest = 25 * time.Second
	// lost is when a plan will not come any more.
	lost = 30 * time.Second
	// warmUp is how many plans come before the timed ones.
	warmUp = 3
)

// at is a text and when it came.
type at struct {
	text string
	time time.Time
}

// latency times plans that are written on the server.
func (b *bench) latency(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "latency")
	s, m, err := b.oneMachine(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	a, err := b.startAgent(ctx, s, m, filepath.Join(dir, "agent"), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop(ctx)) }()
	if err := b.idleAgent(ctx, a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &timing{server: s, machine: m, outcomes: make(chan at, 10)}
	if t.fifo, t.lines, err = openFIFO(ctx, dir); err != nil {
		return err
	}
	watched := make(chan error, 1)
	watch, err := t.openWatch(ctx)
	if err != nil {
		return err
	}
	go func() { watched <- t.watch(ctx, watch) }()
	defer func() { cancel(); <-watched }()
	b.say("%d plans on one real agent", b.rounds)
	warm, err := t.rounds(ctx, b.rounds, pause)
	if err != nil {
		return fmt.Errorf("%w; the end of the agent's log:\n%s", err, tail(filepath.Join(a.dir, "agent.log")))
	}
	b.table.latencies("plan written (request sent) → instruction running", warm.running, maxRunning)
	b.table.latencies("plan written (request answered) → instruction running", warm.runningAfterAnswer, 0)
	b.table.latencies("plan written (request sent) → outcome stored", warm.stored, maxStored)
	b.table.latencies("plan written (request answered) → outcome stored", warm.storedAfterAnswer, 0)
	if b.cold == 0 {
		return nil
	}
	b.say("%d plans after a rest of %s each", b.cold, longRest)
	cold, err := t.rounds(ctx, b.cold, longRest)
	if err != nil {
		return err
	}
	b.table.latencies(fmt.Sprintf("same after %s of rest → instruction running", longRest), cold.running, 0)
	b.table.latencies(fmt.Sprintf("same after %s of rest → outcome stored", longRest), cold.stored, 0)
	return nil
}

// oneMachine is a server with one registered machine.
func (b *bench) oneMachine(ctx context.Context, dir string) (*server, machine, error) {
	b.say("starting a server and one agent")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return nil, machine{}, err
	}
	m, err := s.register(ctx, "bench-one")
	if err != nil {
		return nil, machine{}, errors.Join(err, s.stop(ctx))
	}
	return s, m, nil
}

// timing is one machine whose plans are timed.
type timing struct {
	server   *server
	machine  machine
	fifo     string
	lines    chan at // what instructions wrote
	outcomes chan at // checksums of plans that the server knows to be done
	count    int
}

// figures are one entry a round.
type figures struct{ running, runningAfterAnswer, stored, storedAfterAnswer []time.Duration }

func (t *timing) rounds(ctx context.Context, n int, pause time.Duration) (f figures, err error) {
	if t.count == 0 {
		n += warmUp
	}
	for range n {
		if err := rest(ctx, pause); err != nil {
			return f, err
		}
		if err := t.round(ctx, &f); err != nil {
			return f, fmt.Errorf("plan %d: %w", t.count, err)
		}
		if t.count <= warmUp {
			f = figures{}
		}
	}
	return f, nil
}

// round writes one plan and takes the times of what follows.
func (t *timing) round(ctx context.Context, f *figures) error {
	t.count++
	word := fmt.Sprint("plan-", t.count)
	plan, err := writing(word, t.fifo)
	if err != nil {
		return err
	}
	body, err := patch(plan)
	if err != nil {
		return err
	}
	sent := time.Now()
	if _, err := t.server.ask(ctx, http.MethodPatch, t.machine.path(), "application/merge-patch+json", bytes.NewReader(body)); err != nil {
		return err
	}
	answered := time.Now()
	running, err := await(ctx, t.lines, word, "the instruction's line")
	if err != nil {
		return err
	}
	stored, err := await(ctx, t.outcomes, plans.Checksum(plan), "the outcome")
	if err != nil {
		return err
	}
	f.running = append(f.running, running.Sub(sent))
	f.runningAfterAnswer = append(f.runningAfterAnswer, running.Sub(answered))
	f.stored = append(f.stored, stored.Sub(sent))
	f.storedAfterAnswer = append(f.storedAfterAnswer, stored.Sub(answered))
	return nil
}

// await is when a text comes; others are left over from before.
func await(ctx context.Context, from <-chan at, text, what string) (time.Time, error) {
	timeout := time.NewTimer(lost)
	defer timeout.Stop()
	for {
		select {
		case got, ok := <-from:
			if !ok {
				return time.Time{}, fmt.Errorf("wait for %s: nothing comes any more", what)
			}
			if got.text == text {
				return got.time, nil
			}
		case <-timeout.C:
			return time.Time{}, fmt.Errorf("%s did not come within %s", what, lost)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// writing is a plan with one instruction that writes a line to a named pipe.
func writing(word, fifo string) ([]byte, error) {
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: "say", Command: "/bin/sh", Args: []string{"-c", "echo " + word + " > " + fifo}}, SaveOutput: true,
	}}}
	return p.Marshal()
}

// patch is the merge patch by which a planner delivers a plan.
func patch(plan []byte) ([]byte, error) {
	data := map[string]any{}
	for key, value := range plans.Deliver(map[string][]byte{plans.KeyFailureCount: nil, plans.KeyFailedOutput: nil, plans.KeyFailedChecksum: nil}, plan) {
		data[key] = value
	}
	data[plans.KeyProbeStatuses] = nil
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{
			"rke.cattle.io/plan-last-updated": time.Now().UTC().Format(time.RFC3339), "rke.cattle.io/plan-probes-passed": "",
		}},
		"data": data,
	})
}

// openFIFO makes a named pipe and reads its lines until ctx ends.
func openFIFO(ctx context.Context, dir string) (path string, lines chan at, err error) {
	path = filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return "", nil, fmt.Errorf("make a named pipe: %w", err)
	}
	// Opened for both, it neither waits for the first writer nor ends with the last.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	lines = make(chan at, 10)
	context.AfterFunc(ctx, func() { _ = f.Close() })
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(f); scanner.Scan(); {
			lines <- at{scanner.Text(), time.Now()}
		}
	}()
	return path, lines, nil
}

// openWatch watches the plan Secret as the administrator.
func (t *timing) openWatch(ctx context.Context) (*http.Response, error) {
	var secret struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := t.server.get(ctx, t.machine.path(), &secret); err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/secrets?watch=true&fieldSelector=metadata.name%%3D%s&resourceVersion=%s&timeoutSeconds=3600",
		t.machine.namespace, t.machine.secret, secret.Metadata.ResourceVersion)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.server.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+t.server.admin)
	response, err := t.server.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("watch as the administrator: %s", response.Status), response.Body.Close())
	}
	return response, nil
}

// watch tells of each plan that is done.
func (t *timing) watch(ctx context.Context, response *http.Response) error {
	defer close(t.outcomes)
	defer response.Body.Close()
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadBytes('\n')
		came := time.Now()
		if err != nil {
			return err
		}
		var event struct {
			Object struct {
				Data map[string][]byte `json:"data"`
			} `json:"object"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		data := event.Object.Data
		sum := plans.Checksum(data[plans.KeyPlan])
		if plans.State(data[plans.KeyPlanState]) != plans.StateSucceeded || string(data[plans.KeyAppliedChecksum]) != sum {
			continue
		}
		select {
		case t.outcomes <- at{sum, came}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drop times plans that are put into the agent's directory.
func (b *bench) drop(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "drop")
	s, m, err := b.oneMachine(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	a, err := b.startAgent(ctx, s, m, filepath.Join(dir, "agent"), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop(ctx)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fifo, lines, err := openFIFO(ctx, dir)
	if err != nil {
		return err
	}
	b.say("%d plans dropped in the directory", b.rounds)
	var all []time.Duration
	for i := range b.rounds + warmUp {
		if err := rest(ctx, pause); err != nil {
			return err
		}
		took, err := dropOne(ctx, a, fifo, lines, i)
		if err != nil {
			return fmt.Errorf("%w; the end of the agent's log:\n%s", err, tail(filepath.Join(a.dir, "agent.log")))
		}
		if i >= warmUp {
			all = append(all, took)
		}
	}
	b.table.latencies("plan dropped in the directory → instruction running", all, maxDropped)
	return nil
}

// dropOne puts a plan in place of the one before, as a careful writer does: at once.
func dropOne(ctx context.Context, a *agent, fifo string, lines <-chan at, i int) (time.Duration, error) {
	word := fmt.Sprint("drop-", i)
	plan, err := writing(word, fifo)
	if err != nil {
		return 0, err
	}
	written := filepath.Join(a.dir, "next")
	if err := os.WriteFile(written, plan, 0o600); err != nil {
		return 0, err
	}
	dropped := time.Now()
	if err := os.Rename(written, filepath.Join(a.plans(), "bench.plan")); err != nil {
		return 0, err
	}
	running, err := await(ctx, lines, word, "the instruction's line")
	return running.Sub(dropped), err
}

// checksum is the hex SHA-256 of a plan without an allocation for each agent.
func checksum(into []byte, plan []byte) []byte {
	sum := sha256.Sum256(plan)
	return hex.AppendEncode(into, sum[:])
}
