package apply

import (
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/supervise"
)

// reapSoon is when a supervisor that announced its result has ended.
const reapSoon = 200 * time.Millisecond

// lingering are supervisors whose instruction ended: they end a moment later, or when a
// process does that the instruction left behind. Those that have ended are children of the
// agent which nobody else waits for.
type lingering struct {
	mu  sync.Mutex
	all []*supervise.Running

	closed chan struct{} // by the engine's Close
	once   sync.Once
}

// close has nobody wait any more for those that have not ended.
func (l *lingering) close() { l.once.Do(func() { close(l.closed) }) }

func (l *lingering) add(r *supervise.Running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r)
}

// reap gives up those that have ended.
func (l *lingering) reap() {
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
}
