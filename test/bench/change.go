// One cluster of thousands whose document changes: from the apply of one changed file until the planner has given every
// machine its plan, every agent has carried it out, and nothing is left to do.

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
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed/process"
)

// Budgets for 5,000 machines on two cores, where the simulated agents work too.
const (
	changeAgents = 5000
	maxChange    = 6 * time.Second
	maxChangeMiB = 400
)

// changeFile is the file that changes. It is dynamic: the distribution restarts nowhere, so that all machines get it at
// once.
const (
	changeFile    = "/etc/drover-bench"
	changeCluster = "{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: " + clusterName +
		"}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {machineSelectorFiles: [{fileSources: [{configMap: {name: files, items: [{key: file, path: " + changeFile + ", dynamic: true}]}}]}]}}}\n"
	changeObject = "{apiVersion: v1, kind: ConfigMap, metadata: {name: files, annotations: {rke.cattle.io/object-authorized-for-clusters: " + clusterName +
		"}}, data: {file: %q}}\n"
)

// change measures it.
func (b *bench) change(ctx context.Context) (err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as for fleets
	if err := enoughFiles(2 * changeAgents); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "change")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx), os.RemoveAll(dir)) }()
	f := &fleet{server: s, agents: make([]*simulated, changeAgents), failed: make(chan error, 1)}
	if f.shared, err = newShared(s, changeAgents); err != nil {
		return err
	}
	if f.shared.outcome[plans.KeyProbeStatuses], err = allHealthy(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer f.close()
	defer cancel()
	if err := b.settledCluster(ctx, f); err != nil {
		return err
	}
	return b.changeAll(ctx, f)
}

// allHealthy are the statuses of all probes that a plan may have, as an agent reports them.
func allHealthy() (string, error) {
	o := plans.Outcome{ProbeStatuses: map[string]plans.ProbeStatus{}}
	for _, name := range []string{"calico", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		o.ProbeStatuses[name] = plans.ProbeStatus{Healthy: true, SuccessCount: 1}
	}
	data := map[string][]byte{}
	err := o.Write(data)
	return encoded(data[plans.KeyProbeStatuses]), err
}

// settledCluster brings a cluster of one server and many workers to where nothing is left to do.
func (b *bench) settledCluster(ctx context.Context, f *fleet) error {
	if err := f.server.apply(ctx, fmt.Sprintf(changeObject, "before")+"---\n"+changeCluster); err != nil {
		return err
	}
	if err := b.registerCluster(ctx, f); err != nil {
		return err
	}
	if err := b.watchFleet(ctx, f); err != nil {
		return err
	}
	b.say("%d machines: joining", len(f.agents))
	if _, err := f.outcomes(ctx); err != nil {
		return fmt.Errorf("the first plans: %w", err)
	}
	return quiet(ctx, f.server.process.PID(), nil)
}

// registerCluster lets a server and many workers join the one cluster.
func (b *bench) registerCluster(ctx context.Context, f *fleet) error {
	b.say("%d machines: registering", len(f.agents))
	if err := inParallel(len(f.agents), registerAtOnce, func(i int) error {
		roles := []string{workerRole}
		if i == 0 {
			roles = []string{workerRole, etcdRole, planeRole}
		}
		m, err := f.server.register(ctx, f.server.joining, fmt.Sprint("change-", i), roles...)
		f.agents[i] = &simulated{machine: m, shared: f.shared, dialer: f.shared.dialer.agent()}
		return err
	}); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// changeAll changes the file.
func (b *bench) changeAll(ctx context.Context, f *fleet) error {
	pid := f.server.process.PID()
	before, err := process.ProcessorTime(pid, false)
	if err != nil {
		return err
	}
	profile := b.startProfile(ctx, f.server, "change", 10*time.Second)
	b.say("%d machines: changing a file", changeAgents)
	began := time.Now()
	if err := f.server.apply(ctx, fmt.Sprintf(changeObject, "after")); err != nil {
		return err
	}
	reported, err := f.outcomes(ctx)
	if err != nil {
		return err
	}
	var last time.Time
	if err := quiet(ctx, pid, &last); err != nil {
		return err
	}
	used, err := process.ProcessorTime(pid, false)
	if err != nil {
		return err
	}
	m, err := memoryOf(pid)
	if err != nil {
		return err
	}
	took := reported.Sub(began)
	name := fmt.Sprintf("a file of %d machines of one cluster changes: ", changeAgents)
	b.table.measure(name+"all reported back", fmt.Sprintf("%.2f s", took.Seconds()), float64(took), fmt.Sprintf("≤ %.0f s", maxChange.Seconds()), float64(maxChange))
	b.table.note(name+"nothing is left to do; processor time of the server", fmt.Sprintf("%.2f s; %.2f s", max(took, last.Sub(began)).Seconds(), (used-before).Seconds()))
	b.table.measure(name+"server memory after that (resident)", fmt.Sprintf("%s (of it anonymous %s)", inMiB(m.resident), inMiB(m.anonymous)),
		mib(m.resident), fmt.Sprintf("≤ %d MiB", maxChangeMiB), maxChangeMiB)
	b.table.note(name+"server memory at its highest, the joining of all included", inMiB(m.peak))
	if err := profile(); err != nil {
		return err
	}
	return f.changed(ctx)
}

// apply applies documents.
func (s *server) apply(ctx context.Context, documents string) error {
	_, err := s.ask(ctx, http.MethodPost, "/v1-drover/apply", "application/yaml", strings.NewReader(documents))
	return err
}

// outcomes waits for one outcome of each agent, and says when the last of them was stored.
func (f *fleet) outcomes(ctx context.Context) (time.Time, error) {
	timeout := time.NewTimer(rollOutLimit)
	defer timeout.Stop()
	for left := len(f.agents); left > 0; left-- {
		select {
		case <-f.shared.done:
		case err := <-f.failed:
			return time.Time{}, err
		case <-timeout.C:
			return time.Time{}, fmt.Errorf("%d of %d outcomes did not come within %s", left, len(f.agents), rollOutLimit)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
	return time.Now(), nil
}

// changed checks that each machine has carried out two plans, the second one with the changed file.
func (f *fleet) changed(ctx context.Context) error {
	var list struct {
		Items []struct {
			Data map[string][]byte `json:"data"`
		} `json:"items"`
	}
	if err := f.server.get(ctx, "/api/v1/secrets", &list); err != nil {
		return err
	}
	done, after := 0, base64.StdEncoding.EncodeToString([]byte("after"))
	for _, item := range list.Items {
		outcome, err := plans.ReadOutcome(item.Data)
		if err == nil && outcome.State == plans.StateSucceeded && outcome.Revision == 2 && bytes.Contains(item.Data[plans.KeyPlan], []byte(after)) &&
			outcome.AppliedChecksum == plans.Checksum(item.Data[plans.KeyPlan]) {
			done++
		}
	}
	if done != len(f.agents) {
		return fmt.Errorf("%d machines of %d have carried out the change as their second plan", done, len(f.agents))
	}
	return nil
}
