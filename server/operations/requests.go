// What people ask of an operation: to stop it, and to try again.

package operations

import (
	"fmt"
	"slices"
	"time"
)

// RefusedError is that a request does not fit the operation as it is now.
type RefusedError struct {
	// What was asked for: abort or retry.
	What string
	ID   string
	// Why is the rest of a sentence that begins with the operation.
	Why string
}

// Error names the operation and the reason.
func (e *RefusedError) Error() string { return fmt.Sprintf("operation %s %s", e.ID, e.Why) }

// AbortBy is the operation after a user has asked to stop it: one that is queued is aborted, a
// running one stops when what was begun is finished. It returns *RefusedError when it stops
// already, has ended or is Final.
func (o Operation) AbortBy(user string, now time.Time) (Operation, error) {
	refused := func(why string) (Operation, error) {
		return o, &RefusedError{What: "abort", ID: o.ID, Why: why}
	}
	next := Stopping
	switch {
	case o.State == Queued:
		next = Aborted
	case o.State == Stopping:
		return refused("is stopping already, and finishes what was begun")
	case o.State.Ended():
		return refused(fmt.Sprintf("has ended and is %s", o.State))
	case o.Final != "":
		return refused(o.Final)
	}
	aborted, err := o.To(next, by("abort", user), now)
	if err != nil {
		return o, err
	}
	aborted.Abort = &Request{By: user, At: now}
	return aborted, nil
}

// RetryBy is the operation after a user has asked to try again what failed: Retry has grown and
// its failed tasks are pending. An operation that has failed runs again, unless another one of its
// subject, in all, has not ended. It returns *RefusedError when there is nothing to try again or
// it must not be tried.
func (o Operation) RetryBy(user string, all []Operation, now time.Time) (Operation, error) {
	refused := func(why string) (Operation, error) {
		return o, &RefusedError{What: "retry", ID: o.ID, Why: why}
	}
	failed := slices.ContainsFunc(o.Tasks, func(t Task) bool { return t.State == TaskFailed })
	retried := o
	switch {
	case o.State == Failed && o.Once:
		return refused(fmt.Sprintf("has failed, and %q is not carried out twice: ask for it anew", o.Kind))
	case o.State == Failed:
		if first, busy := Active(o.Subject, all); busy {
			return refused("cannot run now, since " + first.describe())
		}
		var err error
		if retried, err = o.To(Running, by("retry", user), now); err != nil {
			return o, err
		}
	case o.State == Running && failed:
		retried = o.WithLine(by("retry", user), now)
	case o.State == Running:
		return refused("runs, and none of its tasks has failed")
	default:
		return refused(fmt.Sprintf("is %s, and only what has failed can be tried again", o.State))
	}
	retried.Retry++
	retried.Abort = nil // an earlier one, that the operation has ended by
	for _, t := range o.Tasks {
		if t.State == TaskFailed {
			t.State, t.Progress, t.Message = TaskPending, "", ""
			retried = retried.WithTask(t, now)
		}
	}
	return retried.WithWait(nil, now), nil
}

// HurryBy is the operation after a user has asked that it does not wait for the maintenance window of its subject. It
// returns *RefusedError when that was asked for already, and when the operation has ended.
func (o Operation) HurryBy(user string, now time.Time) (Operation, error) {
	switch {
	case o.State.Ended():
		return o, &RefusedError{What: "hurry", ID: o.ID, Why: fmt.Sprintf("has ended and is %s", o.State)}
	case o.Hurry != nil:
		return o, &RefusedError{What: "hurry", ID: o.ID, Why: "does not wait for the maintenance window already"}
	}
	o.Hurry = &Request{By: user, At: now}
	return o.WithLine(by("not to wait for the maintenance window was", user), now), nil
}

// by is a request for the log.
func by(what, user string) string {
	if user == "" {
		return what + " asked for"
	}
	return what + " asked for by " + user
}
