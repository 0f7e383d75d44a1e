// Gathering what the agent says of itself when asked.

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/daemon/hostreport"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/drop"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/tunnel"
)

// status is how the agent stands now.
func (a *agent) status() status.Status {
	s := status.Status{
		Version: drover.Version, PID: os.Getpid(), Config: a.path, Ledgers: a.ledgers,
		Started: plain(a.started), Now: plain(a.Now()),
		Connections: []status.Connection{}, Sources: []status.Source{},
	}
	a.liveStatus.fill(&s)
	a.addServer(&s)
	if a.drop != nil {
		for _, one := range a.drop.Status() {
			s.Sources = append(s.Sources, dropped(one))
		}
	}
	return s
}

// hostReport is what the server is shown of this host while a plan of it takes long or does not get healthy.
func (a *agent) hostReport(ctx context.Context, components []string) plans.HostReport {
	report, host := a.liveStatus.report(), hostreport.Host{Now: a.Now}
	report.Units, report.Pods = host.Units(ctx), host.Pods(components)
	return report
}

// report is the instruction that runs for the server, with the last line that it printed.
func (b *liveStatus) report() (r plans.HostReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.doing == nil || b.doing.Source != remote.SourceName {
		return r
	}
	if name, ok := strings.CutPrefix(b.doing.Step, "instruction "); ok {
		r.Instruction, r.Since, r.Output = name, b.doing.Since.UTC(), b.doing.printed
	}
	return r
}

// addServer adds the plan Secret and the tunnel.
func (a *agent) addServer(s *status.Status) {
	c := a.connection.Load()
	if c == nil {
		return
	}
	r, t := a.liveStatus.connections()
	doing := cmp.Or(r.Doing, "nothing was received yet")
	s.Sources = append(s.Sources, status.Source{Name: "server", Plan: r.Checksum, State: doing, Reason: text(r.Unwritten), Since: plain(r.DoingSince)})
	s.Connections = append(s.Connections, status.Connection{
		Name: "plan Secret " + c.secret, Server: c.server, Connected: r.Connected, Since: plain(r.Since), Error: text(r.Cause), Next: plain(r.Next),
	})
	if c.tunnel != "" {
		s.Connections = append(s.Connections, status.Connection{
			Name: "tunnel", Server: c.tunnel, Connected: t.State == tunnel.Connected, Since: plain(t.Since), Error: text(t.Cause), Next: plain(t.Next),
		})
	}
}

func dropped(one drop.Status) status.Source {
	return status.Source{
		Name: one.Path, Plan: one.Checksum, State: string(one.State), Reason: one.Reason,
		Since: plain(one.Since), Failures: one.Failures, Next: plain(one.Next),
	}
}

// fill adds what the live status holds.
func (b *liveStatus) fill(s *status.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.doing != nil {
		doing := b.doing.Work
		doing.Remaining = []string{}
		for _, task := range b.doing.remaining {
			doing.Remaining = append(doing.Remaining, task.String())
		}
		s.Doing = &doing
	}
	s.Last = b.last // never changed once it is there
	s.Waiting, s.Faults = []status.Wait{}, []status.Fault{}
	s.Probes, s.Periodic = []status.Probe{}, []status.Periodic{}
	for _, source := range sorted(b.waits) {
		w := b.waits[source]
		s.Waiting = append(s.Waiting, status.Wait{Source: w.Source, For: w.For, Cause: w.Cause, Since: w.Since, Next: w.Next})
	}
	for _, part := range sorted(b.faults) {
		f := b.faults[part]
		s.Faults = append(s.Faults, status.Fault{Part: part, Error: f.err.Error(), Since: f.since})
	}
	for _, source := range sorted(b.probes) {
		if of := b.probes[source]; !isOver(of.over) {
			for _, name := range sorted(of.by) {
				s.Probes = append(s.Probes, of.by[name])
			}
		}
	}
	for _, source := range sorted(b.periodic) {
		s.Periodic = append(s.Periodic, b.periodic[source]...)
	}
	s.PutBack = append([]status.File{}, b.putBack...)
	s.Failures = append([]status.Failure{}, b.failures...)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// plain is a time without the process's own clock, which does not belong into a document.
func plain(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Round(0).UTC()
}

// Interrupted says, in lines for people, which plans an agent with these ledgers has begun and not ended, and what is left of each; empty when there is none. The
// error names a ledger that cannot be read; the text has the others.
func Interrupted(ledgers string) (string, error) {
	left, err := apply.ReadUnfinished(ledgers)
	var b strings.Builder
	for _, p := range left {
		fmt.Fprintf(&b, "Plan %s of %s, begun at %s, was interrupted; the agent goes on with it when it starts:\n",
			plans.Short(p.Checksum), plans.SafeLine(p.Source), p.Started.Local().Format("2006-01-02 15:04:05"))
		for _, task := range p.Remaining {
			fmt.Fprintf(&b, "  %s\n", plans.SafeLine(task.String()))
		}
	}
	return b.String(), err
}
