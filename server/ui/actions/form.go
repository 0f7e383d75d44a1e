// What the form of an action asks for, what came with it, and what would be done: the answer of the same request with dryRun=true.

package actions

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/upgrades"
)

// Field is one field of a form.
type Field struct {
	Name, Label, Hint string
	// Kind is text, password, area, tick, choice or hidden.
	Kind string
	// Value is what it has; of a tick it is "on" or empty.
	Value    string
	Choices  []Choice
	Required bool
	// Known are values that are offered while a user types; others may be given, too.
	Known []Choice
}

// Choice is one of the values of a field.
type Choice struct{ Value, Title string }

// Shown is an answer that is shown once.
type Shown struct {
	// Title is what it is, Text the thing itself.
	Title, Text string
	// File is the name of a file that browsers keep it under; empty for none.
	File string
}

// Known is what the form of an action may offer to the user who opens it.
type Known struct {
	ui.Facts
	Who auth.Identity
}

// mostKnown bounds how many values are offered.
const mostKnown = 500

func known[T any](all []T, of func(T) Choice) []Choice {
	var offered []Choice
	for _, one := range all[:min(len(all), mostKnown)] {
		offered = append(offered, of(one))
	}
	return offered
}

// Given is what a form came with.
type Given url.Values

// Text is the value of a field.
func (g Given) Text(name string) string { return strings.TrimSpace(url.Values(g).Get(name)) }

// On says that a tick is set.
func (g Given) On(name string) bool { return url.Values(g).Get(name) == "on" }

// flag is the flag of a command that a tick stands for; empty where it is not set.
func (g Given) flag(name string) string {
	if g.On(name) {
		return "--" + name
	}
	return ""
}

// Trial is what would be done.
type Trial struct {
	// Lines are the steps, in their order.
	Lines []string
	// Findings are what was found before an upgrade.
	Findings []upgrades.Finding
	// Result is what becomes of the cluster's document; nil where that does not change.
	Result *clusters.Result
	// Fault is why it would be refused; empty when it would not.
	Fault string
}

// try asks what an action would do.
func (p *Pages) try(c *route.Call, d Action, s Subject, given Given) (Trial, error) {
	asked := d.Ask(s, given)
	if strings.Contains(asked.Target, "?") {
		asked.Target += "&dryRun=true"
	} else {
		asked.Target += "?dryRun=true"
	}
	reply, err := c.Ask(asked)
	if err != nil {
		return Trial{}, err
	}
	var answer struct {
		Lines    []string           `json:"lines"`
		Findings []upgrades.Finding `json:"findings"`
		Result   *clusters.Result   `json:"result"`
	}
	if err := json.Unmarshal(reply.Body, &answer); err != nil && reply.Refused() == nil {
		return Trial{}, err
	}
	t := Trial{Lines: answer.Lines, Findings: answer.Findings, Result: answer.Result}
	if e := reply.Refused(); e != nil {
		t.Fault = ui.Sentence(strings.TrimSuffix(e.Error(), "."))
	}
	return t, nil
}
