// What a credential has opened (watches, websockets, tunnels) ends when the credential ends: at
// once when it is revoked, by a timer when its time is over. Without this
// a stream would go on for as long as its client likes.

package auth

import (
	"slices"
	"sync"
	"time"
)

// Streams are what is open now, by the owner of the credential.
type Streams struct {
	mu      sync.Mutex
	byOwner map[string][]*stream
}

type stream struct {
	owner string
	valid func() bool
	end   func()
	once  sync.Once
	timer *time.Timer
}

// Add calls end once: as soon as valid is false after a Check of the owner, at End, or when life is over;
// zero is for ever, and a nil valid is always true. It may call end before it returns. Neither valid nor end may block. end
// is not called after remove has returned, but for a call that is under way.
func (s *Streams) Add(owner string, life time.Duration, valid func() bool, end func()) (remove func()) {
	if valid == nil {
		valid = func() bool { return true }
	}
	one := &stream{owner: owner, valid: valid, end: end}
	s.mu.Lock()
	if s.byOwner == nil {
		s.byOwner = map[string][]*stream{}
	}
	s.byOwner[owner] = append(s.byOwner[owner], one)
	if life != 0 {
		one.timer = time.AfterFunc(max(life, 0), func() { s.over(one) })
	}
	s.mu.Unlock()
	// It may have been revoked since it was looked at.
	if !valid() {
		s.over(one)
	}
	return func() { s.remove(one) }
}

// Check ends the streams of an owner whose credentials are not valid any more.
func (s *Streams) Check(owner string) {
	s.mu.Lock()
	all := slices.Clone(s.byOwner[owner])
	s.mu.Unlock()
	s.check(all)
}

// End ends the streams of an owner.
func (s *Streams) End(owner string) {
	s.mu.Lock()
	all := slices.Clone(s.byOwner[owner])
	s.mu.Unlock()
	for _, one := range all {
		s.over(one)
	}
}

// CheckAll is Check for all owners.
func (s *Streams) CheckAll() {
	s.mu.Lock()
	var all []*stream
	for _, streams := range s.byOwner {
		all = append(all, streams...)
	}
	s.mu.Unlock()
	s.check(all)
}

func (s *Streams) check(all []*stream) {
	for _, one := range all {
		if !one.valid() {
			s.over(one)
		}
	}
}

func (s *Streams) over(one *stream) {
	if s.remove(one) {
		one.once.Do(one.end)
	}
}

// remove says whether the stream was still there.
func (s *Streams) remove(one *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.timer != nil {
		one.timer.Stop()
	}
	streams := s.byOwner[one.owner]
	i := slices.Index(streams, one)
	if i < 0 {
		return false
	}
	if len(streams) == 1 {
		delete(s.byOwner, one.owner)
		return true
	}
	s.byOwner[one.owner] = slices.Delete(slices.Clone(streams), i, i+1)
	return true
}
