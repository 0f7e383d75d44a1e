package clusters

import (
	"testing"

	"github.com/drover-project/drover/server/planner"
)

// TestAControllerWithoutOrders leads all the same.
func TestAControllerWithoutOrders(t *testing.T) {
	b := newBed(t)
	b.control.Order("fleet-default/harbour", []planner.NodeOrder{{ID: "o1"}})
	if work := b.control.Work("fleet-default/harbour"); len(work) != 0 {
		t.Errorf("work = %v", work)
	}
	b.run()
}
