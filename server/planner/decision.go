// The decision: all that is written for one cluster, as a value. Whoever performs it adds
// nothing but revisions; whoever previews it prints the same value.

package planner

import (
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// Decision is what is written for a cluster and its machines. A machine that is not in it
// stays as it is.
type Decision struct {
	Cluster ClusterDecision
	// Machines are in the order of their names.
	Machines []MachineDecision
	// Steps are what is still to be done on machines, in the order in which that will happen.
	Steps []Step
	// Operation is the next record of the operation under way; nil leaves it as it is.
	Operation *operations.Operation
	// Snapshots are those that were taken.
	Snapshots []records.Snapshot
	// Rehearsed is what came of the rehearsal that the operation is; nil while that is not known.
	Rehearsed *Rehearsed
	// Orders are what nodes of the cluster are to become, all that are wanted now.
	Orders []NodeOrder
	// Again is when to look again though nothing changed; zero: not.
	Again time.Duration
}

// ClusterDecision is what is written of the cluster itself.
type ClusterDecision struct {
	Key records.ClusterKey
	// Remove takes the cluster out of the store with all that belongs to it: its machines, which
	// are in the decision too, its tokens and its secrets. The hosts keep what runs on them.
	Remove bool
	// Spec is what the cluster is to become, as a restore wants it; nil leaves it as it is.
	Spec *clusterspec.Spec
	// Status is the next status; nil leaves it as it is.
	Status *records.ClusterStatus
	// Secrets are the next secrets, when another of its server tokens is in force; nil leaves them as they are.
	Secrets *records.ClusterSecrets
}

// MachineDecision is what is written of a machine, all of it at once.
type MachineDecision struct {
	Key records.MachineKey
	// Remove takes the machine out of the store with all that belongs to it; nothing else is set then.
	Remove bool
	// Keep takes the removal of the machine back: it stays.
	Keep bool
	// Status is the next status; nil leaves it as it is.
	Status *records.MachineStatus
	// Secret is the plan Secret as it is written; nil leaves it as it is.
	Secret *records.PlanSecret
	// Deliver says that a plan is delivered in Secret; without it only what is mirrored there changes.
	Deliver bool
	// Retry numbers the server's own deliveries of a failed plan from 1; 0 for a new plan.
	Retry int
}

// decision puts times and history to what was found, and leaves out what stays as it is.
func (r *round) decision() Decision {
	d := Decision{Cluster: ClusterDecision{Key: r.key()}, Operation: r.operation, Steps: r.steps(), Snapshots: r.saved, Rehearsed: r.rehearsed}
	d.again(r.again)
	d.again(r.window.again(r.Now))
	left := 0
	for _, m := range r.members {
		if m.remove {
			d.Machines = append(d.Machines, MachineDecision{Key: m.key(), Remove: true})
			continue
		}
		left++
		next, again := r.machineDecision(m.Machine, m.draft)
		next.Keep = m.kept
		if next.Keep || next.Status != nil || next.Secret != nil {
			d.Machines = append(d.Machines, next)
		}
		if m.order != nil {
			d.Orders = append(d.Orders, *m.order)
		}
		d.again(again)
	}
	if r.fleet != nil {
		return d
	}
	if !r.Cluster.Deleting.IsZero() && left == 0 {
		d.Cluster.Remove = true
		return d
	}
	d.Cluster.Spec, d.Cluster.Secrets = r.respec, r.secrets
	d.Cluster.Status = r.clusterStatus(r.cluster)
	return d
}

// again looks again after the shortest of all waits.
func (d *Decision) again(wait time.Duration) {
	if wait > 0 && (d.Again == 0 || wait < d.Again) {
		d.Again = wait
	}
}

func (s Snapshot) machineDecision(m Machine, f draft) (d MachineDecision, again time.Duration) {
	d.Key = m.key()
	status := f.next.put(nextStatus(m.Status, f.finding, s.Now))
	status.NextRetry = time.Time{}
	again = f.again
	if f.retry != nil && f.deliver == nil {
		status.NextRetry = status.LastFailure.At.Add(retryDelay(f.retry.attempt))
		if again = status.NextRetry.Sub(s.Now); again <= 0 || f.retry.now {
			// The state moves with the delivery: an agent that fails again before the next decision
			// is then a new failure and not the old one still.
			again = 0
			f.deliver, d.Retry = m.plan(), f.retry.attempt
			status = f.next.put(nextStatus(m.Status, f.retry.finding(m), s.Now))
			status.RetriedChecksum, status.Retries, status.NextRetry = f.retry.checksum, f.retry.attempt, time.Time{}
		}
	}
	if m.Secret != nil {
		secret, changed := mirror(*m.Secret, status)
		if f.deliver != nil {
			d.Secret, d.Deliver = delivery(secret, f.deliver, s.Now), true
		} else if changed {
			d.Secret = &secret
		}
	}
	if !sameStatus(m.Status, status) {
		d.Status = &status
	}
	return d, again
}

// clusterStatus is the next status of the cluster; nil when it stays as it is.
func (s Snapshot) clusterStatus(v clusterVerdict) *records.ClusterStatus {
	before := s.Cluster.Status
	next := before
	next.ObservedGeneration = s.Cluster.Generation
	next.Renderer, next.Initialized, next.Ready, next.Connected = v.renderer, v.initialized, v.ready, v.connected
	next.State, next.Message, next.Failed = v.state, v.message, v.failed
	next.Halted, next.Restoring, next.Warning = v.halted, v.restoring, v.warning
	if s.API.Version != "" {
		next.Version = s.API.Version
	}
	if before.State != next.State || before.Message != next.Message {
		next.Since = s.Now
	}
	if before == next {
		return nil
	}
	return &next
}
