package apply

import (
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/supervise"
)

// reapSoon is when a supervisor that announced its result has ended.
const (
	reapSoon = 200 * time.Millisecond
	// reapLast is the pause at which no more looks are made but by the next apply: a process that
	// an instruction left behind keeps its supervisor for as long as it likes.
	reapLast = 30 * time.Second
)

// recordLimit is how long the engine's Close waits for records of results.
const recordLimit = 5 * time.Second

// lingering are supervisors whose instruction ended: they end a moment later, or when a
// process does that the instruction left behind. Processes that have ended are children of the
// agent which nothing else waits for.
type lingering struct {
	mu  sync.Mutex
	all []*supervise.Running

	closed chan struct{} // by the engine's Close
	once   sync.Once
}

// close ends the wait for those that have not ended, but for those that are writing
// down a result that they have announced: those are notified that no agent is left.
func (l *lingering) close() {
	l.once.Do(func() {
		close(l.closed)
		for deadline := time.Now().Add(recordLimit); l.recording() && time.Now().Before(deadline); {
			<-time.After(time.Millisecond)
		}
	})
}

// recording says whether a supervisor is still at the record of a result.
func (l *lingering) recording() bool {
	l.reap()
	l.mu.Lock()
	defer l.mu.Unlock()
	some := false
	for _, r := range l.all {
		if r.Recording() {
			r.HangUp()
			some = true
		}
	}
	return some
}

func (l *lingering) add(r *supervise.Running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r)
}

// reap gives up those that have ended, and returns how many have not.
func (l *lingering) reap() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []*supervise.Running
	for _, r := range l.all {
		if !r.Reap() {
			left = append(left, r)
			continue
		}
		r.Close()
	}
	l.all = left
	return len(left)
}
