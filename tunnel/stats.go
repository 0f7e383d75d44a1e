// What is counted and reported of sessions: numbers for metrics, lines for people.
// No metric has a target's address as a label: their number has no bound.

package tunnel

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// failure is why a dial came to nothing, in a word.
type failure string

const (
	failNoSession failure = "no session"
	failRefused   failure = "refused by the server"
	failBusy      failure = "too many connections"
	failTarget    failure = "refused by the host"
	failTimeout   failure = "no answer"
	failLost      failure = "tunnel lost"
	failGaveUp    failure = "given up by the caller"
)

// latencyBounds are the upper bounds of the histogram, in seconds.
var latencyBounds = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// SessionInfo is one open websocket.
type SessionInfo struct {
	Subject  string
	Kind     string // of the agent, as Authorize said
	Agent    string // its release, as Authorize said; empty when it is not known
	Protocol string // spoken over the websocket
	Remote   string // the address that it comes from
	Since    time.Time
	// LastHeard is when any byte came; an agent says something every five seconds.
	LastHeard time.Time
	// LastAnswer is when a target last answered a dial; zero when none has yet.
	LastAnswer time.Time
	// Healthy says that it was heard of lately and its last dial did not fail.
	Healthy           bool
	Connections       int   // open now
	Paused            int   // of them, those that the host asked to send nothing
	Dials, Failures   int64 // since it opened
	BytesIn, BytesOut int64 // payload since it opened, in seen from the server
}

// EndedInfo is a websocket that has ended.
type EndedInfo struct {
	Subject, Kind, Remote string
	Since, Ended          time.Time
	Reason                string // in words; "it" in it is the host
}

// Stats are totals since the start of the server.
type Stats struct {
	Opened     int64 // websockets
	Reconnects int64 // of them, those of a subject that had one before
	Ended      int64
	Dials      int64
	Failures   map[string]int64 // of dials, by reason
	// Latency is the time from a dial to the first byte of its answer.
	Latency           Histogram
	BytesIn, BytesOut int64 // payload
}

// Histogram has cumulative counts by upper bound in seconds, as Prometheus has them.
type Histogram struct {
	Count   uint64
	Sum     float64 // seconds
	Buckets map[float64]uint64
}

// totals outlive sessions.
type totals struct {
	mu       sync.Mutex
	stats    Stats // without Failures and Latency
	failures map[failure]int64
	buckets  [len(latencyBounds)]uint64
	count    uint64
	sum      float64
}

func (t *totals) failed(why failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures == nil {
		t.failures = map[failure]int64{}
	}
	t.failures[why]++
}

func (t *totals) answered(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	t.sum += after.Seconds()
	for i, bound := range latencyBounds {
		if after.Seconds() <= bound {
			t.buckets[i]++
		}
	}
}

func (t *totals) opened(again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Opened++
	if again {
		t.stats.Reconnects++
	}
}

func (t *totals) ended(one *session) {
	one.mu.Lock()
	dials := one.dials
	one.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Ended++
	t.stats.Dials += dials
	t.stats.BytesIn += one.in.Load()
	t.stats.BytesOut += one.out.Load()
}

func (t *totals) snapshot() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Failures = map[string]int64{}
	for why, n := range t.failures {
		s.Failures[string(why)] = n
	}
	s.Latency = Histogram{Count: t.count, Sum: t.sum, Buckets: map[float64]uint64{}}
	for i, bound := range latencyBounds {
		s.Latency.Buckets[bound] = t.buckets[i]
	}
	return s
}

// Stats are the totals, those of open sessions included.
func (s *Server) Stats() Stats {
	all := s.totals.snapshot()
	for _, one := range s.Sessions() {
		all.Dials += one.Dials
		all.BytesIn += one.BytesIn
		all.BytesOut += one.BytesOut
	}
	return all
}

// Sessions are the open websockets, by subject and then by age, the oldest first.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	now := s.now()
	var open []*session
	for _, all := range s.subjects {
		open = append(open, all.sessions...)
	}
	s.mu.Unlock()
	infos := make([]SessionInfo, 0, len(open))
	for _, one := range open {
		infos = append(infos, one.info(now))
	}
	slices.SortFunc(infos, func(a, b SessionInfo) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), a.Since.Compare(b.Since))
	})
	return infos
}

// Agent is the release of the agent that opened a subject's latest websocket; empty when there is none, or it is not known.
func (s *Server) Agent(subject string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.subjects[subject]; all != nil && len(all.sessions) > 0 {
		return all.sessions[len(all.sessions)-1].peer.Agent
	}
	return ""
}

// Ended are the last websockets of a subject that are no more, the latest last; of all
// subjects when it is empty. A subject's are forgotten a day after it has gone.
func (s *Server) Ended(subject string) []EndedInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if subject != "" {
		if all := s.subjects[subject]; all != nil {
			return slices.Clone(all.ended)
		}
		return nil
	}
	var every []EndedInfo
	for _, name := range slices.Sorted(maps.Keys(s.subjects)) {
		every = append(every, s.subjects[name].ended...)
	}
	return every
}
