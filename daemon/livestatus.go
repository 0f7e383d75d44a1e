// The live status: what each part says of itself, and the one line that people see of it.

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/tunnel"
)

// maxStatus bounds the line, in bytes; systemd shows no more.
const maxStatus = 500

// liveStatus is written by all parts and read by what shows it to people.
type liveStatus struct {
	changed chan struct{} // has one entry when there is something new
	now     func() time.Time

	mu       sync.Mutex
	remote   remote.Status
	reached  bool // the server was reached once in this life
	tunnel   tunnel.Status
	waits    map[string]apply.Wait // by source
	faults   map[string]fault      // by part
	mended   map[string]mended     // by part
	doing    *work                 // nil when no plan is being applied
	last     *status.Applied
	putBack  []status.File
	failures []status.Failure
	probes   map[string]probes            // by source
	periodic map[string][]status.Periodic // by source
}

// fault is why a part does not work.
type fault struct {
	err   error
	since time.Time
}

// mended is a fault that seems to be over.
type mended struct{ since, at time.Time }

// steady is how long a part has to work until its next fault is another.
const steady = 10 * time.Second

func newLiveStatus(now func() time.Time) *liveStatus {
	return &liveStatus{
		changed: make(chan struct{}, 1), now: now, waits: map[string]apply.Wait{}, faults: map[string]fault{}, mended: map[string]mended{},
		probes: map[string]probes{}, periodic: map[string][]status.Periodic{},
	}
}

func (b *liveStatus) change(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *liveStatus) setRemote(s remote.Status) {
	b.change(func() { b.remote, b.reached = s, b.reached || s.Connected })
}
func (b *liveStatus) hasReached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached
}

func (b *liveStatus) setTunnel(s tunnel.Status) { b.change(func() { b.tunnel = s }) }

func (b *liveStatus) setWait(w apply.Wait) {
	b.change(func() {
		if w.For == "" {
			delete(b.waits, w.Source)
		} else {
			b.waits[w.Source] = w
		}
	})
}

// setFault keeps why a part does not work, and since when: once it works again, the trouble
// that comes within steady is still the old one, for a part that fails is started again.
func (b *liveStatus) setFault(part string, err error) {
	b.change(func() {
		now := b.now().UTC()
		if err == nil {
			if old, ok := b.faults[part]; ok {
				b.mended[part] = mended{since: old.since, at: now}
			}
			delete(b.faults, part)
			return
		}
		since := now
		if old, ok := b.faults[part]; ok {
			since = old.since
		} else if old, ok := b.mended[part]; ok && now.Sub(old.at) < steady {
			since = old.since
		}
		b.faults[part] = fault{err, since}
	})
}

// connections are how plan Secret and tunnel stand.
func (b *liveStatus) connections() (remote.Status, tunnel.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remote, b.tunnel
}

// line is what the agent does or waits for, the most pressing first.
func (b *liveStatus) line() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var said []string
	for _, source := range sorted(b.waits) {
		w := b.waits[source]
		said = append(said, fmt.Sprintf("%s waits for %s since %s: %s, %s", source, w.For, w.Since.UTC().Format(time.RFC3339), w.Cause, w.Next))
	}
	for _, part := range sorted(b.faults) {
		said = append(said, fmt.Sprintf("%s does not work: %v", part, b.faults[part].err))
	}
	if s := b.remote.String(); s != "" {
		said = append(said, s)
	}
	if b.tunnel.Cause != nil {
		said = append(said, b.tunnel.String())
	}
	if len(said) == 0 {
		said = append(said, "watching")
	}
	line := strings.Join(strings.Fields(strings.Join(said, "; ")), " ")
	if len(line) > maxStatus {
		line = strings.ToValidUTF8(line[:maxStatus], "") + " …"
	}
	return line
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
