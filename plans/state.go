// The states of a delivered plan and who may move it where.

package plans

import "slices"

// State is where a delivered plan stands; it travels as the plan-state key of the Secret.
//
//	server: pending ──agent──▶ in-progress ──agent──▶ succeeded
//	   ▲                        │   ▲  │
//	   │                        │   └──┘ resumed after a crash
//	   │                        └──agent──▶ failed
//	   └──── server: a new plan, or the same again ◀── any state
//	                            server: any state ──▶ cancelled
type State string

const (
	// StateNone is a Secret of an older server, which distinguishes "new" from "done" by checksums alone.
	StateNone State = ""
	// StatePending is a plan that no agent has started.
	StatePending State = "pending"
	// StateInProgress is a plan being applied, or one whose agent died while applying it.
	StateInProgress State = "in-progress"
	// StateSucceeded is a plan whose files and one-time instructions are all done.
	StateSucceeded State = "succeeded"
	// StateFailed is a plan that could not be applied; only the server starts it again.
	StateFailed State = "failed"
	// StateCancelled is a plan that the server took back.
	StateCancelled State = "cancelled"
)

// states backs States and the tests that walk the table.
var states = []State{StateNone, StatePending, StateInProgress, StateSucceeded, StateFailed, StateCancelled}

// States lists every state in the order of a plan's life.
func States() []State { return slices.Clone(states) }

// Actor is one of the two parties that move a plan.
type Actor string

// The two parties of the plan protocol.
const (
	Server Actor = "server"
	Agent  Actor = "agent"
)

// agentMoves is the whole of what an agent may do. A server may move any state to pending or cancelled.
var agentMoves = map[State][]State{
	StatePending:    {StateInProgress},
	StateInProgress: {StateInProgress, StateSucceeded, StateFailed},
}

// MayMove says whether the actor may move a plan from one state to another.
// Writing the state that is already there is never a move, except that an agent may
// confirm in-progress when it resumes.
func MayMove(by Actor, from, to State) bool {
	if by == Server {
		return to == StatePending || to == StateCancelled
	}
	return slices.Contains(agentMoves[from], to)
}

// Terminal says whether the agent has nothing left to execute for this delivery.
func (s State) Terminal() bool {
	return s == StateSucceeded || s == StateFailed || s == StateCancelled
}

// Wanted says whether an agent that sees this state has to apply the plan.
// A state that we do not know is left alone, as the original does.
func (s State) Wanted() bool { return s == StatePending || s == StateInProgress }
