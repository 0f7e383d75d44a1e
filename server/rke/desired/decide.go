// What is to be done on a cluster now, of its records alone.

package desired

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
)

// Params are what an operation on an RKE1 cluster remembers between two tries.
type Params struct {
	// Stamp is that of what was tried last.
	Stamp string `json:"stamp,omitempty"`
	// Tries counts those that have failed since Stamp is what it is, and Next is when the next one begins.
	Tries int       `json:"tries,omitempty"`
	Next  time.Time `json:"next,omitzero"`
	// Retry is how many of the operation's requests to try again were taken up.
	Retry int `json:"retry,omitempty"`
	// Away are the addresses of hosts that alone are left to do, as they could not be reached.
	Away []string `json:"away,omitempty"`
	// Guard is the name of the snapshot that an upgrade begins with; empty for none.
	Guard string `json:"guard,omitempty"`
	// Request is what is carried out; nil for a cluster that is brought to its document or removed.
	Request *Request `json:"wish,omitempty"`
}

// ReadParams are the Params of an operation. What cannot be read is as good as none: it only spaces tries.
func ReadParams(o operations.Operation) Params {
	var p Params
	if json.Unmarshal(o.Params, &p) != nil {
		return Params{Retry: o.Retry}
	}
	return p
}

// With is an operation with other Params. It returns an error where JSON cannot be made of it.
func (p Params) With(o operations.Operation) (operations.Operation, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return o, fmt.Errorf("keep what operation %s is at: %w", o.ID, err)
	}
	o.Params = text
	return o, nil
}

// Delay is the time between two tries: 30 s after the first failure, doubling, at most 10 minutes.
func Delay(tries int) time.Duration {
	return min(30*time.Second<<min(max(tries-1, 0), 10), 10*time.Minute)
}

// Snapshot is what a decision depends on.
type Snapshot struct {
	Now      time.Time
	Cluster  records.Cluster
	Machines []records.Machine
	// Connected says whether the tunnel of a host's node agent is open.
	Connected func(records.Machine) bool
	// Record is the cluster's state as it is kept; nil for none.
	Record *records.RKEState
	// Operations are those on the cluster, those that have ended, too.
	Operations []operations.Operation
	Versions   *versions.Data
}

// Do is what a decision is about.
type Do int

// The kinds of decisions.
const (
	// Nothing is to be done now; Again says when to look again.
	Nothing Do = iota
	// Begin an operation of Kind and Title.
	Begin
	// Run what the operation is for, on Config.
	Run
	// Save takes a snapshot that the schedule says.
	Save
	// Forget that requests were carried out which the document does not have any more.
	Forget
	// End the operation as State, with Reason.
	End
	// Hold back the operation, which waits for Wait.
	Hold
	// Leave the cluster alone: it is in other hands, and node agents that repair its hosts are to leave them alone, too.
	Leave
)

// Decision is what is to be done.
type Decision struct {
	Do Do
	// Kind and Title are of the operation that begins, Request is what it carries out; nil for none.
	Kind    operations.Kind
	Title   string
	Request *Request
	// Done is what counts as carried out from now on.
	Done map[operations.Kind]string
	// Operation is the one that runs or ends.
	Operation operations.Operation
	// State and Reason are how it ends; Halted says that what it was for is not begun again by itself.
	State  operations.State
	Reason string
	Halted bool
	// Config, Before and Stamp are what is carried out; Config is the deployed one where the cluster is removed.
	Config *config.Cluster
	Before *state.State
	Stamp  string
	// Wait is what an operation waits for that is held back.
	Wait *operations.Wait
	// Again is when to look again though nothing changed; zero: not.
	Again time.Duration
}

// Decide says what is to be done on a cluster now. The error says that the store has what cannot be read.
func Decide(s Snapshot) (Decision, error) {
	before, err := rke.State(s.Record)
	if err != nil {
		return Decision{}, err
	}
	key := string(records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name))
	active, busy := operations.Active(key, s.Operations)
	switch {
	case !s.Cluster.Spec.RKE1(), !s.Cluster.Deleting.IsZero() && !s.Cluster.Leave.Uninstall, busy && active.State == operations.Queued:
		return Decision{}, nil
	case !s.Cluster.Deleting.IsZero():
		return s.removal(before, active, busy), nil
	case s.Cluster.Exported != nil:
		return Decision{Do: Leave}, nil
	}
	in := Input{Cluster: s.Cluster, Machines: s.Machines, Before: before, Versions: s.Versions}
	stamp, err := Stamp(in)
	if err != nil {
		return Decision{}, err
	}
	if busy {
		return s.carryOn(in, stamp, active), nil
	}
	doc, err := s.Cluster.Spec.RKE1Config()
	if err != nil {
		return Decision{}, err
	}
	if s.Record != nil {
		if _, left, forget := open(doc, s.Record.Carried); forget {
			return Decision{Do: Forget, Done: left}, nil
		}
	}
	if s.Cluster.Paused != nil || len(Needs(s.Cluster.Name, s.Machines, s.Connected)) > 0 {
		return Decision{}, nil
	}
	deployed := before != nil && before.Current.Config != nil
	pending := s.Record == nil || s.Record.Done != stamp && s.Record.Halted != stamp
	request := s.next(doc, pending, deployed)
	if request == nil && !pending {
		return s.scheduled(in, Decision{}), nil
	}
	if _, _, wrong := Config(in); wrong != nil {
		return Decision{}, nil // its owner is shown what is wrong
	}
	if request != nil {
		return Decision{Do: Begin, Kind: request.Kind, Title: request.Title(s.Cluster.Name), Request: request, Stamp: stamp}, nil
	}
	title := "make RKE1 cluster " + s.Cluster.Name
	if deployed {
		title = "bring RKE1 cluster " + s.Cluster.Name + " to its document and its hosts"
	}
	return Decision{Do: Begin, Kind: operations.KindProvision, Title: title, Stamp: stamp}, nil
}

// scheduled is a decision to wait, or to take a snapshot meanwhile when one is due.
func (s Snapshot) scheduled(in Input, wait Decision) Decision {
	schedule, on := ScheduleOf(in)
	if !on || in.Before == nil || in.Before.Current.Config == nil || s.Cluster.Paused != nil || s.Record.Done == "" {
		return wait
	}
	left := schedule.due(*s.Record, s.Now)
	if left <= 0 {
		if len(Needs(s.Cluster.Name, s.Machines, s.Connected)) > 0 {
			return wait // a tunnel that opens has the cluster looked at again
		}
		cfg, _, wrong := Config(in)
		if wrong != nil {
			return wait
		}
		return Decision{Do: Save, Config: cfg, Before: in.Before}
	}
	if wait.Again == 0 || left < wait.Again {
		wait.Again = left
	}
	return wait
}

// carryOn decides on an operation that is under way.
func (s Snapshot) carryOn(in Input, stamp string, o operations.Operation) Decision {
	p := ReadParams(o)
	d := Decision{Operation: o, Stamp: stamp, Before: in.Before, Request: p.Request}
	if o.State == operations.Stopping {
		d.Do, d.State, d.Halted = End, operations.Aborted, true
		d.Reason = "stopped; what was begun on hosts is gone on with by the next change, or by `drover apply` of the same document"
		if w := p.Request; w != nil {
			d.Halted, d.Reason = false, "stopped; what was begun is gone on with by `"+w.Command(s.Cluster.Name)+"`"
		}
		return d
	}
	if wait, held := s.held(in, o); held {
		return wait
	}
	if p.Stamp != "" && (p.Stamp == stamp || p.Request != nil) && o.Retry <= p.Retry {
		if !s.anyBack(p.Away) {
			return s.scheduled(in, Decision{})
		}
		if left := p.Next.Sub(s.Now); left > 0 {
			return s.scheduled(in, Decision{Again: left})
		}
	}
	if len(Needs(s.Cluster.Name, s.Machines, s.Connected)) > 0 {
		return Decision{} // right after a server took over, agents are on their way to it
	}
	var wrong error
	d.Do = Run
	if d.Config, _, wrong = Config(in); wrong != nil {
		d.Do, d.State, d.Reason = End, operations.Failed, wrong.Error()
	}
	return d
}

// anyBack says that it makes sense to try again: nothing was left to hosts that were away, or one of them is connected, or has left.
func (s Snapshot) anyBack(away []string) bool {
	if len(away) == 0 {
		return true
	}
	return slices.ContainsFunc(away, func(address string) bool {
		i := slices.IndexFunc(s.Machines, func(m records.Machine) bool { return Address(m) == address })
		return i < 0 || s.Connected(s.Machines[i])
	})
}

// removal decides on a cluster that is taken off its hosts. Once it is, the planner lets its records go.
func (s Snapshot) removal(before *state.State, o operations.Operation, busy bool) Decision {
	d := Decision{Operation: o, Before: before, Stamp: string(operations.KindUninstall)}
	switch {
	case busy && o.Kind != operations.KindUninstall:
		d.Do, d.State, d.Reason = End, operations.Aborted, "cluster "+s.Cluster.Name+" is deleted"
		return d
	case before == nil:
		return Decision{}
	case !busy:
		return Decision{Do: Begin, Kind: operations.KindUninstall, Title: fmt.Sprintf("remove cluster %s and leave its hosts clean", s.Cluster.Name), Stamp: string(operations.KindUninstall)}
	}
	p := ReadParams(o)
	if p.Stamp == d.Stamp && o.Retry <= p.Retry {
		if left := p.Next.Sub(s.Now); left > 0 {
			return Decision{Again: left}
		}
	}
	d.Do, d.Config = Run, before.Desired.Config
	if before.Current.Config != nil {
		// Hosts that were to join may have something of the cluster, too.
		c := *before.Current.Config
		for _, n := range before.Desired.Config.Nodes {
			if !slices.ContainsFunc(c.Nodes, func(other config.Node) bool { return other.Address == n.Address }) {
				c.Nodes = append(slices.Clip(c.Nodes), n)
			}
		}
		d.Config = &c
	}
	return d
}
