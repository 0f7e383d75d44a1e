// A newer plan in the way of an older one. An instruction may never end: k3s waits without a limit for what its
// configuration names, and the install script waits for k3s. The plan that corrects the configuration must not wait for
// that; but an instruction must not be cut off in the middle of its work either.

package apply

import (
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/supervise"
)

// usualQuiet is how long an instruction must have printed nothing before a newer plan ends it: one that works says so,
// and one that waits for something is at a safe point. Downloads may be silent for a minute, so it is two.
const usualQuiet = 2 * time.Minute

// supersededReason is why a plan fails that made room for a newer one.
const supersededReason = "a newer plan came while it waited"

// quiet watches over one running instruction.
type quiet struct {
	now   func() time.Time
	limit time.Duration

	mu    sync.Mutex
	heard time.Time // when it printed something last
}

// say notes that the instruction printed something.
func (q *quiet) say() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heard = q.now()
}

// left is how long the instruction has to stay quiet until it may be ended.
func (q *quiet) left() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limit - q.now().Sub(q.heard)
}

// watch kills the instruction once it is superseded and quiet. The returned function ends the watch and waits for that.
func (q *quiet) watch(superseded <-chan struct{}, running *supervise.Running, killed func(error)) (end func()) {
	q.say()
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-superseded:
		case <-over:
			return
		}
		for left := q.left(); left > 0; left = q.left() {
			timer := time.NewTimer(left)
			select {
			case <-timer.C:
			case <-over:
				timer.Stop()
				return
			}
		}
		killed(running.Kill())
	})
	return func() {
		close(over)
		watching.Wait()
	}
}

// isSuperseded says whether a newer plan waits for the end of this one.
func (d Delivery) isSuperseded() bool {
	select {
	case <-d.Superseded: // a nil channel is never ready
		return true
	default:
		return false
	}
}
