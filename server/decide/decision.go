// The decision: all that is written for one cluster, as a value. The code that performs it adds
// nothing but revisions; a preview prints the same value.

package decide

import (
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
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
	Rehearsed *pass.Rehearsed
	// Orders are what nodes of the cluster are to become, all that are wanted now.
	Orders []pass.NodeOrder
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
func decision(p *pass.Pass) Decision {
	d := Decision{Cluster: ClusterDecision{Key: p.ClusterKey()}, Operation: p.NextOperation, Steps: stepsLeft(p), Snapshots: p.Saved, Rehearsed: p.Rehearsed}
	p.LookAgain(p.Window.Again(p.Now))
	left := 0
	for _, m := range p.Members {
		if m.Remove {
			d.Machines = append(d.Machines, MachineDecision{Key: m.MachineKey(), Remove: true})
			continue
		}
		left++
		next, again := machineDecision(p.Snapshot, m.Machine, m.Draft)
		next.Keep = m.Kept
		if next.Keep || next.Status != nil || next.Secret != nil {
			d.Machines = append(d.Machines, next)
		}
		if m.Order != nil {
			d.Orders = append(d.Orders, *m.Order)
		}
		p.LookAgain(again)
	}
	d.Again = p.Again
	if p.Fleet != nil {
		return d
	}
	if !p.Cluster.Deleting.IsZero() && left == 0 {
		d.Cluster.Remove = true
		return d
	}
	d.Cluster.Spec, d.Cluster.Secrets = p.NewSpec, p.NextSecrets
	d.Cluster.Status = clusterStatus(p.Snapshot, p.Verdict)
	return d
}

func machineDecision(s pass.Snapshot, m pass.Machine, f pass.Draft) (d MachineDecision, again time.Duration) {
	d.Key = m.MachineKey()
	status := f.Next.Put(nextStatus(m.Status, f.Finding, s.Now))
	status.NextRetry = time.Time{}
	again = f.Again
	if f.Retry != nil && f.Deliver == nil {
		status.NextRetry = status.LastFailure.At.Add(pass.RetryDelay(f.Retry.Attempt))
		if again = status.NextRetry.Sub(s.Now); again <= 0 || f.Retry.Now {
			// The state moves with the delivery: an agent that fails again before the next decision
			// is then a new failure and not the old one still.
			again = 0
			f.Deliver, d.Retry = m.Plan(), f.Retry.Attempt
			status = f.Next.Put(nextStatus(m.Status, f.Retry.Finding(m), s.Now))
			status.RetriedChecksum, status.Retries, status.NextRetry = f.Retry.Checksum, f.Retry.Attempt, time.Time{}
		}
	}
	if m.Secret != nil {
		secret, changed := mirror(*m.Secret, status)
		if f.Deliver != nil {
			d.Secret, d.Deliver = delivery(secret, f.Deliver, s.Now), true
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
func clusterStatus(s pass.Snapshot, v pass.Verdict) *records.ClusterStatus {
	before := s.Cluster.Status
	next := before
	next.ObservedGeneration = s.Cluster.Generation
	next.Renderer, next.Initialized, next.Ready, next.Connected = v.Renderer, v.Initialized, v.Ready, v.Connected
	next.State, next.Message, next.Failed = v.State, v.Message, v.Failed
	next.Halted, next.Restoring, next.Warning = v.Halted, v.Restoring, v.Warning
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
