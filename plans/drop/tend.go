// Looking after an applied plan, see package tend. What its probes and periodic instructions
// find is kept in the plan's position.

package drop

import (
	"context"
	"os"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/upkeep"
)

// busyLimit is how long the loop may be away: it only reads and writes small files, but a
// disk may be slow.
const busyLimit = 90 * time.Second

// Looks at the rest of the directory while a plan is applied: the first comes soon enough
// for a person who watches, and not with a plan that takes no time.
const (
	firstLook = time.Second
	laterLook = 5 * time.Second
)

// Alive says whether the source still turns, see upkeep.Pulse. It is for a watchdog.
func (s *Source) Alive(ctx context.Context) bool { return s.pulse.Alive(ctx) }

// during does something that takes long while signs of life are given, and looks now and
// then; look says when next.
func (s *Source) during(look func() time.Duration, do func()) {
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	upkeep.During(s.pulse, do, timer.C, func(time.Time) { timer.Reset(look()) })
}

// tend sees to it that the plan is looked after. just says that it was applied just now.
func (s *Source) tend(ctx context.Context, p *dropped, just bool) {
	if p.tended == p.checksum && !just {
		return
	}
	pos, checksum := p.snapshot(), p.checksum
	records, err := plans.DecodePeriodicOutputs(pos.PeriodicOutput)
	if err != nil {
		records = nil // refused when it was read
	}
	p.tended = checksum
	p.tender.Begin(ctx, upkeep.Job{
		Standing: apply.Standing{Source: p.source, Checksum: checksum, Plan: p.plan}, Applied: pos.AppliedTime,
		Statuses: pos.ProbeStatus, Records: records, Force: just, ProbePeriod: plans.DefaultProbePeriod,
		Probed: func(_ context.Context, statuses map[string]plans.ProbeStatus) {
			s.keep(p, checksum, func(pos *position) { pos.ProbeStatus = statuses })
		},
		Ran: func(_ context.Context, records map[string]plans.PeriodicOutput) {
			b, err := plans.EncodePeriodicOutputs(records)
			if err != nil {
				s.o.Logger.Error("periodic outputs cannot be encoded", "path", p.path, "error", err)
				return
			}
			s.keep(p, checksum, func(pos *position) { pos.PeriodicOutput = b })
		},
	})
}

// stop begins no more rounds; a periodic instruction that runs comes to its end.
func (p *dropped) stop() {
	p.tended = ""
	p.tender.Stop()
}

// stopAll waits until nothing is looked after any more. The context has ended by then, so
// periodic instructions were killed.
func (s *Source) stopAll() {
	for _, p := range s.plans {
		p.tender.Wait()
	}
}

// keep writes a finding, unless the file has another plan by now than the one that the finding is of, or
// a user removed the position to have the plan applied again.
func (s *Source) keep(p *dropped, checksum string, f func(*position)) {
	if _, err := os.Lstat(positionPath(p.path)); err != nil {
		return
	}
	err := p.change(func(pos *position) {
		if pos.AppliedChecksum == checksum {
			f(pos)
		}
	})
	if err != nil {
		s.o.Logger.Warn("finding cannot be kept, the next round tries again", "path", p.path, "error", err)
	}
}
