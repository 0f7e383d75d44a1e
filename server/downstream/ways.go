// Over which host, or whether over its agent, a cluster's API is asked. A way that works is kept. After a failure the
// next one in turn is tried, so that a host whose tunnel is open and whose API is down holds nothing; what each of them failed with is
// shown until one works. One over which an answer came that is too large is left alone for a while.

package downstream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/answers"
)

// ErrNoControlPlane is that there is no way at all.
var ErrNoControlPlane = errors.New("no control-plane machine is registered")

// Ways is a memory of the ways to one cluster's API.
type Ways struct {
	// Last is the one that was tried last; empty before the first.
	Last records.Subject
	// failures are why those failed that were tried since one worked.
	failures map[records.Subject]string
	// barred are the ways that are not tried now, since an answer over them was too large.
	barred map[records.Subject]*barredError
}

// BarredFor is for how long a way to a cluster's API is not tried over which an answer was too large. It ends with the
// server as well: then the answer is refused once more.
const BarredFor = 5 * time.Minute

// barredError says that an answer of a cluster's API was too large, and when it is asked again.
type barredError struct {
	Err   *answers.TooLargeError
	Until time.Time
}

func (e *barredError) Error() string {
	return fmt.Sprintf("%v; it is asked again at %s", e.Err, e.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns the answer.
func (e *barredError) Unwrap() error { return e.Err }

// Bar has a way not tried for a while.
func (w *Ways) Bar(way records.Subject, err *answers.TooLargeError, now time.Time) *barredError {
	if w.barred == nil {
		w.barred = map[records.Subject]*barredError{}
	}
	w.barred[way] = &barredError{Err: err, Until: now.Add(BarredFor)}
	return w.barred[way]
}

// May says whether a way may be tried.
func (w *Ways) May(way records.Subject, now time.Time) bool {
	b := w.barred[way]
	return b == nil || !now.Before(b.Until)
}

// Barred are the first of the ways to be tried again of those that are connected; nil when none of them is barred.
func (w *Ways) Barred(ways []records.Subject, connected func(records.Subject) bool, now time.Time) (first *barredError) {
	for _, way := range ways {
		if b := w.barred[way]; !w.May(way, now) && connected(way) && (first == nil || b.Until.Before(first.Until)) {
			first = b
		}
	}
	return first
}

// Next is the way to be tried now: of those with an open tunnel the first one after the last, the cluster's agent before its hosts in the order of
// their names, and a host that is being removed only where there is no other. The agent is empty for a cluster without one. The error is
// ErrNoControlPlane or a *NoTunnelError.
func (w *Ways) Next(agent records.Subject, staying, leaving []records.Subject, connected func(records.Subject) bool) (records.Subject, error) {
	if len(staying)+len(leaving) == 0 && agent == "" {
		return "", ErrNoControlPlane
	}
	var open []records.Subject
	for _, group := range [][]records.Subject{staying, leaving} {
		if open = slices.DeleteFunc(slices.Clone(group), func(s records.Subject) bool { return !connected(s) }); len(open) > 0 {
			break
		}
	}
	slices.Sort(open)
	i, _ := slices.BinarySearch(open, w.Last+"\x00") // the first one after it
	if agent != "" && connected(agent) {
		open = slices.Insert(open, 0, agent)
		switch {
		case w.Last == "":
			i = 0
		case w.Last == agent:
			i = 1
		default:
			i++
		}
	}
	if len(open) > 0 {
		w.Last = open[i%len(open)]
		return w.Last, nil
	}
	if len(staying) == 0 {
		staying = leaving
	}
	return "", &NoTunnelError{Agent: agent != "", Machines: staying}
}

// Worked forgets failures.
func (w *Ways) Worked() { w.failures = nil }

// Failed remembers why the last one failed, and returns an error that has what all those
// failed with that would be tried again, in the order of their names.
func (w *Ways) Failed(err error, tried func(records.Subject) bool) error {
	_, away := errors.AsType[*NoTunnelError](err)
	if _, none := errors.AsType[*barredError](err); away || none || errors.Is(err, ErrNoControlPlane) {
		w.failures = nil
		return err
	}
	if w.failures == nil {
		w.failures = map[records.Subject]string{}
	}
	w.failures[w.Last] = err.Error()
	var texts []string
	for _, subject := range slices.Sorted(maps.Keys(w.failures)) {
		if subject != w.Last && !tried(subject) {
			delete(w.failures, subject)
			continue
		}
		texts = append(texts, w.failures[subject])
	}
	if len(texts) < 2 {
		return err
	}
	return errors.New(strings.Join(texts, "; "))
}

// NoTunnelError says that neither the cluster's agent, if it has one, nor a control-plane host has a tunnel open.
type NoTunnelError struct {
	Agent    bool
	Machines []records.Subject
}

func (e *NoTunnelError) Error() string {
	if e.Agent && len(e.Machines) == 0 {
		return "the tunnel of the cluster's agent is not open"
	}
	var names []string
	for _, subject := range e.Machines {
		names = append(names, string(subject.Machine()))
	}
	return fmt.Sprintf("no tunnel from %s is open; drover's agent opens one, an agent of another make does not", strings.Join(names, ", "))
}
