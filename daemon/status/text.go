// The status in words, for a terminal.

package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
)

// outputLines is how much of a failure's output is shown.
const outputLines = 15

// page is text in two columns: what it is about, and what there is to say.
type page struct {
	b    strings.Builder
	last string
}

// say adds a line; the first column is left empty while it repeats.
func (p *page) say(about, format string, args ...any) {
	shown := about
	if about == p.last {
		shown = ""
	}
	p.last = about
	fmt.Fprintf(&p.b, "%-11s %s\n", shown, plans.SafeLine(fmt.Sprintf(format, args...)))
}

// String is the whole status in words.
func (s Status) String() string {
	p := &page{}
	p.say("agent", "%s, process %d, up %s", s.Version, s.PID, span(s.Now.Sub(s.Started)))
	p.say("agent", "configured in %s", s.Config)
	s.sayDoing(p)
	if s.Last != nil {
		p.say("last", "%s", s.last())
	}
	for _, w := range s.Waiting {
		p.say("waits", "%s waits for %s %s: %s; %s", w.Source, w.For, s.since(w.Since), w.Cause, w.Next)
	}
	for _, f := range s.Faults {
		p.say("broken", "%s does not work %s: %s", f.Part, s.since(f.Since), f.Error)
	}
	for _, c := range s.Connections {
		p.say("connections", "%s", s.connection(c))
	}
	for _, one := range s.Sources {
		p.say("plans", "%s", s.source(one))
	}
	for _, one := range s.Probes {
		p.say("probes", "%s", s.probe(one))
	}
	for _, one := range s.Periodic {
		p.say("periodic", "%s", s.periodic(one))
	}
	for _, f := range s.PutBack {
		p.say("put back", "%s at %s, it had been changed", f.Path, s.at(f.Time))
	}
	for _, f := range s.Failures {
		s.sayFailure(p, f)
	}
	return p.b.String()
}

func (s Status) sayDoing(p *page) {
	w := s.Doing
	if w == nil {
		p.say("doing", "nothing: no plan is being applied")
		return
	}
	how := "begun"
	if w.Resumed {
		how = "gone on with"
	}
	p.say("doing", "plan %s of %s, %s %s", plans.Short(w.Plan), w.Source, how, s.since(w.Began))
	step := w.Step
	if w.Attempt > 1 {
		step += fmt.Sprintf(", try %d", w.Attempt)
	}
	p.say("doing", "%s %s", step, s.since(w.Since))
	if w.Progress != "" {
		p.say("doing", "%s", w.Progress)
	}
	for _, line := range w.Remaining {
		p.say("remaining", "%s", line)
	}
}

// last says how the last plan ended, and when.
func (s Status) last() string {
	how := "succeeded"
	if !s.Last.Succeeded {
		how = "FAILED"
	}
	text := fmt.Sprintf("plan %s of %s %s at %s%s", plans.Short(s.Last.Plan), s.Last.Source, how, s.at(s.Last.Ended), earlier(s.Last.BeforeStart))
	if s.Last.Reason != "" {
		text += ": " + s.Last.Reason
	}
	return text
}

// earlier marks what this life of the agent did not see.
func earlier(beforeStart bool) string {
	if beforeStart {
		return ", before this start of the agent"
	}
	return ""
}

func (s Status) connection(c Connection) string {
	if c.Connected {
		return fmt.Sprintf("%s at %s: connected %s", c.Name, c.Server, s.since(c.Since))
	}
	text := fmt.Sprintf("%s at %s: NOT connected", c.Name, c.Server)
	if !c.Since.IsZero() {
		text += " " + s.since(c.Since)
	}
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text + s.next(c.Next)
}

func (s Status) source(one Source) string {
	text := one.Name
	if one.Plan != "" {
		text += ", plan " + plans.Short(one.Plan)
	}
	text += ": " + one.State
	if !one.Since.IsZero() {
		text += " " + s.since(one.Since)
	}
	if one.Reason != "" {
		text += ": " + one.Reason
	}
	return text + s.next(one.Next)
}

func (s Status) probe(one Probe) string {
	text := one.Name + " of " + one.Source + ": "
	switch {
	case one.Healthy && one.Reason != "": // healthy by its thresholds, as it was when it was asked before
		text += "fails " + s.since(one.Since) + ", not often enough to count as not healthy"
	case one.Healthy:
		text += "healthy " + s.since(one.Since)
	default:
		text += "NOT healthy " + s.since(one.Since)
	}
	if one.Reason != "" {
		text += ": " + one.Reason
	}
	return text
}

func (s Status) periodic(one Periodic) string {
	text := one.Name + " of " + one.Source + ": "
	switch {
	case one.Failures > 0:
		text += fmt.Sprintf("FAILED with exit code %d at %s", one.ExitCode, s.at(one.LastFailure))
		if one.Failures > 1 {
			text += fmt.Sprintf(", %d times in a row", one.Failures)
		}
	case one.LastSuccess.IsZero():
		text += "did not run yet"
	default:
		text += "succeeded at " + s.at(one.LastSuccess)
	}
	if one.Next.IsZero() {
		return text
	}
	if !one.Next.After(s.Now) {
		return text + ", runs now"
	}
	return text + ", runs again in " + span(one.Next.Sub(s.Now))
}

func (s Status) sayFailure(p *page, f Failure) {
	what := f.Source
	if f.Plan != "" {
		what = "plan " + plans.Short(f.Plan) + " of " + f.Source
	}
	when := s.at(f.Time)
	if f.Times > 1 {
		when += fmt.Sprintf(", %d times like this", f.Times)
	}
	p.say("failed", "%s at %s%s: %s", what, when, earlier(f.BeforeStart), f.Reason)
	out := strings.Split(strings.TrimRight(f.Output, "\n"), "\n")
	for _, line := range out[max(0, len(out)-outputLines):] {
		if f.Output != "" {
			p.say("failed", "  | %s", line)
		}
	}
}

// next says when something is tried again.
func (s Status) next(at time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case at.After(s.Now):
		return "; tried again in " + span(at.Sub(s.Now))
	}
	return "; tried again now"
}

func (s Status) since(t time.Time) string {
	return fmt.Sprintf("since %s (%s)", s.at(t), span(s.Now.Sub(t)))
}

// at is a time as short as it can be.
func (s Status) at(t time.Time) string {
	t = t.Local()
	if now := s.Now.Local(); now.YearDay() == t.YearDay() && now.Year() == t.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// span is a duration in the one or two units that matter.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
