// Thousands of agents on one server: what each of them costs while nothing happens, and
// how long a new plan takes to all of them and back.

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	runtimepprof "runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed/process"
)

// Budgets of a server. The roll-out's hold for 5,000 agents on two cores, and are asked of
// fewer agents in proportion.
const (
	maxIdleAgent   = 40 << 10 // bytes
	budgetAgents   = 5000
	maxRollOut     = 6 * time.Second
	maxAfter       = 400 // MiB
	rollOutLimit   = 5 * time.Minute
	connectAtOnce  = 32
	idleFor        = 3 * time.Minute // time enough for the server to give memory back
	registerAtOnce = 64
)

// fleets measures each number of agents on a server of its own.
func (b *bench) fleets(ctx context.Context) error {
	// The simulated agents are not what is measured: their garbage shall not take the server's processors.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, n := range b.agents {
		tooMany := enoughFiles(2 * n) // in a roll-out an agent has a second connection
		if tooMany != nil {
			if err := enoughFiles(n); err != nil {
				return err
			}
		}
		f, err := b.fleet(ctx, n, tooMany)
		if err != nil {
			return fmt.Errorf("%d agents: %w", n, err)
		}
		b.machines.add(n, f.costs)
		debug.FreeOSMemory()
	}
	return nil
}

// fleet is one server and its simulated agents.
type fleet struct {
	server *server
	shared *shared
	agents []*simulated
	failed chan error // the first agent that cannot go on
	group  sync.WaitGroup
	costs  costs
}

// fleet measures one. No plan is rolled out where tooMany says why.
func (b *bench) fleet(ctx context.Context, n int, tooMany error) (f *fleet, err error) {
	dir := filepath.Join(b.dir, fmt.Sprint("fleet-", n))
	b.say("%d agents: starting a server", n)
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop(ctx), os.RemoveAll(dir)) }()
	f = &fleet{server: s, agents: make([]*simulated, n), failed: make(chan error, 1), costs: costs{}}
	if f.shared, err = newShared(s, n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer f.close()
	defer cancel()
	if err := b.connectFleet(ctx, f); err != nil {
		return nil, err
	}
	if tooMany != nil {
		b.table.note(fmt.Sprintf("%d agents: new plan to all", n), "not measured: "+tooMany.Error())
		return f, nil
	}
	return f, b.rollOut(ctx, f)
}

// connectFleet registers and connects all agents, and measures what that costs the server.
func (b *bench) connectFleet(ctx context.Context, f *fleet) error {
	n := len(f.agents)
	empty, emptyHeap, err := f.server.settled(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.registerFleet(ctx, f); err != nil {
		return err
	}
	registering := time.Since(began)
	f.server.http.CloseIdleConnections()
	registered, registeredHeap, err := f.server.settled(ctx)
	if err != nil {
		return err
	}
	began = time.Now()
	if err := b.watchFleet(ctx, f); err != nil {
		return err
	}
	connecting := time.Since(began)
	watching, watchingHeap, err := f.server.settled(ctx)
	if err != nil {
		return err
	}
	perAgent := func(after, before int64) float64 { return float64(after-before) / float64(n) }
	name := fmt.Sprintf("%d agents: ", n)
	idle := perAgent(watching.resident, registered.resident)
	b.table.measure(name+"server memory for one idle agent (resident)", kib(idle), idle, "≤ 40 KiB", maxIdleAgent)
	b.table.note(name+"of that in use by the server's heap, stacks",
		kib(perAgent(watchingHeap.live, registeredHeap.live))+", "+kib(perAgent(watchingHeap.stacks, registeredHeap.stacks)))
	all := perAgent(watching.resident, empty.resident)
	b.table.measure(name+"same with the documents of its machine (resident)", kib(all), all, "≤ 40 KiB", maxIdleAgent)
	b.table.note(name+"of that in use by the server's heap, stacks",
		kib(perAgent(watchingHeap.live, emptyHeap.live))+", "+kib(perAgent(watchingHeap.stacks, emptyHeap.stacks)))
	b.table.note(name+"registered, connected within", fmt.Sprintf("%.1f s, %.1f s", registering.Seconds(), connecting.Seconds()))
	used, err := process.ProcessorTime(f.server.process.PID(), false)
	if err != nil {
		return err
	}
	if err := rest(ctx, idleFor); err != nil {
		return err
	}
	after, err := process.ProcessorTime(f.server.process.PID(), false)
	if err != nil {
		return err
	}
	rested, err := memoryOf(f.server.process.PID())
	if err != nil {
		return err
	}
	f.costs["idle: resident memory, MiB"] = mib(rested.resident)
	f.costs["idle: processor, % of a core"] = 100 * float64(after-used) / float64(idleFor)
	b.table.note(name+"all idle for three minutes: server memory (resident); processor time, of one core",
		fmt.Sprintf("%s (of it anonymous %s); %.2f s, %.1f %%", inMiB(rested.resident), inMiB(rested.anonymous), (after-used).Seconds(), 100*float64(after-used)/float64(idleFor)))
	return nil
}

// registerFleet lets all machines join the one cluster by its token.
func (b *bench) registerFleet(ctx context.Context, f *fleet) error {
	b.say("%d agents: registering", len(f.agents))
	// All of them come from one address, which is allowed so many.
	for _, name := range []string{"registration-rate-per-minute", "registration-quota"} {
		if _, err := f.server.ask(ctx, http.MethodPut, "/v3/settings/"+name, "application/json", strings.NewReader(`{"value":"0"}`)); err != nil {
			return err
		}
	}
	err := inParallel(len(f.agents), registerAtOnce, func(i int) error {
		m, err := f.server.register(ctx, f.server.joining, fmt.Sprint("bench-", i), workerRole)
		f.agents[i] = &simulated{machine: m, shared: f.shared, dialer: f.shared.dialer.agent()}
		return err
	})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// watchFleet connects all agents, which carry plans out from then on.
func (b *bench) watchFleet(ctx context.Context, f *fleet) error {
	b.say("%d agents: connecting", len(f.agents))
	if err := inParallel(len(f.agents), connectAtOnce, func(i int) error { return f.agents[i].connect(ctx) }); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for _, a := range f.agents {
		f.group.Go(func() { f.fail(ctx, a.follow(ctx)) })
	}
	return nil
}

// rollOut measures a new plan to all agents until the outcomes of all are stored.
func (b *bench) rollOut(ctx context.Context, f *fleet) error {
	n := len(f.agents)
	requests, wanted, err := f.plans()
	if err != nil {
		return err
	}
	profiled := b.startProfile(ctx, f.server, fmt.Sprint(n), 10*time.Second)
	cpu, err := process.ProcessorTime(f.server.process.PID(), false)
	if err != nil {
		return err
	}
	ownCPU, err := process.ProcessorTime(os.Getpid(), false)
	if err != nil {
		return err
	}
	b.say("%d agents: rolling a plan out", n)
	written, took, err := b.deliver(ctx, f, requests, wanted)
	if err != nil {
		return err
	}
	used, err := process.ProcessorTime(f.server.process.PID(), false)
	if err != nil {
		return err
	}
	ownUsed, err := process.ProcessorTime(os.Getpid(), false)
	if err != nil {
		return err
	}
	after, err := memoryOf(f.server.process.PID())
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d agents: ", n)
	limit := maxRollOut * time.Duration(n) / budgetAgents
	f.costs["new plan to all, reported back, s"] = took.Seconds()
	f.costs["the same: processor time, s"] = (used - cpu).Seconds()
	f.costs["after it: resident memory, MiB"] = mib(after.resident)
	b.table.measure(name+"new plan to all, all reported back", fmt.Sprintf("%.2f s", took.Seconds()), float64(took), fmt.Sprintf("≤ %.1f s", limit.Seconds()), float64(limit))
	b.table.note(name+"of that until the last plan was written", fmt.Sprintf("%.2f s", written.Seconds()))
	b.table.note(name+"processor time of the server, of the simulated agents", fmt.Sprintf("%.2f s, %.2f s", (used-cpu).Seconds(), (ownUsed-ownCPU).Seconds()))
	b.table.measure(name+"server memory after that (resident)", fmt.Sprintf("%s (of it anonymous %s)", inMiB(after.resident), inMiB(after.anonymous)),
		mib(after.resident), fmt.Sprintf("≤ %d MiB", maxAfter), maxAfter)
	settled, h, err := f.server.settled(ctx)
	if err != nil {
		return err
	}
	b.table.note(name+"at its highest; once settled, of that heap in use", inMiB(settled.peak)+"; "+inMiB(settled.resident)+", "+inMiB(h.live))
	if err := profiled(); err != nil {
		return err
	}
	return f.verify(ctx, wanted)
}

// deliver writes the plans of all agents as fast as the writers can and waits until all are
// reported back: when the last was written, and when the last report was stored.
func (b *bench) deliver(ctx context.Context, f *fleet, requests [][]byte, wanted map[string]bool) (written, took time.Duration, err error) {
	writers := make([]*conn, min(b.writers, len(requests)))
	for i := range writers {
		if writers[i], err = f.shared.dialer.dial(ctx); err != nil {
			return 0, 0, err
		}
		defer writers[i].close()
	}
	next := make(chan int, len(requests))
	for i := range requests {
		next <- i
	}
	close(next)
	began := time.Now()
	var group sync.WaitGroup
	for _, c := range writers {
		group.Go(func() {
			var buffer []byte
			for i := range next {
				var err error
				if buffer, err = c.ask(requests[i], buffer); err != nil {
					f.fail(ctx, fmt.Errorf("write the plan of %s: %w", f.agents[i].secret, err))
					return
				}
			}
		})
	}
	group.Wait()
	written = time.Since(began)
	err = f.await(ctx, wanted)
	return written, time.Since(began), err
}

// plans is the request that writes each agent's plan, and the checksums of the plans.
func (f *fleet) plans() (requests [][]byte, wanted map[string]bool, err error) {
	wanted = make(map[string]bool, len(f.agents))
	for _, a := range f.agents {
		plan, err := rolledOut(a.secret)
		if err != nil {
			return nil, nil, err
		}
		body, err := patch(plan, false)
		if err != nil {
			return nil, nil, err
		}
		wanted[plans.Checksum(plan)] = true
		requests = append(requests, request(nil, http.MethodPatch, a.path(), f.server.admin, "application/merge-patch+json", body))
	}
	return requests, wanted, nil
}

// rolledOut is a plan of the size and form that a k3s worker gets, different for each machine.
func rolledOut(name string) ([]byte, error) {
	config := fmt.Sprintf("{\n  \"node-name\": %q,\n  \"server\": \"https://10.0.0.1:9345\",\n  \"token\": %q\n}\n", name, strings.Repeat("t", 54))
	file := func(path, content string) plans.File {
		return plans.File{Path: path, Content: base64.StdEncoding.EncodeToString([]byte(content)), Permissions: "600"}
	}
	p := plans.Plan{
		Files: []plans.File{
			file("/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", config),
			file("/etc/rancher/k3s/registries.yaml", strings.Repeat("# mirrors of this site\n", 20)),
			file("/var/lib/rancher/k3s/server/manifests/rancher/cluster-agent.yaml", strings.Repeat("kind: ConfigMap\n", 30)),
		},
		Instructions: []plans.OneTimeInstruction{{SaveOutput: true, Instruction: plans.Instruction{
			Name: "install", Image: "rancher/system-agent-installer-k3s:v1.34.4-k3s1", Command: "sh", Args: []string{"-c", "run.sh"},
			Env: []string{"INSTALL_K3S_SKIP_ENABLE=false", "INSTALL_K3S_EXEC=agent", "RESTART_STAMP=" + plans.Checksum([]byte(name))},
		}}},
		Probes: map[string]plans.Probe{"kubelet": {
			InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 2, HTTPGetAction: plans.HTTPGet{URL: "http://127.0.0.1:10248/healthz"},
		}},
	}
	return p.Marshal()
}

// await waits until the outcome of each wanted plan is stored.
func (f *fleet) await(ctx context.Context, wanted map[string]bool) error {
	timeout := time.NewTimer(rollOutLimit)
	defer timeout.Stop()
	for left := len(wanted); left > 0; {
		select {
		case sum := <-f.shared.done:
			if !wanted[sum] {
				return fmt.Errorf("an agent was given plan %s, which nobody wrote", sum)
			}
			left--
		case err := <-f.failed:
			return err
		case <-timeout.C:
			return fmt.Errorf("%d of %d outcomes did not come within %s", left, len(wanted), rollOutLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// verify reads everything once more as the administrator.
func (f *fleet) verify(ctx context.Context, wanted map[string]bool) error {
	var list struct {
		Items []struct {
			Data map[string][]byte `json:"data"`
		} `json:"items"`
	}
	if err := f.server.get(ctx, "/api/v1/secrets", &list); err != nil {
		return err
	}
	done := 0
	for _, item := range list.Items {
		outcome, err := plans.ReadOutcome(item.Data)
		if err == nil && outcome.State == plans.StateSucceeded && wanted[outcome.AppliedChecksum] &&
			outcome.AppliedChecksum == plans.Checksum(item.Data[plans.KeyPlan]) && outcome.Revision == 1 && outcome.SuccessCount == 1 {
			done++
		}
	}
	if done != len(f.agents) {
		return fmt.Errorf("the server holds the outcome of %d plans of %d", done, len(f.agents))
	}
	return nil
}

// fail notes the first failure, unless everything is ending anyway.
func (f *fleet) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	select {
	case f.failed <- err:
	default:
	}
}

func (f *fleet) close() {
	for _, a := range f.agents {
		if a != nil {
			a.watch.close()
		}
	}
}

// startProfile takes the server's profiles for so long when they are asked for.
func (b *bench) startProfile(ctx context.Context, s *server, name string, length time.Duration) (finish func() error) {
	if b.profile == "" {
		return func() error { return nil }
	}
	before, beforeErr := s.profile(ctx, "heap?gc=1")
	type taken struct {
		text []byte
		err  error
	}
	var own bytes.Buffer
	ownErr := runtimepprof.StartCPUProfile(&own)
	cpu := make(chan taken, 1)
	go func() {
		text, err := s.profile(ctx, fmt.Sprintf("profile?seconds=%d", int(length.Seconds())))
		cpu <- taken{text, err}
	}()
	return func() error {
		runtimepprof.StopCPUProfile()
		heap, err := s.profile(ctx, "heap")
		got := <-cpu
		err = errors.Join(err, beforeErr, ownErr)
		if err := errors.Join(err, got.err); err != nil {
			return fmt.Errorf("take profiles: %w", err)
		}
		return errors.Join(
			os.WriteFile(filepath.Join(b.profile, "cpu-"+name+".pprof"), got.text, 0o600),
			os.WriteFile(filepath.Join(b.profile, "agents-"+name+".pprof"), own.Bytes(), 0o600),
			os.WriteFile(filepath.Join(b.profile, "before-"+name+".pprof"), before, 0o600),
			os.WriteFile(filepath.Join(b.profile, "heap-"+name+".pprof"), heap, 0o600))
	}
}

// inParallel calls f for 0 to n-1, some at once, and stops at the first error.
func inParallel(n, atOnce int, f func(int) error) error {
	var group sync.WaitGroup
	next, failed := make(chan int), make(chan error, atOnce)
	for range min(atOnce, n) {
		group.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for i := 0; i < n && err == nil; i++ {
		select {
		case next <- i:
		case err = <-failed:
		}
	}
	close(next)
	group.Wait()
	select {
	case late := <-failed:
		return errors.Join(err, late)
	default:
		return err
	}
}
