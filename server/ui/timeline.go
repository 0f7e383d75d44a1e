// An operation over time.

package ui

import (
	"cmp"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
)

// timeline is the tasks of an operation over one axis of time, in their order.
type timeline struct {
	// Begin and End are the ends of the axis; zero while nothing has begun. End is after the moment of the picture while something
	// runs, which Open says.
	Begin, End time.Time
	Open       bool
	Rows       []Span
}

// Span is a task with its place on the axis, in thousandths of it. Both are zero for one that has not begun.
type Span struct {
	operations.Task
	X, Width int
}

const (
	// axis is how long the axis is in the units of spans, and leastWidth what can be seen of one.
	axis, leastWidth = 1000, 6
	// steps is in how many steps, at most, the axis grows while an operation runs: a picture of each moment would be another one.
	steps = 50
)

// timelineOf is that of an operation at a moment.
func timelineOf(o apitypes.Operation, now time.Time) timeline {
	t := timeline{Begin: o.Started, Open: !o.State.Ended()}
	last := o.Ended
	for _, one := range o.Tasks {
		if !one.Started.IsZero() && (t.Begin.IsZero() || one.Started.Before(t.Begin)) {
			t.Begin = one.Started
		}
		for _, at := range []time.Time{one.Started, one.Ended} {
			if at.After(last) {
				last = at
			}
		}
	}
	if t.Begin.IsZero() {
		t.Open = false
	} else if t.End = last; t.Open {
		t.End = grown(t.Begin, later(now, last))
	}
	for _, one := range o.Tasks {
		row := Span{Task: one}
		if !one.Started.IsZero() {
			ended := one.Ended
			if ended.IsZero() {
				ended = t.End
			}
			row.X, row.Width = t.place(one.Started, ended)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// grown is the end of an axis that has to hold a moment.
func grown(begin, at time.Time) time.Time {
	step := time.Second
	for at.Sub(begin)/step >= steps {
		step *= 2
	}
	return begin.Add((max(0, at.Sub(begin))/step + 1) * step)
}

// place is where a time from one moment to another is on the axis.
func (t timeline) place(from, to time.Time) (x, width int) {
	all := cmp.Or(t.End.Sub(t.Begin), 1)
	at := func(m time.Time) int { return int(min(max(0, m.Sub(t.Begin)), all) * axis / all) }
	x = min(at(from), axis-leastWidth)
	return x, max(leastWidth, at(to)-x)
}
