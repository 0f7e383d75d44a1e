// What is written into a running operation: its tasks, its wait and its log.

package operations

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxLines bounds the log of an operation; the oldest lines are cut.
	MaxLines = 200
	// MaxLine bounds a line of the log, and a task's message, in bytes.
	MaxLine = 1024
)

// WithTask is the operation with the task in place of the one with its ID, or behind the
// others. Since, Started and Ended are made here from the task before and from now, whatever
// the given ones say: Since stays while State and Progress stay, Started stays while the task
// is not pending. A task without a state is pending. Where a task's state changes the log gets
// a line.
func (o Operation) WithTask(t Task, now time.Time) Operation {
	if t.State == "" {
		t.State = TaskPending
	}
	t.Message = cut(t.Message)
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
	next := *w
	next.Since = now
	if o.Wait != nil && o.Wait.Object == w.Object && o.Wait.Host == w.Host && o.Wait.Cause == w.Cause {
		next.Since = o.Wait.Since
	}
	o.Wait = &next
	return o
}

// WithLine is the operation with one more line in its log. Line breaks and other control
// characters become spaces, text over MaxLine bytes is cut, and so are the oldest lines over MaxLines.
func (o Operation) WithLine(text string, now time.Time) Operation {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	lines := append(slices.Clip(o.Log), Line{At: now, Text: cut(text)})
	o.Log = lines[max(0, len(lines)-MaxLines):]
	return o
}

// cut is the text of at most MaxLine bytes, whole characters of UTF-8; one that was cut ends in "…".
func cut(text string) string {
	const mark = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxLine {
		return text
	}
	end := MaxLine - len(mark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
