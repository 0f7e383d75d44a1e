// Why a cluster is not well: its machines that are not, first cause first.

package views

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/decide/verdict"
	"github.com/drover-project/drover/server/records"
)

// Bounds of what is shown of the causes of a cluster.
const (
	// MaxCauses is how many causes there are at most.
	MaxCauses = 100
	// CauseLines is how many of the last lines are shown of an output or a log.
	CauseLines = 20
)

// Why is a tree of causes: a cluster, what is under way on it, and what is not well.
type Why struct {
	Type    string `json:"type"`    // why
	Cluster string `json:"cluster"` // <namespace>/<name>
	// Machine is the key of the machine that was asked about, <namespace>/<name>; absent for a whole cluster.
	Machine string `json:"machine,omitempty"`
	// Well says that nothing is wrong with what was asked about, and that nothing is to be done on it.
	Well    bool      `json:"well"`
	State   string    `json:"state"` // of the cluster, as Message and Since are
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Operation is what is under way on the cluster.
	Operation *OperationSummary `json:"operation,omitempty"`
	// Causes begin with what others are there because of.
	Causes []Cause `json:"causes"`
	// More is how many further causes there are.
	More int `json:"more,omitempty"`
}

// Cause is one thing that is not well.
type Cause struct {
	// Machine is "<namespace>/<name>", absent for a cause of the cluster itself, and Node the name of its node or host.
	Machine string `json:"machine,omitempty"`
	Node    string `json:"node,omitempty"`
	State   string `json:"state"`
	// Code is the row of the catalogue, whose title is Title; Docs is its place in the documentation.
	Code  string `json:"code,omitempty"`
	Title string `json:"title,omitempty"`
	Docs  string `json:"docs,omitempty"`
	// Cause is a sentence that names object, host and reason.
	Cause      string    `json:"cause,omitempty"`
	WaitingFor string    `json:"waitingFor,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	// Fix is what a person does about it.
	Fix string `json:"fix,omitempty"`
	// Instruction is the name of the instruction that failed last, and Output the last lines that it printed.
	Instruction string   `json:"instruction,omitempty"`
	Output      []string `json:"output,omitempty"`
	// Log is what the distribution says on the host; absent where that does not matter.
	Log *HostLog `json:"log,omitempty"`

	kind verdict.Kind
	tier int
}

// turns are the codes of machines that wait until others have come as far as they have to.
var turns = []verdict.Code{
	verdict.WaitBootstrap, verdict.WaitEtcd, verdict.WaitControlPlane, verdict.WaitVoter, verdict.WaitUpgrade, verdict.WaitQuorum, verdict.WaitBudget, verdict.WaitTier, verdict.WaitGiven,
}

// Tree parts the causes into those that stand by themselves and those of machines that wait for others, which are there because of
// them. Which machine waits for which is in their sentences alone. Where all wait for others they stand by themselves.
func (w Why) Tree() (first, below []Cause) {
	for _, c := range w.Causes {
		if slices.Contains(turns, verdict.Code(c.Code)) && c.kind == verdict.Turn {
			below = append(below, c)
		} else {
			first = append(first, c)
		}
	}
	if len(first) == 0 {
		return below, nil
	}
	return first, below
}

// HostLog is the end of the log of a systemd unit on a host.
type HostLog struct {
	Unit  string   `json:"unit"`
	Lines []string `json:"lines"`
	// Fault is why there are no lines.
	Fault string `json:"fault,omitempty"`
}

// OfCauses makes the tree of a cluster with its machines; operation may be nil. With the key of a machine it is
// the tree of that one: when it waits for others, what comes before it is in it. The lines of logs are
// left to whoever can ask hosts.
func OfCauses(cl records.Cluster, machines []records.Machine, operation *OperationSummary, machine string) Why {
	shown := conditions.Cluster(cl)
	w := Why{
		Type: "why", Cluster: cl.Key(), Machine: machine, State: shown.State, Message: shown.Message, Since: cl.Status.Since,
		Operation: operation, Causes: []Cause{},
	}
	var gate *Cause
	for _, m := range machines {
		c, not := causeOf(cl, m)
		if row, known := verdict.Find(verdict.Code(c.Code)); not && known && row.Cluster {
			gate = &c // it is the same for all
		} else if not {
			w.Causes = append(w.Causes, c)
		}
	}
	slices.SortFunc(w.Causes, before)
	own := slices.IndexFunc(w.Causes, func(c Cause) bool { return c.Machine == machine })
	switch {
	case machine == "":
	case own < 0:
		w.Causes = w.Causes[:0]
		if i := slices.IndexFunc(machines, func(m records.Machine) bool { return m.Key() == machine }); gate == nil || i < 0 || !held(machines[i]) {
			w.Well = true
			return w
		}
	case w.Causes[own].kind != verdict.Turn:
		w.Causes = w.Causes[own : own+1]
	default:
		w.Causes = w.Causes[:own+1]
	}
	if root, is := clusterCause(cl, w, gate); is {
		w.Causes = append([]Cause{root}, w.Causes...)
	}
	if c, is := warningCause(cl); is && machine == "" {
		w.Causes = append(w.Causes, c)
		if c.kind == verdict.Failure { // others are there because of it
			w.Causes = append([]Cause{c}, w.Causes[:len(w.Causes)-1]...)
		}
	}
	w.Well = len(w.Causes) == 0 && w.State == string(records.ClusterActive)
	if n := len(w.Causes) - MaxCauses; n > 0 {
		w.Causes, w.More = w.Causes[:MaxCauses], n
	}
	return w
}

// Named is the tree of a cluster with what is wrong with the Secrets and ConfigMaps that its document names, which stands in front:
// machines get no plan because of it. The tree of one machine stays as it is.
func (w Why) Named(faults []string) Why {
	if w.Machine != "" || len(faults) == 0 {
		return w
	}
	var first []Cause
	for _, fault := range faults {
		first = append(first, Cause{State: w.State, Cause: fault, Since: w.Since, Fix: "put it right in the Secret, or in the cluster's document, and apply the document again"})
	}
	w.Causes, w.Well = append(first, w.Causes...), false
	if n := len(w.Causes) - MaxCauses; n > 0 {
		w.Causes, w.More = w.Causes[:MaxCauses], w.More+n
	}
	return w
}

// OfFleetCauses is OfCauses for a fleet, whose machines depend on each other only while a plan is given to several.
func OfFleetCauses(f records.Fleet, machines []records.Machine, operation *OperationSummary, machine string) Why {
	cl := records.Cluster{Object: f.Object, ID: f.ID, Status: records.ClusterStatus{State: records.ClusterActive, Since: f.Created}}
	if machine != "" {
		waits := slices.ContainsFunc(machines, func(m records.Machine) bool {
			return m.Key() == machine && m.Status.Code == string(verdict.WaitGiven)
		})
		machines = slices.DeleteFunc(slices.Clone(machines), func(m records.Machine) bool { return !waits && m.Key() != machine })
	}
	return OfCauses(cl, machines, operation, machine)
}

// held says that the machine shows a cause of its whole cluster.
func held(m records.Machine) bool {
	row, known := verdict.Find(verdict.Code(m.Status.Code))
	return known && row.Cluster
}

// before has causes in the order in which they lead to each other: by kind, and of a kind the tiers in which
// machines wait for each other, and then what has been so for longest.
func before(a, b Cause) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.tier, b.tier), a.Since.Compare(b.Since), strings.Compare(a.Machine, b.Machine))
}

// causeOf is what is not well with a machine; not ok for one that is well and to which nothing is to be done.
func causeOf(cl records.Cluster, m records.Machine) (c Cause, not bool) {
	st, state := m.Status, conditions.MachineState(m)
	if (state == records.Active || state == records.Connected) && st.Code == "" {
		return c, false
	}
	c = Cause{
		Machine: m.Key(), Node: m.NodeName, State: string(state), Code: st.Code, Cause: st.Cause, WaitingFor: st.WaitingFor, Since: st.Since, Fix: st.NextStep,
		kind: verdict.Work, tier: TierOf(m.Status.Init, m.Roles),
	}
	if st.Node != nil {
		c.Node = st.Node.Name
	}
	if c.Cause == "" && c.WaitingFor == "" {
		c.Cause = "the server has not looked at it yet"
	}
	row, known := verdict.Find(verdict.Code(st.Code))
	if known {
		c.kind, c.Title, c.Docs = row.Kind, row.Title, row.Docs()
	}
	unit := ""
	if m.InFleet() {
		unit = "rancher-system-agent"
	} else if !cl.Spec.Docker() && cl.Spec.KubernetesVersion != "" {
		unit = runtimes.Of(cl.Spec.KubernetesVersion).Unit(m.Roles.Etcd || m.Roles.ControlPlane)
	}
	switch {
	case !known || c.Fix != "":
	case row.Kind == verdict.Turn:
		c.Fix = row.Fix // which is about others
	default:
		c.Fix = strings.NewReplacer("NAME", m.Name, "UNIT", unit).Replace(row.Fix)
	}
	if known && row.Host && unit != "" && !m.InFleet() {
		c.Log = &HostLog{Unit: unit, Lines: []string{}}
	}
	leaves := state == records.Removing && verdict.Code(st.Code) != verdict.UninstallError && verdict.Code(st.Code) != verdict.Retrying
	if f := st.LastFailure; f != nil && !leaves { // of one that leaves it is of a plan that is not wanted any more
		c.kind, c.Instruction = verdict.Failure, f.Instruction
		c.Output = lastLines(f.Output)
	}
	switch state {
	case records.Failed:
		c.kind = verdict.Failure
	case records.Unavailable, records.Disconnected:
		c.kind = verdict.Loss
	}
	return c, true
}

// clusterCause is what is wrong with the cluster itself: a gate that keeps all machines from getting plans, or
// whatever its message says when no machine shows a cause.
func clusterCause(cl records.Cluster, w Why, gate *Cause) (Cause, bool) {
	if gate == nil && (len(w.Causes) > 0 || w.State == string(records.ClusterActive) || w.Machine != "") {
		return Cause{}, false
	}
	c := Cause{State: w.State, Cause: w.Message, Since: w.Since}
	code := verdict.Code("")
	switch {
	case gate != nil:
		code, c.Fix = verdict.Code(gate.Code), gate.Fix
	case cl.Exported != nil:
		code = verdict.Exported
	case cl.Spec.Imported():
		c.Fix = "run what `drover clusters import " + cl.Name + "` prints, in the cluster"
	case cl.Spec.Docker():
	case cl.Spec.KubernetesVersion == "":
		code = verdict.NoVersion
	case w.State == string(records.ClusterPending):
		code = verdict.MissingRoles
		c.Fix = "run on a host what `drover clusters join-command " + cl.Name + " --all-roles` prints"
	}
	if row, known := verdict.Find(code); known {
		c.Code, c.Title, c.Docs, c.Fix = string(code), row.Title, row.Docs(), cmp.Or(c.Fix, strings.ReplaceAll(row.Fix, "NAME", cl.Name))
	}
	return c, true
}

// warningCause is what a person should look at though the cluster works.
func warningCause(cl records.Cluster) (Cause, bool) {
	w := cl.Status.Warning
	row, known := verdict.Find(verdict.Code(w.Code))
	if !known {
		return Cause{}, false
	}
	return Cause{
		State: conditions.Cluster(cl).State, Code: w.Code, Title: row.Title, Docs: row.Docs(), Cause: w.Cause, Since: cl.Status.Since,
		Fix: cmp.Or(w.NextStep, strings.ReplaceAll(row.Fix, "NAME", cl.Name)), kind: row.Kind,
	}, true
}

// Tiers are the parts of a cluster in the order in which they change; TierOf is an index.
var Tiers = [...]string{"bootstrap", "etcd", "control plane", "worker"}

// TierOf is the tier of a machine with these roles; init is that of the one that began the cluster.
func TierOf(init bool, r records.Roles) int {
	switch {
	case init:
		return 0
	case r.Etcd:
		return 1
	case r.ControlPlane:
		return 2
	}
	return 3
}

// lastLines are the last lines of a text.
func lastLines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-CauseLines):]
}
