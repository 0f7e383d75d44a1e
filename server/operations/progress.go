// What is written into a running operation: its tasks, its wait and its log.

package operations

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxLines bounds the log of an operation; the oldest lines are cut.
	MaxLines = 200
	// MaxLine bounds a line of the log and each text of a task or a wait, in bytes.
	MaxLine = 1024
)

// WithTask is the operation with the task in place of the one with its ID, or behind the
// others. Since, Started and Ended are made here from the task before and from now, and never from
// the given ones: Since stays while State and Progress stay, Started stays while the task
// is not pending. A task without a state is pending. Where a task's state changes the log gets
// a line.
func (o Operation) WithTask(t Task, now time.Time) Operation {
	t.State = cmp.Or(t.State, TaskPending)
	t.Progress, t.Message = oneLine(t.Progress), oneLine(t.Message)
	i := slices.IndexFunc(o.Tasks, func(other Task) bool { return other.ID == t.ID })
	before := Task{State: TaskPending}
	if i >= 0 {
		before = o.Tasks[i]
	}
	t.Since, t.Started, t.Ended = now, before.Started, time.Time{}
	if i >= 0 && t.State == before.State && t.Progress == before.Progress {
		t.Since = before.Since
	}
	switch {
	case t.State == TaskPending:
		t.Started = time.Time{}
	case t.Started.IsZero():
		t.Started = now
	}
	if t.State.Ended() {
		t.Ended = now
		if t.State == before.State {
			t.Ended = before.Ended
		}
	}
	if i < 0 {
		o.Tasks = append(slices.Clip(o.Tasks), t)
	} else {
		o.Tasks = slices.Clone(o.Tasks)
		o.Tasks[i] = t
	}
	if t.State == before.State {
		return o
	}
	text := t.ID + ": " + string(t.State)
	if t.Message != "" {
		text += ": " + t.Message
	}
	return o.WithLine(text, now)
}

// Task is the task with the ID.
func (o Operation) Task(id string) (Task, bool) {
	for _, t := range o.Tasks {
		if t.ID == id {
			return t, true
		}
	}
	return Task{}, false
}

// Progress is how many of the tasks are done, by success or because they were not needed, and
// how many there are.
func (o Operation) Progress() (done, total int) {
	for _, t := range o.Tasks {
		if t.State == TaskSucceeded || t.State == TaskSkipped {
			done++
		}
	}
	return done, len(o.Tasks)
}

// WithWait is the operation that waits for something, or for nothing with nil. Since is made
// here: it stays while Object, Host and Cause stay.
func (o Operation) WithWait(w *Wait, now time.Time) Operation {
	if w == nil {
		o.Wait = nil
		return o
	}
	next := Wait{Object: oneLine(w.Object), Host: oneLine(w.Host), Cause: oneLine(w.Cause), NextStep: oneLine(w.NextStep), Until: w.Until, Since: now}
	if o.Wait != nil && o.Wait.Object == next.Object && o.Wait.Host == next.Host && o.Wait.Cause == next.Cause {
		next.Since = o.Wait.Since
	}
	o.Wait = &next
	return o
}

// WithLine is the operation with one more line in its log, cut as sentences are; the oldest lines
// over MaxLines are cut.
func (o Operation) WithLine(text string, now time.Time) Operation {
	lines := append(slices.Clip(o.Log), Line{At: now, Text: oneLine(text)})
	o.Log = lines[max(0, len(lines)-MaxLines):]
	return o
}

// oneLine is a text that may come from a host as one line that is safe to print: line breaks and
// other control characters and marks of direction become spaces, and what is over MaxLine bytes is cut, between two
// characters; a text that was cut ends in "…".
func oneLine(text string) string {
	const mark = "…"
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= MaxLine {
		return text
	}
	end := MaxLine - len(mark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
