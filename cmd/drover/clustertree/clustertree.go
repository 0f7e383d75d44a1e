// Package clustertree prints what a cluster is made of, why it is not well, and what changes on it, for people to
// read. It asks no server: what it prints is given to it.
package clustertree

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/docs"
	"github.com/drover-project/drover/plans"
)

// Cluster is a cluster with its machines and what is under way on it, which may be nothing.
type Cluster struct {
	apitypes.Cluster
	Of        []apitypes.Machine
	Operation *apitypes.OperationSummary
	// Rehearsals is how those of its snapshots stand; zero from a server that does none.
	Rehearsals apitypes.Rehearsals
}

// Rows gives the rows of a table: what the cluster is, and its machines tier by tier. ago is how long ago
// something was, in words.
func (c Cluster) Rows(row func(cells ...string), ago func(time.Time) string) {
	row("name", c.Name)
	row("id", c.ID)
	row("state", c.State)
	row("message", cmp.Or(c.Message, "-"))
	if w := c.Warning; w != nil {
		row("warning", w.Cause+": "+w.NextStep)
	}
	row("version", cmp.Or(c.Version, "-"))
	if i := slices.IndexFunc(c.Of, func(m apitypes.Machine) bool { return m.Init && m.JoinURL != "" }); i >= 0 {
		row("joins at", c.Of[i].JoinURL)
	}
	if e := c.AuthorizedEndpoint; e != nil {
		row("without the server", cmp.Or(e.FQDN, "through each control-plane host"))
	}
	if c.Operation != nil {
		row("operation", operationText(*c.Operation))
	}
	if c.Rehearsals.Last != nil {
		row("rehearsed", rehearsed(c.Rehearsals, ago))
	}
	row("machines", fmt.Sprint(len(c.Of)))
	if len(c.Of) == 0 {
		return
	}
	row()
	row("TIER", "MACHINE", "NODE", "STATE", "SINCE", "WAITING FOR")
	machines := slices.Clone(c.Of)
	slices.SortStableFunc(machines, func(a, b apitypes.Machine) int {
		return cmp.Or(cmp.Compare(tierOf(a), tierOf(b)), strings.Compare(a.Name, b.Name))
	})
	last := -1
	for _, m := range machines {
		name := ""
		if tier := tierOf(m); tier != last {
			name, last = apitypes.Tiers[tier], tier
		}
		row(name, m.Name, cmp.Or(nodeOf(m), "-"), string(m.State), ago(m.Since), cmp.Or(waitOf(m), "-"))
	}
}

func tierOf(m apitypes.Machine) int { return apitypes.TierOf(m.Init, m.Roles) }

func nodeOf(m apitypes.Machine) string {
	if m.Node != nil {
		return m.Node.Name
	}
	return cmp.Or(m.NodeName, m.Hostname)
}

// waitOf is what a machine waits for, or why it failed.
func waitOf(m apitypes.Machine) string {
	if m.State == apitypes.MachineFailed {
		return cmp.Or(m.Cause, m.WaitingFor)
	}
	return cmp.Or(m.WaitingFor, m.Cause)
}

func operationText(o apitypes.OperationSummary) string {
	text := fmt.Sprintf("%s  %s, %s, %d of %d tasks done", o.ID, o.Kind, o.State, o.Done, o.Total)
	if o.Wait != nil && o.Wait.Object != "" {
		text += "; waits for " + o.Wait.Object
	}
	return text
}

// Documented is a text for people whose pages of the documentation are named by where the server shows them.
func Documented(server, text string) string { return docs.On(server, text) }

// Why prints causes as an indented tree, first cause first. name is what was asked about.
func Why(w io.Writer, name string, y apitypes.Why, ago func(time.Time) string) {
	line := func(indent int, format string, args ...any) {
		fmt.Fprintln(w, strings.Repeat("  ", indent)+plans.SafeLine(fmt.Sprintf(format, args...)))
	}
	if y.Well {
		line(0, "nothing is wrong with %s", name)
		return
	}
	message := ""
	if y.Message != "" {
		message = ": " + y.Message
	}
	line(0, "cluster %s is %s%s%s", y.Cluster, y.State, lasting(y.Since, ago), message)
	if y.Operation != nil {
		line(1, "operation %s", operationText(*y.Operation))
	}
	for _, c := range y.Causes {
		cause(line, c, ago)
	}
	if y.More > 0 {
		line(1, "and %d more", y.More)
	}
}

// cause prints one cause.
func cause(line func(indent int, format string, args ...any), c apitypes.Cause, ago func(time.Time) string) {
	text := cmp.Or(c.Cause, "waits for "+c.WaitingFor)
	if c.Machine == "" {
		line(1, "the cluster: %s", text)
	} else {
		host := c.Machine
		if c.Node != "" {
			host += " (" + c.Node + ")"
		}
		line(1, "machine %s is %s%s: %s", host, c.State, lasting(c.Since, ago), text)
	}
	if c.WaitingFor != "" && c.Cause != "" {
		line(2, "waits for: %s", c.WaitingFor)
	}
	if c.Title != "" {
		line(2, "that is: %s (%s, %s)", c.Title, c.Code, c.Docs)
	}
	if c.Fix != "" {
		line(2, "what to do: %s", c.Fix)
	}
	if len(c.Output) > 0 {
		of := "what failed"
		if c.Instruction != "" {
			of = "instruction " + c.Instruction
		}
		line(2, "last output of %s:", of)
		lines(line, c.Output)
	}
	if c.Log == nil {
		return
	}
	if len(c.Log.Lines) > 0 {
		line(2, "log of %s:", c.Log.Unit)
		lines(line, c.Log.Lines)
	}
	if c.Log.Fault != "" {
		line(2, "log of %s: %s", c.Log.Unit, c.Log.Fault)
	}
}

// lasting is for how long something has been so; empty where that is not known.
func lasting(since time.Time, ago func(time.Time) string) string {
	if since.IsZero() {
		return ""
	}
	return ", for " + ago(since)
}

func lines(line func(indent int, format string, args ...any), all []string) {
	for _, one := range all {
		line(3, "| %s", withoutMiddle(one))
	}
}

// How much is shown of a long line of a log, in characters: what failed stands at its begin, and why at its end.
const longHead, longTail = 240, 160

func withoutMiddle(line string) string {
	all := []rune(line)
	if len(all) <= longHead+longTail {
		return line
	}
	return string(all[:longHead]) + " … " + string(all[len(all)-longTail:])
}

// News prints a line for each change. It is for one goroutine at a time.
type News struct {
	// Out gets the lines, each with the time of Now.
	Out io.Writer
	Now func() time.Time
	// last is what was printed or known of each thing.
	last map[string]string
}

// Know takes what is for known: it is not printed again.
func (n *News) Know(c Cluster) {
	quiet := News{Out: io.Discard, Now: n.Now, last: map[string]string{}}
	quiet.Look(c)
	n.last = quiet.last
}

// Look prints what is new of the cluster, its operation and its machines.
func (n *News) Look(c Cluster) {
	n.Cluster(c.Cluster)
	if c.Operation != nil {
		n.Operation(*c.Operation)
	}
	for _, m := range c.Of {
		n.Machine(m)
	}
}

// Cluster prints what is new of a cluster.
func (n *News) Cluster(c apitypes.Cluster) {
	text := c.State
	if c.Message != "" {
		text += ": " + c.Message
	}
	n.print("cluster", text, "cluster "+c.Name+"  "+text)
}

// Machine prints what is new of a machine. A cause that alone differs is not: it may have the last line of an output.
func (n *News) Machine(m apitypes.Machine) {
	text := string(m.State)
	if wait := waitOf(m); wait != "" {
		text += ": " + wait
	}
	n.print("machine "+m.ID, string(m.State)+"\n"+m.Code+"\n"+m.WaitingFor, m.Name+"  "+text)
}

// Operation prints what is new of an operation.
func (n *News) Operation(o apitypes.OperationSummary) {
	text := operationText(o)
	n.print("operation "+o.ID, text, "operation "+text)
}

func (n *News) print(what, state, text string) {
	if n.last[what] == state {
		return
	}
	if n.last == nil {
		n.last = map[string]string{}
	}
	n.last[what] = state
	fmt.Fprintf(n.Out, "%s  %s\n", n.Now().Format(time.TimeOnly), plans.SafeLine(text))
}
