// Several operations of one subject: one runs, the others wait in the order of their making.

package operations

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kept is how many ended operations of each subject are kept for people to look at.
const Kept = 50

// MaxQueued is how many operations of each subject may wait.
const MaxQueued = 16

// QueueFullError is that an operation cannot be queued, because MaxQueued of its subject wait already.
type QueueFullError struct {
	// First is the one that runs, or that is to run next.
	First Operation
}

// Error names the first of the others, and what can be done.
func (e *QueueFullError) Error() string {
	return fmt.Sprintf("%d operations of %s are queued already, and no more may be; the first is %s: wait for it with `drover operations wait %s`, or take one out of the queue with `drover operations abort`",
		MaxQueued, e.First.Subject, e.First.ID, e.First.ID)
}

// BusyError is that an operation cannot begin, because another one of its subject has not ended.
type BusyError struct {
	// First is the one that runs, or that is to run next.
	First Operation
}

// Error names the other operation, who asked for it and since when it is there, and what can be done.
func (e *BusyError) Error() string {
	instead := ", or put the new one behind it with --queue"
	if e.First.Replaceable() {
		instead = ", put the new one behind it with --queue, or in its place with --replace"
	}
	return fmt.Sprintf("%s: wait for it with `drover operations wait %s`, stop it with `drover operations abort %s`%s", e.First.describe(), e.First.ID, e.First.ID, instead)
}

// describe is a sentence about an operation that has not ended.
func (o Operation) describe() string {
	by := ""
	if o.By != "" {
		by = ", asked for by " + o.By + ","
	}
	since := o.Started
	if o.State == Queued || since.IsZero() {
		since = o.Created
	}
	return fmt.Sprintf("operation %s (%s)%s has been %s since %s", o.ID, o.Kind, by, o.State, since.UTC().Format(time.RFC3339))
}

// order sorts the operations of a subject by when they run: what runs already comes before
// what is queued, even when the clocks of two servers differed when they were made.
func order(a, b Operation) int {
	waits := func(o Operation) int {
		if o.State == Queued {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(waits(a), waits(b)), a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
}

// Active is the operation of the subject that runs or, while none does, is to run next: the
// oldest one that has not ended.
func Active(subject string, all []Operation) (Operation, bool) {
	var first Operation
	found := false
	for _, o := range all {
		if o.Subject == subject && !o.State.Ended() && (!found || order(o, first) < 0) {
			first, found = o, true
		}
	}
	return first, found
}

// Next is the queued operation of the subject whose turn it is.
func Next(subject string, all []Operation) (Operation, bool) {
	o, ok := Active(subject, all)
	return o, ok && o.State == Queued
}

// Begin is a new operation in its first state: running when nothing of its subject is under
// way, and otherwise queued when that is asked for. It starts when it was created. It returns
// *BusyError when it may not wait in the queue, and *QueueFullError when too many do.
func Begin(o Operation, all []Operation, queue bool) (Operation, error) {
	first, busy := Active(o.Subject, all)
	switch {
	case !busy:
		o.State, o.Started = Running, o.Created
		return o.WithLine(string(Running), o.Created), nil
	case queue && queued(o.Subject, all) >= MaxQueued:
		return o, &QueueFullError{First: first}
	case queue:
		o.State, o.Started = Queued, time.Time{}
		return o.WithLine(fmt.Sprintf("%s behind %s", Queued, first.ID), o.Created), nil
	}
	return o, &BusyError{First: first}
}

// queued counts the operations of a subject that wait.
func queued(subject string, all []Operation) (n int) {
	for _, o := range all {
		if o.Subject == subject && o.State == Queued {
			n++
		}
	}
	return n
}

// Prune is which operations to remove so that at most keep ended ones of each subject are left:
// the operations that ended first, sorted by the time of their end.
func Prune(all []Operation, keep int) (gone []Operation) {
	ended := map[string][]Operation{}
	for _, o := range all {
		if o.State.Ended() {
			ended[o.Subject] = append(ended[o.Subject], o)
		}
	}
	age := func(a, b Operation) int { return cmp.Or(a.Ended.Compare(b.Ended), strings.Compare(a.ID, b.ID)) }
	for _, of := range ended {
		slices.SortFunc(of, age)
		gone = append(gone, of[:max(0, len(of)-max(0, keep))]...)
	}
	slices.SortFunc(gone, age)
	return gone
}
