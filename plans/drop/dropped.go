// One dropped plan: whether it is to be applied, applying it, and what came of it.

package drop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/plans/upkeep"
)

const (
	// A plan that failed is tried again after retryFirst, then twice as long each time up to retryMost.
	retryFirst = 30 * time.Second
	retryMost  = 10 * time.Minute
	// A host that stands in the way, which is not the plan's fault, is tried again sooner.
	hostRetry = 5 * time.Second
	// settle is how long a file may be nonsense before that is said: it may come in two pieces.
	settle = 500 * time.Millisecond
)

// dropped is one plan file.
type dropped struct {
	path   string
	source string // its name in the engine's ledgers

	// What was read last.
	stamp    stamp
	checksum string
	plan     *plans.Plan // nil while there is none to apply
	fault    error       // why not
	readAt   time.Time
	pause    time.Duration // before the next look at a file that is being written
	hostWait time.Time     // the host stood in the way; not before
	missing  time.Time     // since when the file is not there; zero: it is
	restored string        // the content whose files were checked in this life

	mu       sync.Mutex // guards position and what is on disk of it
	position position
	onDisk   []byte

	tender upkeep.Tender
	tended string // the checksum of the content that is looked after; empty: none is
}

func (s *Source) newDropped(path string) *dropped {
	source := path
	if rel, err := filepath.Rel(s.o.Dir, path); err == nil {
		source = rel
	}
	return &dropped{path: path, source: source, tender: upkeep.Tender{Engine: s.o.Engine, Logger: s.o.Logger, Now: s.o.Now}}
}

// consider looks at one plan and applies it when that is wanted. It says when to look again.
func (s *Source) consider(ctx context.Context, p *dropped, skip bool, untrusted string) time.Duration {
	wait, is := s.look(p, skip, untrusted)
	switch is {
	case stands:
		return s.standing(ctx, p)
	case wanted:
		return s.apply(ctx, p, p.snapshot())
	}
	return wait
}

// verdict is what is to be done with a plan.
type verdict int

const (
	nothing verdict = iota
	stands          // it is applied
	wanted          // it is to be applied
)

// look finds out what is to be done with a plan, and when to look again if that is nothing.
func (s *Source) look(p *dropped, skip bool, untrusted string) (time.Duration, verdict) {
	switch {
	case skip:
		p.stop()
		s.report(Status{Path: p.path, State: Skipped})
		p.stamp = stamp{}
		return s.o.Sweep, nothing
	case untrusted != "":
		p.stop()
		s.report(Status{Path: p.path, State: Refused, Reason: untrusted})
		p.stamp = stamp{}
		return s.o.Sweep, nothing
	}
	if wait, ready := s.read(p); !ready {
		return wait, nothing
	}
	there, err := p.load()
	if err != nil {
		p.stop()
		s.report(Status{Path: p.path, Checksum: p.checksum, State: Refused, Reason: err.Error()})
		return s.o.Sweep, nothing
	}
	pos := p.snapshot()
	if there && pos.AppliedChecksum == p.checksum {
		return 0, stands
	}
	if wait := s.retryIn(p, pos); wait > 0 {
		return wait, nothing
	}
	return 0, wanted
}

// read takes up the file when it changed; ready says that there is a plan to work with.
func (s *Source) read(p *dropped) (wait time.Duration, ready bool) {
	now := s.o.Now()
	b, is, err := readPlan(p.path, p.stamp, now)
	var refused *refusedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.o.Sweep, false // gone since the look at the directory; the next finds it out
	case errors.Is(err, errBusy):
		p.pause = min(max(2*p.pause, lookAgain), lookAgainMost)
		s.report(Status{Path: p.path, State: Writing})
		return p.pause, false
	case errors.As(err, &refused):
		p.take(stamp{}, "", nil, err, now)
	case err != nil:
		p.take(stamp{}, "", nil, err, now)
	case b != nil:
		plan, err := parse(p.path, b)
		p.take(is, plans.Checksum(b), plan, err, now)
	}
	p.pause = 0
	if p.fault == nil {
		return 0, true
	}
	if refused == nil && now.Sub(p.readAt) < settle {
		return settle, false
	}
	s.report(Status{Path: p.path, Checksum: p.checksum, State: Refused, Reason: p.fault.Error()})
	return s.o.Sweep, false
}

// take remembers what was read. What tended an earlier content ends.
func (p *dropped) take(is stamp, checksum string, plan *plans.Plan, fault error, now time.Time) {
	if checksum != p.checksum || fault != nil {
		p.stop()
	}
	if p.fault == nil || fault == nil || p.fault.Error() != fault.Error() {
		p.readAt = now
	}
	p.stamp, p.checksum, p.plan, p.fault = is, checksum, plan, fault
	p.hostWait = time.Time{}
}

// retryIn is how long a plan that failed waits until it is tried again.
func (s *Source) retryIn(p *dropped, pos position) time.Duration {
	now := s.o.Now()
	if wait := p.hostWait.Sub(now); wait > 0 {
		return wait
	}
	if pos.FailedChecksum != p.checksum || !pos.concluded() || pos.LastFailureTime.After(now) {
		return 0
	}
	next := pos.LastFailureTime.Add(retryAfter(pos.FailureCount))
	if !next.After(now) {
		return 0
	}
	s.report(Status{Path: p.path, Checksum: p.checksum, State: Failed, Reason: pos.Failure, Failures: pos.FailureCount, Next: next})
	return next.Sub(now)
}

// retryAfter is the pause after so many failures in a row.
func retryAfter(failures int) time.Duration {
	pause := retryFirst
	for range failures - 1 {
		if pause *= 2; pause >= retryMost {
			return retryMost
		}
	}
	return pause
}

// apply performs the plan and records what came of it.
func (s *Source) apply(ctx context.Context, p *dropped, pos position) time.Duration {
	if pos.concluded() || !strings.HasPrefix(pos.Delivery, p.checksum+"/") {
		pos.Delivery = fmt.Sprintf("%s/%d", p.checksum, s.o.Now().UnixNano())
		// Written down first, so that a result that came when it could not be recorded any more is
		// distinguished from a position that was removed to have the plan applied again.
		if err := p.change(func(now *position) { now.Delivery = pos.Delivery }); err != nil {
			return s.hostFault(p, err)
		}
	}
	if pos.FailedChecksum != p.checksum {
		pos.FailureCount = 0
	}
	s.report(Status{Path: p.path, Checksum: p.checksum, State: Applying, Failures: pos.FailureCount})
	var result apply.Result
	var err error
	s.during(func() time.Duration { return s.reportBehind(p) }, func() {
		result, err = s.o.Engine.Apply(ctx, apply.Delivery{
			Source: p.source, ID: pos.Delivery, Checksum: p.checksum, Plan: p.plan, Attempt: pos.FailureCount,
		})
	})
	switch {
	case ctx.Err() != nil:
		return s.o.Sweep
	case err != nil:
		return s.hostFault(p, err)
	}
	if err := p.record(result, pos, s.o.Now().UTC()); err != nil {
		return s.hostFault(p, err)
	}
	if !result.Succeeded {
		return max(s.retryIn(p, p.snapshot()), time.Second)
	}
	p.restored = p.checksum
	s.report(Status{Path: p.path, Checksum: p.checksum, State: Applied})
	s.tend(ctx, p, true)
	return s.o.Sweep
}

// hostFault says that not the plan but this host is to blame.
func (s *Source) hostFault(p *dropped, err error) time.Duration {
	p.hostWait = s.o.Now().Add(hostRetry)
	s.report(Status{Path: p.path, Checksum: p.checksum, State: Failed, Reason: err.Error(), Next: p.hostWait})
	return hostRetry
}

// record puts the result of a delivery into the position. A failed plan is not recorded as
// applied, unlike the original's.
func (p *dropped) record(r apply.Result, was position, now time.Time) error {
	outputs, err := plans.EncodeOutputs(r.Outputs)
	if err != nil {
		return err
	}
	return p.change(func(pos *position) {
		if r.Succeeded {
			pos.AppliedChecksum, pos.AppliedDelivery, pos.AppliedTime, pos.Output = p.checksum, was.Delivery, now, outputs
			pos.FailedChecksum, pos.FailedDelivery, pos.FailureCount, pos.Failure, pos.FailedOutput, pos.LastFailureTime = "", "", 0, "", nil, time.Time{}
			pos.ProbeStatus = nil
			return
		}
		pos.FailedChecksum, pos.FailedDelivery, pos.FailureCount = p.checksum, was.Delivery, was.FailureCount+1
		pos.Failure, pos.FailedOutput, pos.LastFailureTime = r.Failure.Reason, outputs, now
	})
}

// load takes up the position file; there is false when a user removed it, which is the
// request to have the plan applied again.
func (p *dropped) load() (there bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pos, there, err := readPosition(positionPath(p.path))
	if err != nil {
		return there, err
	}
	if !there {
		p.onDisk = nil
	}
	p.position = pos
	return there, nil
}

func (p *dropped) snapshot() position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.position
}

// change changes the position and writes it when that changed anything.
func (p *dropped) change(f func(*position)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.position
	f(&next)
	b, err := next.marshal()
	if err != nil {
		return err
	}
	if !bytes.Equal(b, p.onDisk) {
		if err := durable.WriteFile(positionPath(p.path), b, 0o600); err != nil {
			return fmt.Errorf("write the position: %w", err)
		}
	}
	p.position, p.onDisk = next, b
	return nil
}
