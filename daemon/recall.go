// What the agent knows of its lives before: how the last plan ended and what it printed, and
// the last failures.

package daemon

import (
	"slices"

	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans/apply"
)

// recall fills the live status and the feed with what earlier lives left. That something of it
// cannot be read is no reason not to work.
func (a *agent) recall() {
	failures, err := status.ReadFailures(a.failuresFile())
	if err != nil {
		a.Logger.Warn("failures before this start are not known", "error", err)
	}
	a.liveStatus.recallFailures(failures)
	a.kept = a.liveStatus.lastFailures()
	err = a.engine.Recall(func(e apply.Event) {
		a.liveStatus.recall(e)
		a.feed.Observe(e)
	})
	if err != nil {
		a.Logger.Warn("not everything is known of plans before this start", "error", err)
	}
	a.keepFailures()
}

func (a *agent) failuresFile() string { return status.FailuresFile(a.ledgers) }

// keepFailures writes the last failures down when there is another one since it was called.
func (a *agent) keepFailures() {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	failures := a.liveStatus.lastFailures()
	if slices.Equal(failures, a.kept) {
		return
	}
	if err := status.WriteFailures(a.failuresFile(), failures); err != nil {
		a.Logger.Warn("last failures are not kept, so the status does not show them after a restart", "error", err)
	}
	a.kept = failures
}

func (b *liveStatus) lastFailures() []status.Failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.failures)
}

// recallFailures notes the failures of earlier lives.
func (b *liveStatus) recallFailures(failures []status.Failure) {
	b.change(func() {
		for _, f := range failures {
			f.BeforeStart = true
			b.failures = append(b.failures, f)
		}
	})
}

// recall notes how a plan of an earlier life ended. Its failure may not have been kept: the
// agent may have been killed before it was, or have been of a version that did not.
func (b *liveStatus) recall(e apply.Event) {
	if e.Kind != apply.ApplyEnded {
		return
	}
	b.change(func() {
		b.ended(e)
		b.last.BeforeStart = true
		known := slices.ContainsFunc(b.failures, func(f status.Failure) bool {
			return f.Source == e.Source && f.Plan == e.Checksum && !f.Time.Before(e.Time)
		})
		if r := e.Result; !known && r.Failure != nil {
			b.failed(e, r.Failure.Instruction, r.Failure.Reason, r.Failure.Output, r.Failure.ExitCode)
			b.failures[len(b.failures)-1].BeforeStart = true
			slices.SortStableFunc(b.failures, func(x, y status.Failure) int { return x.Time.Compare(y.Time) })
		}
	})
}
