// A plan that stands: its files are put back once after the agent started, since people
// restart the agent to have a host's configuration made anew. Instructions that ended are not run.

package drop

import (
	"context"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// standing looks after an applied plan and says when to look again.
func (s *Source) standing(ctx context.Context, p *dropped) time.Duration {
	st := Status{Path: p.path, Checksum: p.checksum, State: Applied}
	next := s.o.Sweep
	if wait := p.hostWait.Sub(s.o.Now()); p.restored != p.checksum && wait > 0 {
		return wait
	}
	if err := s.restore(ctx, p); ctx.Err() != nil {
		return next
	} else if err != nil {
		p.hostWait = s.o.Now().Add(retryFirst)
		st.Reason, st.Next, next = "its files cannot be checked: "+err.Error(), p.hostWait, retryFirst
	}
	s.report(st)
	s.tend(ctx, p, false)
	return next
}

// restore puts back files of the plan that are missing or differ, unless that was done in this life.
func (s *Source) restore(ctx context.Context, p *dropped) error {
	if p.restored == p.checksum {
		return nil
	}
	var changed []string
	var err error
	s.during(func() time.Duration { return s.reportBehind(p) }, func() {
		changed, err = s.o.Engine.RestoreFiles(ctx, apply.Standing{Source: p.source, Checksum: p.checksum, Plan: p.plan})
	})
	if len(changed) > 0 {
		s.o.Logger.Warn("files of a dropped plan were missing or changed and are put back", "path", p.path, "plan", plans.Short(p.checksum), "files", changed)
	}
	if err == nil {
		p.restored = p.checksum
	}
	return err
}
