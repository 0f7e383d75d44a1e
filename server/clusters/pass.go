// One pass over one cluster: snapshot, decision, writes.

package clusters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Annotations of the plan Secret that belong to a delivery.
const (
	annotationPlanUpdated  = "rke.cattle.io/plan-last-updated"
	annotationProbesPassed = "rke.cattle.io/plan-probes-passed"
)

// maxHistory bounds the states remembered of a machine.
const maxHistory = 20

// observed is a machine with the documents that its writes compare with.
type observed struct {
	machine store.Document[records.Machine]
	secret  store.Document[records.PlanSecret]
}

// pass looks at one cluster once. It returns when to look again though nothing changed; zero means not.
func (c *Controller) pass(ctx context.Context, key string) (again time.Duration, err error) {
	cluster, ok := c.State.Clusters.Get(key)
	if !ok {
		return 0, nil
	}
	if cluster.Value.Spec.Docker() {
		return c.dockerPass(ctx, cluster)
	}
	snapshot, seen := c.snapshot(cluster.Value)
	if !cluster.Value.Deleting.IsZero() {
		return 0, c.remove(ctx, cluster, seen)
	}
	decision := planner.Decide(snapshot)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		wait, err := c.machine(ctx, seen[name], decision)
		if err != nil {
			return 0, err
		}
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again, c.cluster(ctx, cluster, snapshot, decision.Cluster)
}

// snapshot gathers what the planner needs. It reads memory only.
func (c *Controller) snapshot(cluster records.Cluster) (planner.Snapshot, map[string]observed) {
	s := planner.Snapshot{Cluster: cluster, InstallerImage: c.InstallerImage(), API: c.API(cluster.Key())}
	if secrets, ok := c.State.ClusterSecrets.Get(cluster.Key()); ok {
		s.Secrets = &secrets.Value
	}
	if release, ok := c.Versions.Release(cluster.Spec.KubernetesVersion); ok {
		s.Release = &release
	}
	machines := c.State.Machines.ListIn(cluster.Namespace + "/")
	mine := 0
	for i := range machines {
		if machines[i].Value.ClusterName == cluster.Name {
			mine++
		}
	}
	// Sized for a cluster of thousands, whose snapshot is taken again and again.
	seen := make(map[string]observed, mine)
	s.Machines = make([]planner.Machine, 0, mine)
	for _, d := range machines {
		if d.Value.ClusterName != cluster.Name {
			continue
		}
		secretKey := d.Value.Namespace + "/" + d.Value.PlanSecretName()
		secret, _ := c.State.PlanSecrets.Get(secretKey)
		seen[d.Value.Name] = observed{machine: d, secret: secret}
		s.Machines = append(s.Machines, planner.Machine{Machine: d.Value, Data: secret.Value.Data, Agent: c.presence(secretKey)})
	}
	return s, seen
}

func (c *Controller) presence(secretKey string) planner.Presence {
	since, connected := c.Watching(secretKey)
	p := planner.Presence{Connected: connected}
	if !since.IsZero() {
		p.Since = since.UTC().Format(time.RFC3339)
	}
	return p
}

// machine writes what was decided for one machine, all of it in one transaction.
func (c *Controller) machine(ctx context.Context, o observed, d planner.Decision) (again time.Duration, err error) {
	m := o.machine.Value
	if !m.Deleting.IsZero() {
		return 0, c.removeMachine(ctx, o)
	}
	now := c.Now().UTC()
	verdict := d.Machines[m.Name]
	status := nextStatus(m.Status, verdict, now)
	plan := d.Deliver[m.Name]
	if retry, ok := d.Retries[m.Name]; ok && plan == nil {
		status.NextRetry = status.LastFailure.At.Add(retryDelay(retry.Attempt))
		if again = status.NextRetry.Sub(now); again <= 0 {
			// The state moves with the delivery: an agent that fails again before the next pass
			// is then a new failure and not the old one still.
			verdict.Condition = records.Condition{
				State: records.ApplyingPlan, Cause: fmt.Sprintf("plan %s is delivered again, try %d", retry.Checksum[:8], retry.Attempt+1),
				WaitingFor: "the agent on " + m.Name + " to take its plan",
			}
			verdict.Failure = nil
			plan, again = retry.Plan, 0
			status = nextStatus(m.Status, verdict, now)
			status.RetriedChecksum, status.Retries, status.NextRetry = retry.Checksum, retry.Attempt, time.Time{}
		}
	} else {
		status.NextRetry = time.Time{}
	}
	var ops []store.Op
	if plan != nil && o.secret.Revision != 0 {
		ops = append(ops, c.State.PlanSecrets.Updating(delivery(o.secret, plan, now)))
	}
	if !sameStatus(m.Status, status) {
		m.Status = status
		o.machine.Value = m
		ops = append(ops, c.State.Machines.Updating(o.machine))
	}
	if len(ops) == 0 {
		return again, nil
	}
	if _, err := c.State.Store.Commit(ctx, ops...); err != nil {
		return 0, fmt.Errorf("write plan and state of machine %s: %w", o.machine.Key, err)
	}
	if plan != nil {
		c.Logger.Info("plan delivered", "machine", m.Name, "cluster", m.ClusterName, "plan", plans.Checksum(plan)[:8], "retry", status.Retries)
	}
	return again, nil
}

// delivery is the plan Secret with a new plan in it.
func delivery(d store.Document[records.PlanSecret], plan []byte, now time.Time) store.Document[records.PlanSecret] {
	d.Value.Data = plans.Deliver(d.Value.Data, plan)
	d.Value.Annotations = merged(d.Value.Annotations, map[string]string{
		annotationPlanUpdated: now.Format(time.RFC3339), annotationProbesPassed: "",
	})
	return d
}

// retryDelay spaces the server's own tries of a failed plan: 30 s, doubling, at most 10 min.
func retryDelay(attempt int) time.Duration {
	return min(30*time.Second<<min(attempt-1, 10), 10*time.Minute)
}

// nextStatus carries a machine's status on: times stay while what they date stays.
func nextStatus(before records.MachineStatus, v planner.Verdict, now time.Time) records.MachineStatus {
	next := before
	next.Condition, next.Node = v.Condition, v.Node
	if before.State != next.State || before.WaitingFor != next.WaitingFor {
		next.Since = now
	}
	if before.State != next.State {
		next.History = slices.Clone(before.History)
		for _, state := range passed(before.State, next.State) {
			next.History = append(next.History, records.Transition{State: state, At: now})
		}
		next.History = next.History[max(0, len(next.History)-maxHistory):]
	}
	switch {
	case v.Failure != nil:
		failure := *v.Failure
		failure.At = now
		if old := before.LastFailure; before.State == records.Failed && old != nil && old.Checksum == failure.Checksum && old.Output == failure.Output {
			failure.At = old.At
		}
		next.LastFailure = &failure
	case v.State == records.WaitingForProbes, v.State == records.WaitingForNode, v.State == records.Active:
		next.LastFailure, next.Retries, next.RetriedChecksum = nil, 0, ""
	}
	return next
}

// path is the order of a machine's life. Each state is a milestone of its own, so who is seen at
// one and then at a later one has passed those between, if only for a moment.
var path = []records.MachineState{
	records.Registering, records.WaitingForPlan, records.ApplyingPlan, records.WaitingForProbes, records.WaitingForNode, records.Active,
}

// passed are the states between two, the second one included. Off the path and backwards it is the second one alone.
func passed(from, to records.MachineState) []records.MachineState {
	first, last := slices.Index(path, from), slices.Index(path, to)
	if first < 0 || last <= first {
		return []records.MachineState{to}
	}
	return path[first+1 : last+1]
}

func sameStatus(a, b records.MachineStatus) bool {
	same := func(x, y *records.NodeRef) bool {
		if x == nil || y == nil {
			return x == y
		}
		return x.Name == y.Name && x.UID == y.UID && x.ProviderID == y.ProviderID && x.KubeletVersion == y.KubeletVersion &&
			x.Ready == y.Ready && x.NotReady == y.NotReady && slices.Equal(x.Addresses, y.Addresses)
	}
	sameFailure := a.LastFailure == b.LastFailure || (a.LastFailure != nil && b.LastFailure != nil && *a.LastFailure == *b.LastFailure)
	return a.Condition == b.Condition && a.Since.Equal(b.Since) && same(a.Node, b.Node) && sameFailure &&
		a.Retries == b.Retries && a.RetriedChecksum == b.RetriedChecksum && a.NextRetry.Equal(b.NextRetry)
}

// cluster writes what is shown of the cluster, when it changed.
func (c *Controller) cluster(ctx context.Context, d store.Document[records.Cluster], s planner.Snapshot, v planner.ClusterVerdict) error {
	before := d.Value.Status
	next := before
	next.ObservedGeneration = d.Value.Generation
	next.Renderer, next.Initialized, next.Ready, next.Connected = v.Renderer, v.Initialized, v.Ready, s.API.Reachable
	next.State, next.Message, next.Failed = v.State, v.Message, v.Failed
	if s.API.Version != "" {
		next.Version = s.API.Version
	}
	if before.State != next.State || before.Message != next.Message {
		next.Since = c.Now().UTC()
	}
	if before == next {
		return nil
	}
	d.Value.Status = next
	if _, err := c.State.Clusters.Update(ctx, d); err != nil {
		return fmt.Errorf("write the status of cluster %s: %w", d.Key, err)
	}
	return nil
}

// remove takes a cluster out of the store with everything that belongs to it, in one
// transaction. The hosts keep what runs on them; their agents see their Secret go.
func (c *Controller) remove(ctx context.Context, d store.Document[records.Cluster], seen map[string]observed) error {
	ops := []store.Op{c.State.Clusters.Deleting(d.Key, d.Revision)}
	if secrets, ok := c.State.ClusterSecrets.Get(d.Key); ok {
		ops = append(ops, c.State.ClusterSecrets.Deleting(d.Key, secrets.Revision))
	}
	for _, token := range c.State.RegistrationTokens.ListIn(d.Value.ID + "/") {
		ops = append(ops, c.State.RegistrationTokens.Deleting(token.Key, token.Revision))
	}
	for _, o := range seen {
		ops = append(ops, c.machineGone(o)...)
	}
	if _, err := c.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("remove cluster %s from the store: %w", d.Key, err)
	}
	c.Logger.Info("cluster removed", "cluster", d.Key, "machines", len(seen))
	return nil
}

func (c *Controller) removeMachine(ctx context.Context, o observed) error {
	if _, err := c.State.Store.Commit(ctx, c.machineGone(o)...); err != nil {
		return fmt.Errorf("remove machine %s from the store: %w", o.machine.Key, err)
	}
	c.Logger.Info("machine removed", "machine", o.machine.Key, "cluster", o.machine.Value.ClusterName)
	return nil
}

func (c *Controller) machineGone(o observed) []store.Op {
	ops := []store.Op{c.State.Machines.Deleting(o.machine.Key, o.machine.Revision)}
	if o.secret.Revision != 0 {
		ops = append(ops, c.State.PlanSecrets.Deleting(o.secret.Key, o.secret.Revision))
	}
	if d, ok := c.State.NodeConfigs.Get(o.machine.Key); ok {
		ops = append(ops, c.State.NodeConfigs.Deleting(d.Key, 0))
	}
	return ops
}
