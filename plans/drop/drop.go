// Package drop takes plans from a directory: what is put there as *.plan is applied.
package drop

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// Engine is what performs the plans; *apply.Engine is one.
type Engine interface {
	Apply(ctx context.Context, d apply.Delivery) (apply.Result, error)
	Pending(source string) (apply.Pending, bool, error)
	Forget(source string) error
	Periodic(ctx context.Context, p *plans.Plan, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput
	Probes(ctx context.Context, p *plans.Plan, last map[string]plans.ProbeStatus, applied time.Time) map[string]plans.ProbeStatus
}

// Options are what a Source is made of. Dir and Engine are required.
type Options struct {
	Dir    string // watched with everything below it; made 0700 when missing
	Engine Engine
	// Sweep is the distance between two looks at the whole directory in case a
	// notification was lost; default one minute.
	Sweep  time.Duration
	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // default time.Now
}

// Source applies the plans of one directory.
type Source struct {
	o Options
}

// New makes a Source; Run does the work.
func New(o Options) *Source {
	if o.Sweep <= 0 {
		o.Sweep = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{o: o}
}

// Run watches and applies until the context ends. It returns an error only when the
// directory cannot be made or watched at all.
func (s *Source) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
