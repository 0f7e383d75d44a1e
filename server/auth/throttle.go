// Guessing passwords is slowed down by user and source together, so that a stranger
// cannot lock a user out from where that user logs in.

package auth

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	maxFailures   = 10
	failureWindow = 5 * time.Minute
	// maxThrottled bounds the memory that strangers can take.
	maxThrottled = 10_000
)

// TooManyError says that a user and source failed too often.
type TooManyError struct {
	// RetryAfter is how long to wait.
	RetryAfter time.Duration
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("more than %d failed logins in %d minutes: wait %d s and try again",
		maxFailures, int(failureWindow.Minutes()), int(e.RetryAfter.Seconds()+0.999))
}

// throttle remembers failures. The zero value is ready.
type throttle struct {
	mu       sync.Mutex
	failures map[string][]time.Time // oldest first
}

func throttleKey(username, source string) string { return strings.ToLower(username) + "\x00" + source }

// begin counts an attempt as failed before it is made, so that many at once count too;
// succeed takes that back.
func (t *throttle) begin(key string, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := t.recent(key, now)
	if len(recent) >= maxFailures {
		return &TooManyError{RetryAfter: recent[len(recent)-maxFailures].Add(failureWindow).Sub(now)}
	}
	if t.failures == nil {
		t.failures = map[string][]time.Time{}
	}
	if len(t.failures) >= maxThrottled && len(recent) == 0 {
		t.evict(now)
	}
	t.failures[key] = append(recent, now)
	return nil
}

func (t *throttle) succeed(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, key)
}

func (t *throttle) recent(key string, now time.Time) []time.Time {
	list := t.failures[key]
	for len(list) > 0 && !list[0].Add(failureWindow).After(now) {
		list = list[1:]
	}
	return list
}

// evict makes room: what is over goes, and when nothing is, the one that failed last longest ago.
func (t *throttle) evict(now time.Time) {
	oldest, at := "", now
	for key, list := range t.failures {
		last := list[len(list)-1]
		if !last.Add(failureWindow).After(now) {
			delete(t.failures, key)
			continue
		}
		if oldest == "" || last.Before(at) {
			oldest, at = key, last
		}
	}
	if len(t.failures) >= maxThrottled {
		delete(t.failures, oldest)
	}
}
