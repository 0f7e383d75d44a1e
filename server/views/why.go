// Why a cluster is not well: its machines that are not, first cause first.

package views

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/records"
)

// Bounds of what is shown of the causes of a cluster.
const (
	// MaxCauses is how many causes there are at most.
	MaxCauses = 100
	// CauseLines is how many of the last lines are shown of an output or a log.
	CauseLines = 20
)

// turns are the codes of machines that wait until others have come as far as they have to.
var turns = []catalogue.Code{
	catalogue.WaitBootstrap, catalogue.WaitEtcd, catalogue.WaitControlPlane, catalogue.WaitVoter, catalogue.WaitUpgrade, catalogue.WaitQuorum, catalogue.WaitBudget, catalogue.WaitTier, catalogue.WaitGiven,
}

// Tree parts the causes into those that stand by themselves and those of machines that wait for others, which are there because of
// them. Which machine waits for which is in their sentences alone. Where all wait for others they stand by themselves.
func Tree(w apitypes.Why) (first, below []apitypes.Cause) {
	for _, c := range w.Causes {
		if slices.Contains(turns, catalogue.Code(c.Code)) && kindOf(c) == catalogue.Turn {
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

// OfCauses makes the tree of a cluster with its machines; operation may be nil. With the key of a machine it is
// the tree of that machine: when it waits for others, what comes before it is in the tree. The lines of logs are
// left to callers that can ask hosts.
func OfCauses(cl records.Cluster, machines []records.Machine, operation *apitypes.OperationSummary, machine string) apitypes.Why {
	shown := k8sobjects.ClusterSummary(cl)
	w := apitypes.Why{
		Type: "why", Cluster: cl.Key(), Machine: machine, State: shown.State, Message: shown.Message, Since: cl.Status.Since,
		Operation: operation, Causes: []apitypes.Cause{},
	}
	var gate *apitypes.Cause
	for _, m := range machines {
		c, not := causeOf(cl, m)
		if row, known := catalogue.Find(catalogue.Code(c.Code)); not && known && row.Cluster {
			gate = &c // it is the same for all
		} else if not {
			w.Causes = append(w.Causes, c)
		}
	}
	tiers := map[string]int{}
	for _, m := range machines {
		tiers[m.Key()] = apitypes.TierOf(m.Status.Init, m.Roles)
	}
	// In the order in which they lead to each other: by kind, of a kind by the tiers in which machines wait for each other, and then what
	// has been so for longest.
	slices.SortFunc(w.Causes, func(a, b apitypes.Cause) int {
		return cmp.Or(cmp.Compare(kindOf(a), kindOf(b)), cmp.Compare(tiers[a.Machine], tiers[b.Machine]), a.Since.Compare(b.Since), strings.Compare(a.Machine, b.Machine))
	})
	own := slices.IndexFunc(w.Causes, func(c apitypes.Cause) bool { return c.Machine == machine })
	switch {
	case machine == "":
	case own < 0:
		w.Causes = w.Causes[:0]
		if i := slices.IndexFunc(machines, func(m records.Machine) bool { return m.Key() == machine }); gate == nil || i < 0 || !held(machines[i]) {
			w.Well = true
			return w
		}
	case kindOf(w.Causes[own]) != catalogue.Turn:
		w.Causes = w.Causes[own : own+1]
	default:
		w.Causes = w.Causes[:own+1]
	}
	if root, is := clusterCause(cl, w, gate); is {
		w.Causes = append([]apitypes.Cause{root}, w.Causes...)
	}
	if c, is := warningCause(cl); is && machine == "" {
		w.Causes = append(w.Causes, c)
		if kindOf(c) == catalogue.Failure { // others are there because of it
			w.Causes = append([]apitypes.Cause{c}, w.Causes[:len(w.Causes)-1]...)
		}
	}
	w.Well = len(w.Causes) == 0 && w.State == string(records.ClusterActive)
	if n := len(w.Causes) - MaxCauses; n > 0 {
		w.Causes, w.More = w.Causes[:MaxCauses], n
	}
	return w
}

// WithFaults is the tree of a cluster with what is wrong with the Secrets and ConfigMaps that its document names, which stands in front:
// machines get no plan because of it. The tree of one machine stays as it is.
func WithFaults(w apitypes.Why, faults []string) apitypes.Why {
	if w.Machine != "" || len(faults) == 0 {
		return w
	}
	var first []apitypes.Cause
	for _, fault := range faults {
		first = append(first, apitypes.Cause{State: w.State, Cause: fault, Since: w.Since, Fix: "put it right in the Secret, or in the cluster's document, and apply the document again"})
	}
	w.Causes, w.Well = append(first, w.Causes...), false
	if n := len(w.Causes) - MaxCauses; n > 0 {
		w.Causes, w.More = w.Causes[:MaxCauses], w.More+n
	}
	return w
}

// OfFleetCauses is OfCauses for a fleet, whose machines depend on each other only while a plan is given to several.
func OfFleetCauses(f records.Fleet, machines []records.Machine, operation *apitypes.OperationSummary, machine string) apitypes.Why {
	cl := records.Cluster{Object: f.Object, ID: f.ID, Status: records.ClusterStatus{State: records.ClusterActive, Since: f.Created}}
	if machine != "" {
		waits := slices.ContainsFunc(machines, func(m records.Machine) bool {
			return m.Key() == machine && m.Status.Code == string(catalogue.WaitGiven)
		})
		machines = slices.DeleteFunc(slices.Clone(machines), func(m records.Machine) bool { return !waits && m.Key() != machine })
	}
	return OfCauses(cl, machines, operation, machine)
}

// held says that the machine shows a cause of its whole cluster.
func held(m records.Machine) bool {
	row, known := catalogue.Find(catalogue.Code(m.Status.Code))
	return known && row.Cluster
}

// kindOf is the kind of a cause: that of its row in the catalogue, unless a plan failed or the machine is lost.
func kindOf(c apitypes.Cause) catalogue.Kind {
	row, known := catalogue.Find(catalogue.Code(c.Code))
	switch state := records.MachineState(c.State); {
	case state == records.Unavailable || state == records.Disconnected:
		return catalogue.Loss
	case state == records.Failed || c.Instruction != "" || len(c.Output) > 0:
		return catalogue.Failure
	case !known:
		return catalogue.Work
	}
	return row.Kind
}

// causeOf is what is not well with a machine; not ok for one that is well and to which nothing is to be done.
func causeOf(cl records.Cluster, m records.Machine) (c apitypes.Cause, not bool) {
	st, state := m.Status, k8sobjects.MachineState(&m)
	if (state == records.Active || state == records.Connected) && st.Code == "" {
		return c, false
	}
	c = apitypes.Cause{
		Machine: m.Key(), Node: m.NodeName, State: string(state), Code: st.Code, Cause: st.Cause, WaitingFor: st.WaitingFor, Since: st.Since, Fix: st.NextStep,
	}
	if st.Node != nil {
		c.Node = st.Node.Name
	}
	if c.Cause == "" && c.WaitingFor == "" {
		c.Cause = "the server has not looked at it yet"
	}
	row, known := catalogue.Find(catalogue.Code(st.Code))
	if known {
		c.Title, c.Docs = row.Title, row.Docs()
	}
	unit := ""
	if m.InFleet() {
		unit = "rancher-system-agent"
	} else if !cl.Spec.Docker() && cl.Spec.KubernetesVersion != "" {
		unit = runtimes.Of(cl.Spec.KubernetesVersion).Unit(m.Roles.Etcd || m.Roles.ControlPlane)
	}
	switch {
	case !known || c.Fix != "":
	case row.Kind == catalogue.Turn:
		c.Fix = row.Fix // which is about others
	default:
		c.Fix = strings.NewReplacer("NAME", m.Name, "UNIT", unit).Replace(row.Fix)
	}
	if known && row.Host && unit != "" && !m.InFleet() {
		c.Log = &apitypes.HostLog{Unit: unit, Lines: []string{}}
	}
	leaves := state == records.Removing && catalogue.Code(st.Code) != catalogue.UninstallError && catalogue.Code(st.Code) != catalogue.Retrying
	if f := st.LastFailure; f != nil && !leaves { // of one that leaves it is of a plan that is not wanted any more
		c.Instruction, c.Output = f.Instruction, lastLines(f.Output)
	}
	return c, true
}

// clusterCause is what is wrong with the cluster itself: a gate that keeps all machines from getting plans, or
// with any message when no machine shows a cause.
func clusterCause(cl records.Cluster, w apitypes.Why, gate *apitypes.Cause) (apitypes.Cause, bool) {
	if gate == nil && (len(w.Causes) > 0 || w.State == string(records.ClusterActive) || w.Machine != "") {
		return apitypes.Cause{}, false
	}
	c := apitypes.Cause{State: w.State, Cause: w.Message, Since: w.Since}
	code := catalogue.Code("")
	switch {
	case gate != nil:
		code, c.Fix = catalogue.Code(gate.Code), gate.Fix
	case cl.Exported != nil:
		code = catalogue.Exported
	case cl.Spec.Imported():
		c.Fix = "run what `drover clusters import " + cl.Name + "` prints, in the cluster"
	case cl.Spec.Docker():
	case cl.Spec.KubernetesVersion == "":
		code = catalogue.NoVersion
	case w.State == string(records.ClusterPending):
		code = catalogue.MissingRoles
		c.Fix = "run on a host what `drover clusters join-command " + cl.Name + " --all-roles` prints"
	}
	if row, known := catalogue.Find(code); known {
		c.Code, c.Title, c.Docs, c.Fix = string(code), row.Title, row.Docs(), cmp.Or(c.Fix, strings.ReplaceAll(row.Fix, "NAME", cl.Name))
	}
	return c, true
}

// warningCause is what a person should look at though the cluster works.
func warningCause(cl records.Cluster) (apitypes.Cause, bool) {
	w := cl.Status.Warning
	row, known := catalogue.Find(catalogue.Code(w.Code))
	if !known {
		return apitypes.Cause{}, false
	}
	return apitypes.Cause{
		State: k8sobjects.ClusterSummary(cl).State, Code: w.Code, Title: row.Title, Docs: row.Docs(), Cause: w.Cause, Since: cl.Status.Since,
		Fix: cmp.Or(w.NextStep, strings.ReplaceAll(row.Fix, "NAME", cl.Name)),
	}, true
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
