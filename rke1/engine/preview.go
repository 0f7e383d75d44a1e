// What a run would do, as a value: the same differences that a run performs.

package engine

import (
	"context"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/engine/keys"
	"github.com/drover-project/drover/rke1/engine/run"
)

// Preview looks at every host and does nothing. The errors are those that a run would begin with.
func Preview(ctx context.Context, o run.Options, w run.Work) (*run.Changes, error) {
	r := run.New(o, w)
	defer r.Close()
	next, _, err := run.Init(w, o.Source())
	if err != nil {
		return nil, err
	}
	r.State = next
	if err := workersAlone(r, next); err != nil {
		return nil, err
	}
	warnOfEnds(r)
	keys.SpreadKey(r)
	c := &run.Changes{}
	if change.Stops(w.Cluster()) {
		c.First = append(c.First, "every Secret is written again in plain text, and then the API servers lose their keys")
	}
	for _, p := range upPhases {
		if p.Preview == nil || p.ShouldRun != nil && !p.ShouldRun(r) {
			continue
		}
		if err := p.Preview(ctx, r, c); err != nil {
			return nil, err
		}
	}
	return c, nil
}
