// From a change in the store to the event that it is, if it is one: functions of the change, and
// of the clock where the record itself does not say when.

package events

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Held is the state of a rehearsal that is due and does not begin.
const Held = "held up"

// RightsKept and RightsDiffer are the states of the rights that are kept in a cluster.
const (
	RightsKept   = "as at the server"
	RightsDiffer = "changed by hand"
)

// differ is what was changed by hand in a cluster, in a sentence; empty for nothing.
func differ(c records.Cluster) string {
	if c.Differs == nil {
		return ""
	}
	return c.Differs.Sentence()
}

// Removed is the state of a machine that is none any more. Of a cluster that is removed no events are kept.
const Removed = "Removed"

// maxCause bounds a cause, in bytes.
const maxCause = 512

func ofCluster(e store.Event[records.Cluster], now func() time.Time) (records.Event, bool) {
	if e.Type == store.Deleted {
		return records.Event{}, false
	}
	c, shown := e.Value, k8sobjects.ClusterSummary(e.Value)
	made := records.Event{
		Revision: e.Revision, ClusterID: c.ID, Kind: records.EventOfCluster, Key: e.Key, Name: c.Name,
		To: shown.State, Cause: bounded(shown.Message), At: since(c.Status.Since, now),
	}
	if e.Old != nil {
		made.From = k8sobjects.ClusterSummary(*e.Old).State
		if made.From != made.To && e.Old.Status.Since.Equal(c.Status.Since) {
			made.At = now() // it is being removed, which the status does not say yet
		}
	}
	if made.From == made.To && differ(*e.Old) != differ(c) {
		made.Kind, made.From, made.Cause, made.At = records.EventOfRights, RightsKept, bounded(differ(c)), now()
		if made.To = RightsKept; made.Cause != "" {
			made.To = RightsDiffer
		}
		if differ(*e.Old) != "" {
			made.From = RightsDiffer
		}
		return made, true
	}
	if w := c.Status.Warning; made.From == made.To && w.Code != "" && e.Old.Status.Warning.Code != w.Code {
		made.Code, made.Cause, made.At = w.Code, bounded(w.Cause), now()
		return made, true
	}
	return made, made.From != made.To
}

func ofMachine(e store.Event[records.Machine], now func() time.Time) (records.Event, bool) {
	m := e.Value
	made := records.Event{Revision: e.Revision, ClusterID: m.ClusterID, Kind: records.EventOfMachine, Key: e.Key, Name: nameOf(m)}
	if e.Type == store.Deleted {
		made.At, made.From, made.To = now(), string(k8sobjects.MachineState(&m)), Removed
		return made, true
	}
	made.To, made.At = string(k8sobjects.MachineState(&m)), since(m.Status.Since, now)
	if made.To == string(m.Status.State) {
		made.Code, made.Cause = m.Status.Code, bounded(m.Status.Cause)
	}
	if e.Old != nil {
		made.From = string(k8sobjects.MachineState(e.Old))
		if made.From != made.To && e.Old.Status.Since.Equal(m.Status.Since) {
			made.At = now()
		}
	}
	return made, made.From != made.To
}

func ofOperation(e store.Event[operations.Operation], cluster string, now func() time.Time) (records.Event, bool) {
	if e.Type == store.Deleted {
		return records.Event{}, false // an old one of which there are enough
	}
	o := e.Value
	made := records.Event{
		Revision: e.Revision, ClusterID: cluster, Kind: records.EventOfOperation, Key: e.Key, Name: o.ID, To: string(o.State), Cause: bounded(o.Reason), At: now(),
	}
	if len(o.Log) > 0 { // which has a line for each change of its state
		made.At = o.Log[len(o.Log)-1].At
	}
	if o.Reason == "" {
		made.Cause = bounded(o.Title)
	}
	if e.Old != nil {
		made.From = string(e.Old.State)
	}
	return made, made.From != made.To
}

// ofRehearsals is what became of a rehearsal of a cluster. The operation that does it is the fleet's, and its events are there.
func ofRehearsals(e store.Event[records.Rehearsals], c records.Cluster) (records.Event, bool) {
	if e.Type == store.Deleted {
		return records.Event{}, false
	}
	var before records.Rehearsals
	if e.Old != nil {
		before = *e.Old
	}
	made := records.Event{Revision: e.Revision, ClusterID: c.ID, Kind: records.EventOfRehearsal, Key: e.Key, Name: c.Name}
	switch last, held := e.Value.Last, e.Value.Held; {
	case last != nil && (before.Last == nil || before.Last.Operation != last.Operation):
		made.At, made.Name, made.To, made.Cause = last.At, last.Snapshot, last.State, bounded(cmp.Or(last.Cause, last.Counted))
	case held != nil && (before.Held == nil || *before.Held != *held):
		made.At, made.To, made.Cause = held.At, Held, bounded(held.Why)
	default:
		return records.Event{}, false
	}
	return made, true
}

func since(at time.Time, now func() time.Time) time.Time {
	if at.IsZero() {
		return now()
	}
	return at
}

// nameOf is the machine's node, what its host is called, or its own name.
func nameOf(m records.Machine) string {
	switch {
	case m.Status.Node != nil:
		return m.Status.Node.Name
	case m.NodeName != "":
		return m.NodeName
	}
	return m.Name
}

// bounded is a text on one line, cut where it is too long.
func bounded(text string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if len(text) <= maxCause {
		return text
	}
	cut := maxCause - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
