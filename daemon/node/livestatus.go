// The live status: for each thing that the agent depends on, whether it is there, since when,
// and why not. It is what health answers with, and what is logged once for each change.

package node

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
)

// The conditions.
const (
	onDocker     = "docker"     // the engine answers
	onServer     = "server"     // the server can be reached
	onCA         = "ca"         // its certificate authority is the expected one
	onClock      = "clock"      // this host's clock agrees with the server's
	onTunnel     = "tunnel"     // the tunnel is open
	onConfig     = "config"     // the node config was fetched, or the server has none
	onContainers = "containers" // the host is as the node config wants it
	onMounts     = "mounts"     // the kubelet's directories are on shared mounts; of share-mnt alone
)

// Condition is one line of the live status.
type Condition struct {
	Name  string    `json:"name"`
	OK    bool      `json:"ok"`
	Cause string    `json:"cause,omitempty"` // why it is not; or what is waited for
	Since time.Time `json:"since"`

	awaited bool // it has not been known yet
}

type liveStatus struct {
	log *slog.Logger
	now func() time.Time

	mu  sync.Mutex
	all map[string]Condition
}

func newLiveStatus(log *slog.Logger, now func() time.Time) *liveStatus {
	return &liveStatus{log: log, now: now, all: map[string]Condition{}}
}

// set notes a condition; nil is well. Since moves when it turns well or ill, and the log
// hears when the text changes.
func (b *liveStatus) set(name string, err error) {
	c := Condition{Name: name, OK: err == nil, Since: b.now()}
	if err != nil {
		c.Cause = line1(err.Error())
	}
	b.mu.Lock()
	old, known := b.all[name]
	if known && old.OK == c.OK {
		c.Since = old.Since
	}
	b.all[name] = c
	b.mu.Unlock()
	switch {
	case known && old.OK == c.OK && old.Cause == c.Cause:
	case !c.OK:
		b.log.Warn("not well", "condition", name, "cause", c.Cause, "since", c.Since.UTC().Format(time.RFC3339))
	case known && !old.awaited:
		b.log.Info("well again", "condition", name, "after", c.Since.Sub(old.Since).Round(time.Second))
	}
}

// await notes what a condition that is not known yet waits for. The log hears nothing: so
// does every start begin.
func (b *liveStatus) await(name, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.all[name]; !known {
		b.all[name] = Condition{Name: name, Cause: what, Since: b.now(), awaited: true}
	}
}

// list is the live status, by name.
func (b *liveStatus) list() []Condition {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Condition, 0, len(b.all))
	for _, c := range b.all {
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y Condition) int { return strings.Compare(x.Name, y.Name) })
	return all
}

func (b *liveStatus) get(name string) (Condition, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.all[name]
	return c, ok
}

// line1 makes a text one line of bearable length.
func line1(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !plans.Safe(r) }), "; ")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + " …"
	}
	return s
}
