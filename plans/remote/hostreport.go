// Reporting on the host while a plan takes long or does not get healthy, so that a user who
// asks the server why sees the unit that does not start and what it printed.

package remote

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
)

// reportEvery is how long a plan is applied before the host is reported on, and the distance
// of two reports. Most plans are quicker, and their Secret is written no more than before.
const reportEvery = 10 * time.Second

// hostReport is the report about a plan in its wire form; nil when there is none to make.
func (s *Source) hostReport(ctx context.Context, checksum string, components []string) []byte {
	if s.o.HostReport == nil {
		return nil
	}
	report := s.o.HostReport(ctx, components)
	report.Plan = checksum
	value, err := plans.EncodeHostReport(report)
	if err != nil {
		s.o.Logger.Error("host report cannot be encoded", "error", err)
		return nil
	}
	return value
}

// working does the work of an apply while the newest version of the Secret is still taken up,
// with changed called after each, and while the host is reported on.
func (s *Source) working(ctx context.Context, d Decision, do func(), changed func()) {
	reports := make(chan []byte)
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watchHost(watch, d, reports) })
	defer func() {
		stop()
		watching.Wait()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	var written string
	for {
		s.pulse.Turn()
		select {
		case <-done:
			return
		case <-s.pulse.Asked():
		case n := <-s.mail:
			s.observe(ctx, n)
			changed()
		case <-s.again.C: // the server could not be asked
			changed()
		case value := <-reports:
			if string(value) != written && s.writeReport(ctx, d, value) {
				written = string(value)
			}
		}
	}
}

// watchHost makes a report now and then until the context ends.
func (s *Source) watchHost(ctx context.Context, d Decision, reports chan<- []byte) {
	if s.o.HostReport == nil {
		return
	}
	components := slices.Sorted(maps.Keys(d.Plan.Probes))
	ticker := time.NewTicker(s.pace.report)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return
		case reports <- s.hostReport(ctx, d.Checksum, components):
		}
	}
}

// writeReport writes a report once; the next one comes soon.
func (s *Source) writeReport(ctx context.Context, d Decision, value []byte) bool {
	err := s.try(ctx, map[string][]byte{plans.KeyHostReport: value}, func(fresh *Secret) bool { return s.samePlan(fresh, d.Checksum) })
	if err != nil {
		s.o.Logger.Debug("host report is not written", "error", err)
	}
	return err == nil
}
