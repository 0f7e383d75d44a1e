// What an action would do, before it is done: the answer of the same request with dryRun=true.

package actions

import (
	"encoding/json"
	"strings"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/upgrades"
)

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
