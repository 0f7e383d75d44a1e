// The states of an operation, and which may follow which.

package operations

import (
	"fmt"
	"slices"
	"time"
)

// State is where an operation is.
type State string

// The states of operations.
const (
	// Queued waits for those of its subject that are older.
	Queued State = "queued"
	// Running is worked on.
	Running State = "running"
	// Stopping was asked to stop, and finishes what was begun.
	Stopping State = "stopping"
	// Succeeded did all that it was for.
	Succeeded State = "succeeded"
	// Failed ended without that; a retry takes it up again.
	Failed State = "failed"
	// Aborted was stopped by somebody, or something newer took its place.
	Aborted State = "aborted"
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

// Next are the states that may follow this one; none for the end, and for what is not a state.
func (s State) Next() []State { return slices.Clone(follows[s]) }

// Ended says that the operation is not worked on any more and does not hold up others.
func (s State) Ended() bool { return s == Succeeded || s == Failed || s == Aborted }

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
		o.Reason = sentence(reason)
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
