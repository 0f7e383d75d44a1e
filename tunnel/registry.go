// Who is connected: the subjects, their websockets, and why earlier ones ended.

package tunnel

import (
	"net"
	"slices"
	"time"
)

const (
	// keptEnds is how many ended websockets of a subject are remembered.
	keptEnds = 5
	// keptGone is how long a subject without a websocket is remembered.
	keptGone = 24 * time.Hour
)

// subject is who is at the other end, with all its websockets in the order they came.
type subject struct {
	sessions []*session
	gone     time.Time // when the last of them ended; zero while one is open
	ended    []EndedInfo
}

// add is called once the library serves the session.
func (s *Server) add(one *session) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		one.socket.dismiss(1001, stopping)
		return
	}
	name := one.peer.Subject
	all := s.subjects[name]
	if all == nil {
		all = &subject{}
		s.subjects[name] = all
	}
	again := len(all.sessions)+len(all.ended) > 0 // the end of the one before may not have been seen yet
	all.sessions = append(all.sessions, one)
	all.gone = time.Time{}
	first := len(all.sessions) == 1
	s.mu.Unlock()
	s.totals.opened(again)
	s.log.Info("tunnel opened", "subject", name, "kind", one.peer.Kind, "from", one.remote, "protocol", one.carrier.protocol())
	if first {
		s.notify(name, true)
	}
}

func (s *Server) remove(one *session, reason string) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	name := one.peer.Subject
	all := s.subjects[name]
	i := -1
	if all != nil {
		i = slices.Index(all.sessions, one)
	}
	if i < 0 {
		s.mu.Unlock()
		return
	}
	now := s.now()
	all.sessions = slices.Delete(all.sessions, i, i+1)
	all.ended = append(all.ended, EndedInfo{
		Subject: name, Kind: one.peer.Kind, Remote: one.remote, Since: one.since, Ended: now, Reason: reason,
	})
	if len(all.ended) > keptEnds {
		all.ended = slices.Delete(all.ended, 0, len(all.ended)-keptEnds)
	}
	last := len(all.sessions) == 0
	if last {
		all.gone = now
	}
	s.prune(now)
	s.mu.Unlock()
	s.totals.ended(one)
	s.log.Info("tunnel ended", "subject", name, "kind", one.peer.Kind, "from", one.remote,
		"open", now.Sub(one.since).Round(time.Second), "reason", reason)
	if last {
		s.notify(name, false)
	}
}

// prune forgets who is gone for long, now and then. It is called with mu held.
func (s *Server) prune(now time.Time) {
	if now.Sub(s.pruned) < time.Hour {
		return
	}
	s.pruned = now
	for name, all := range s.subjects {
		if len(all.sessions) == 0 && now.Sub(all.gone) > keptGone {
			delete(s.subjects, name)
		}
	}
}

func (s *Server) notify(subject string, connected bool) {
	for _, f := range s.observers {
		f(subject, connected)
	}
}

// candidates are the subject's sessions, the one to try first in front: those that work,
// then the others, the newest first of each. While the oldest one works, those from other
// addresses stand behind those from its own: who opens another tunnel under a host's name
// does not take its place.
func (s *Server) candidates(subject string) ([]*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.subjects[subject]
	if all == nil || len(all.sessions) == 0 {
		e := &NoSessionError{Subject: subject}
		if all != nil {
			e.Last = all.gone
			if n := len(all.ended); n > 0 {
				e.Reason = all.ended[n-1].Reason
			}
		}
		return nil, e
	}
	now := s.now()
	var good, foreign, doubtful []*session
	home := ""
	for _, one := range all.sessions {
		if home == "" && one.healthy(now) {
			home = source(one.remote)
		}
	}
	for _, one := range slices.Backward(all.sessions) {
		switch {
		case !one.healthy(now):
			doubtful = append(doubtful, one)
		case source(one.remote) == home:
			good = append(good, one)
		default:
			foreign = append(foreign, one)
		}
	}
	return slices.Concat(good, foreign, doubtful), nil
}

// source is the address that a session comes from, without its port.
func source(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}

// Connected says whether the subject has an open tunnel, and since when the oldest of
// those open; when it has none, since when it is gone (zero: never seen).
func (s *Server) Connected(subject string) (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.subjects[subject]
	switch {
	case all == nil:
		return time.Time{}, false
	case len(all.sessions) == 0:
		return all.gone, false
	default:
		return all.sessions[0].since, true
	}
}

// OnChange adds a function that is called when a subject's first tunnel opens and when
// its last one ends, in order. It must neither block nor call OnChange.
func (s *Server) OnChange(f func(subject string, connected bool)) {
	s.order.Lock()
	defer s.order.Unlock()
	s.observers = append(s.observers, f)
}
