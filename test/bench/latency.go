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
	"github.com/drover-project/drover/test/bed/process"
)

// Budgets of one plan on one machine, as medians.
const (
	maxRunning = 12 * time.Millisecond
	maxStored  = 20 * time.Millisecond
	maxDropped = 20 * time.Millisecond
)

const (
	// pause between two plans, so that none meets what the one before left to do.
	pause = 100 * time.Millisecond
	// peerPause is the same beside an agent that asks a server five times a second at most.
	peerPause = 500 * time.Millisecond
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

// kind is a kind of plans that are timed.
type kind struct {
	name   string
	files  int
	legacy bool // without a plan-state, as servers before it deliver
}

// The kinds. The first is what the rows without a kind's name are of.
var kinds = []kind{{name: "one instruction"}, {name: "ten files and one instruction", files: 10}, {name: "one instruction, no plan-state", legacy: true}, {name: "ten files and one instruction, no plan-state", files: 10, legacy: true}}

// latency times plans that are written on the server, for drover's agent and, in turn with
// it, for another one.
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
	ours, err := startTiming(ctx, s, m, a)
	defer func() { cancel(); ours.wait() }()
	if err != nil {
		return err
	}
	timed, between := []*timing{ours}, pause
	if b.peer != "" {
		between = peerPause
		other, stop, err := b.startPeer(ctx, s, filepath.Join(dir, "peer"))
		defer stop()
		if err != nil {
			return err
		}
		timed = append(timed, other)
	}
	for _, k := range kinds {
		b.say("%d plans of %s on %d real agents", b.rounds, k.name, len(timed))
		all, err := rounds(ctx, timed, k, b.rounds, between)
		if err != nil {
			return fmt.Errorf("%w; the end of the agent's log:\n%s", err, tail(filepath.Join(a.dir, "agent.log")))
		}
		b.show(k, all)
		b.beside(k, all)
	}
	if err := b.syncs(ctx, ours); err != nil {
		return err
	}
	if b.cold == 0 {
		return nil
	}
	b.say("%d plans after a rest of %s each", b.cold, longRest)
	all, err := rounds(ctx, timed, kinds[0], b.cold, longRest)
	if err != nil {
		return err
	}
	for i, who := range whose[:len(all)] {
		b.table.latencies(fmt.Sprintf("%ssame after %s of rest → instruction running", who, longRest), all[i].running, 0)
		b.table.latencies(fmt.Sprintf("%ssame after %s of rest → outcome stored", who, longRest), all[i].stored, 0)
	}
	return nil
}

// whose are the beginnings of rows.
var whose = []string{"", "the other agent: "}

// show makes rows of figures, one set an agent.
func (b *bench) show(k kind, all []figures) {
	for i, f := range all {
		who, running, stored := whose[i], maxRunning, maxStored
		if i > 0 {
			running, stored = 0, 0
		}
		if k == kinds[0] {
			b.table.latencies(who+"plan written (request sent) → instruction running", f.running, running)
			b.table.latencies(who+"plan written (request answered) → instruction running", f.runningAfterAnswer, 0)
			b.table.latencies(who+"plan written (request sent) → outcome stored", f.stored, stored)
			b.table.latencies(who+"plan written (request answered) → outcome stored", f.storedAfterAnswer, 0)
			continue
		}
		b.table.latencies(fmt.Sprintf("%splan of %s (request sent) → instruction running", who, k.name), f.running, 0)
		b.table.latencies(fmt.Sprintf("%splan of %s (request sent) → outcome stored", who, k.name), f.stored, 0)
	}
}

// beside makes rows of our figures beside the other agent's, round by round, and of what an apply costs.
func (b *bench) beside(k kind, all []figures) {
	for i, f := range all {
		b.table.note(fmt.Sprintf("%splan of %s → processor time of an apply, children included", whose[i], k.name), inMillis(f.processor))
	}
	if len(all) < 2 {
		return
	}
	pairs := func(what string, ours, theirs []time.Duration) {
		var more []time.Duration
		for round := range ours {
			more = append(more, ours[round]-theirs[round])
		}
		b.table.latencies(fmt.Sprintf("more than the other agent, in pairs: plan of %s → %s", k.name, what), more, 0)
	}
	pairs("instruction running", all[0].running, all[1].running)
	pairs("outcome stored", all[0].stored, all[1].stored)
}

// startPeer starts the other agent on a machine of its own.
func (b *bench) startPeer(ctx context.Context, s *server, dir string) (t *timing, stop func(), err error) {
	stop = func() {}
	m, err := s.register(ctx, s.joining, "bench-peer", workerRole)
	if err != nil {
		return nil, stop, err
	}
	a, err := b.startProgram(ctx, s, m, dir, false, b.peer, 1)
	if err != nil {
		return nil, stop, err
	}
	t, err = startTiming(ctx, s, m, a)
	return t, func() {
		if err := a.stop(ctx); err != nil {
			b.say("the other agent does not stop: %v", err)
		}
	}, err
}

// oneMachine is a server with one registered machine.
func (b *bench) oneMachine(ctx context.Context, dir string) (*server, machine, error) {
	b.say("starting a server and one agent")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return nil, machine{}, err
	}
	m, err := s.register(ctx, s.joining, "bench-one", workerRole)
	if err != nil {
		return nil, machine{}, errors.Join(err, s.stop(ctx))
	}
	return s, m, nil
}

// timing is one machine whose plans are timed.
type timing struct {
	server   *server
	machine  machine
	agent    *agent
	fifo     string
	lines    chan at // what instructions wrote
	outcomes chan at // checksums of plans that the server knows to be done
	watched  chan error
	count    int
}

// startTiming follows what a machine's agent does until ctx ends.
func startTiming(ctx context.Context, s *server, m machine, a *agent) (t *timing, err error) {
	t = &timing{server: s, machine: m, agent: a, outcomes: make(chan at, 10), watched: make(chan error, 1)}
	if t.fifo, t.lines, err = openFIFO(ctx, a.dir); err != nil {
		return t, err
	}
	watch, err := t.openWatch(ctx)
	if err != nil {
		return t, err
	}
	go func() { t.watched <- t.watch(ctx, watch); close(t.watched) }()
	return t, nil
}

// wait returns once nothing is followed any more, if it ever was.
func (t *timing) wait() {
	if t != nil && t.lines != nil {
		select {
		case <-t.watched:
		case <-time.After(lost):
		}
	}
}

// figures are one entry a round.
type figures struct {
	running, runningAfterAnswer, stored, storedAfterAnswer []time.Duration
	processor                                              time.Duration // of one round, on average
}

// rounds times n plans of a kind on each agent, in turn.
func rounds(ctx context.Context, timed []*timing, k kind, n int, pause time.Duration) ([]figures, error) {
	all, used := make([]figures, len(timed)), make([]time.Duration, len(timed))
	for round := range n + warmUp {
		if round == warmUp {
			for i, t := range timed {
				var err error
				if used[i], err = process.ProcessorTime(t.agent.process.PID(), true); err != nil {
					return all, err
				}
			}
		}
		for i, t := range timed {
			if err := rest(ctx, pause); err != nil {
				return all, err
			}
			var f figures
			if err := t.round(ctx, k, &f); err != nil {
				return all, fmt.Errorf("plan %d: %w", t.count, err)
			}
			if round >= warmUp {
				all[i].running = append(all[i].running, f.running...)
				all[i].runningAfterAnswer = append(all[i].runningAfterAnswer, f.runningAfterAnswer...)
				all[i].stored = append(all[i].stored, f.stored...)
				all[i].storedAfterAnswer = append(all[i].storedAfterAnswer, f.storedAfterAnswer...)
			}
		}
	}
	for i, t := range timed {
		now, err := process.ProcessorTime(t.agent.process.PID(), true)
		if err != nil {
			return all, err
		}
		all[i].processor = (now - used[i]) / time.Duration(n)
	}
	return all, nil
}

// round writes one plan and takes the times of what follows.
func (t *timing) round(ctx context.Context, k kind, f *figures) error {
	t.count++
	word := fmt.Sprint("plan-", t.count)
	p := writing(word, t.fifo)
	for i := range k.files {
		p.Files = append(p.Files, plans.File{
			Path: filepath.Join(t.agent.dir, "files", fmt.Sprint(i)), Content: plans.EncodeContent(fmt.Appendf(nil, "%s, file %d", word, i)),
		})
	}
	plan, err := p.Marshal()
	if err != nil {
		return err
	}
	body, err := patch(plan, k.legacy)
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
func writing(word, fifo string) plans.Plan {
	return plans.Plan{Instructions: []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: "say", Command: "/bin/sh", Args: []string{"-c", "echo " + word + " > " + fifo}}, SaveOutput: true,
	}}}
}

// patch is the merge patch by which a planner delivers a plan, or an old one that knows no states.
func patch(plan []byte, legacy bool) ([]byte, error) {
	data := map[string]any{}
	for key, value := range plans.Deliver(map[string][]byte{plans.KeyFailureCount: nil, plans.KeyFailedOutput: nil, plans.KeyFailedChecksum: nil}, plan) {
		data[key] = value
	}
	data[plans.KeyProbeStatuses] = nil
	if legacy {
		data[plans.KeyPlanState] = nil
	}
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

// watch sends each plan that is done.
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
		state := plans.State(data[plans.KeyPlanState])
		if state != plans.StateSucceeded && state != plans.StateNone || string(data[plans.KeyAppliedChecksum]) != sum {
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
	plan, err := writing(word, fifo).Marshal()
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
