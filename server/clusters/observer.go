// What the controller does, as counts and times: for whoever measures it. The controller
// itself keeps none of them.

package clusters

import (
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// Observer gets what happens while this server leads. Each function may be nil; they are called
// from several goroutines at once and must not block.
type Observer struct {
	// Passed is one look at one cluster, whatever came of it, and how long it took.
	Passed func(took time.Duration)
	// Delivered is a plan that was written for a machine; retry says that it is one that failed before.
	Delivered func(retry bool)
	// Failed is a plan that a host could not carry out.
	Failed func()
	// Ended is an operation that has ended just now.
	Ended func(operations.Operation)
}

func (o Observer) passed(took time.Duration) {
	if o.Passed != nil {
		o.Passed(took)
	}
}

// wrote is that a machine's plan or status is written.
func (o Observer) wrote(deliver bool, retry int, before records.MachineStatus, after *records.MachineStatus) {
	if deliver && o.Delivered != nil {
		o.Delivered(retry > 0)
	}
	if o.Failed != nil && after != nil && failedAgain(before.LastFailure, after.LastFailure) {
		o.Failed()
	}
}

// failedAgain says that a failure is another one than before.
func failedAgain(before, after *records.PlanFailure) bool {
	return after != nil && (before == nil || before.Checksum != after.Checksum || !before.At.Equal(after.At))
}

// changed is that an operation's record was written, by whomever.
func (o Observer) changed(before *operations.Operation, after operations.Operation) {
	if o.Ended != nil && before != nil && !before.State.Ended() && after.State.Ended() {
		o.Ended(after)
	}
}
