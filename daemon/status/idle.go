// The words for a person who asks for output and sees nothing: a person must not take an agent
// that has nothing to print for one that is broken.

package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
)

// Idle says, in lines, why no instruction prints anything now, what was applied last, and
// where more is to be read; empty while an instruction runs and nothing is waited for. Times
// are in UTC: the reader may be elsewhere.
func (s Status) Idle() []string {
	var lines []string
	switch w := s.Doing; {
	case w == nil:
		lines = append(lines, "no instruction runs: no plan is being applied")
	case !strings.HasPrefix(w.Step, "instruction "):
		lines = append(lines, fmt.Sprintf("no instruction runs yet: plan %s of %s is being applied since %s, %s since %s",
			plans.Short(w.Plan), w.Source, stamp(w.Began), w.Step, stamp(w.Since)))
	case len(s.Waiting) == 0:
		return nil
	}
	lines = append(lines, s.Waits()...)
	for _, c := range s.Connections {
		if !c.Connected && c.Error != "" {
			lines = append(lines, fmt.Sprintf("%s at %s is not connected: %s", c.Name, c.Server, c.Error))
		}
	}
	return append(lines, s.lastWords()...)
}

// Waits says, in lines, what stands between the agent and its work; times are in UTC.
func (s Status) Waits() (lines []string) {
	for _, w := range s.Waiting {
		lines = append(lines, fmt.Sprintf("%s waits for %s since %s: %s; %s", w.Source, w.For, stamp(w.Since), w.Cause, w.Next))
	}
	return lines
}

// lastWords say what was applied last, and where to read of it.
func (s Status) lastWords() []string {
	const journal = "journalctl -u rancher-system-agent"
	if s.Last == nil {
		return []string{fmt.Sprintf("the agent, which started at %s, knows of no plan that was applied before; more on the host: %s", stamp(s.Started), journal)}
	}
	how := "succeeded"
	if !s.Last.Succeeded {
		how = "FAILED"
	}
	text := fmt.Sprintf("last applied: plan %s of %s %s at %s%s", plans.Short(s.Last.Plan), s.Last.Source, how, stamp(s.Last.Ended), earlier(s.Last.BeforeStart))
	if s.Last.Reason != "" {
		text += ": " + s.Last.Reason
	}
	return []string{text, "more of it on the host: " + journal + " DROVER_PLAN=" + plans.Short(s.Last.Plan)}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
