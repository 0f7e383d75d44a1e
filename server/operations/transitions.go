// The states of an operation, and which may follow which.

package operations

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// State is where an operation is.
type State = apitypes.OperationState

// The states of operations.
const (
	Queued    = apitypes.OperationQueued
	Running   = apitypes.OperationRunning
	Stopping  = apitypes.OperationStopping
	Succeeded = apitypes.OperationSucceeded
	Failed    = apitypes.OperationFailed
	Aborted   = apitypes.OperationAborted
)

// follows says which states may follow each.
var follows = map[State][]State{
	Queued:    {Running, Aborted},
	Running:   {Stopping, Succeeded, Failed, Aborted},
	Stopping:  {Succeeded, Failed, Aborted},
	Succeeded: {},
	Failed:    {Running},
	Aborted:   {},
}

// States are all states, in the order of an operation's life.
func States() []State { return []State{Queued, Running, Stopping, Succeeded, Failed, Aborted} }

// Following are the states that may follow one; none for the end, and for what is not a state.
func Following(s State) []State { return slices.Clone(follows[s]) }

// TransitionError is that a state was to follow one which it cannot follow.
type TransitionError struct {
	ID       string
	From, To State
}

// Error names the operation and both states.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("operation %s cannot go from %s to %s", e.ID, e.From, e.To)
}

// To is the operation in its next state, with a line in its log. The reason is why it failed
// or was aborted; of other states it is in the log alone. It returns *TransitionError when the
// state cannot follow the one that the operation has.
func (o Operation) To(s State, reason string, now time.Time) (Operation, error) {
	if !slices.Contains(follows[o.State], s) {
		return o, &TransitionError{ID: o.ID, From: o.State, To: s}
	}
	o.State, o.Reason = s, ""
	if s == Failed || s == Aborted {
		o.Reason = oneLine(reason)
	}
	if s == Running && o.Started.IsZero() {
		o.Started = now
	}
	o.Ended = time.Time{}
	if s.Ended() {
		o.Ended, o.Wait = now, nil
	}
	text := string(s)
	if reason != "" {
		text += ": " + reason
	}
	return o.WithLine(text, now), nil
}
