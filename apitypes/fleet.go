// Fleets: machines without a cluster, which get plans.

package apitypes

import "time"

// Fleet is a number of machines to which people give plans.
type Fleet struct {
	Type      string    `json:"type"` // fleet
	ID        string    `json:"id"`   // f-xxxxxxxx
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Revision  int64     `json:"revision"`
	Created   time.Time `json:"created"`
	CreatorID string    `json:"creatorId,omitempty"`
	Deleting  time.Time `json:"deleting,omitzero"`
	Machines  int       `json:"machines"`
	// States is how many machines are in each state.
	States map[MachineState]int `json:"states"`
	// Operation is what is under way, absent when nothing is.
	Operation *OperationSummary `json:"operation,omitempty"`
}

// PlanAction is what giving a plan does, or would do.
type PlanAction string

// The actions.
const (
	PlanGiven     PlanAction = "given"
	PlanQueued    PlanAction = "queued"
	PlanUnchanged PlanAction = "unchanged"
)

// PlanResult is what became of a plan that was given.
type PlanResult struct {
	Fleet  string     `json:"fleet"`
	Action PlanAction `json:"action"`
	// Plan is the short checksum of the plan.
	Plan string `json:"plan"`
	// Machines are the names of the machines that get the plan, in the order in which they were found. Machines that have it and
	// did not fail with it are left alone; Alone is how many.
	Machines []string `json:"machines"`
	Alone    int      `json:"alone,omitempty"`
	// Operation is the ID of the operation that carries it out; empty in a dry run, and when nothing is to be done.
	Operation string `json:"operation,omitempty"`
	// Preview is what the controller decides, in a dry run.
	Preview *Preview `json:"preview,omitempty"`
}
