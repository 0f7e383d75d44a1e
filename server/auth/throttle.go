// Guessing of passwords is slowed down in two ways: by user and source together, so that an attacker cannot lock a
// user out from where that user logs in, and by source over all names, so that many names are no way around that.

package auth

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/clientip"
)

// How many logins may fail within the window: of one user from one source, and of all users from one source.
const (
	MaxFailuresOfUser   = 10
	maxFailuresOfSource = 50
)

const (
	failureWindow = 5 * time.Minute
	// maxThrottled bounds the memory that anonymous clients can take: each entry has a hash and at
	// most MaxOfSource times.
	maxThrottled = 10_000
	sweepEvery   = time.Minute
)

// throttledError says that a user and source, or a source, failed too often.
type throttledError struct {
	// Most is how many failures are allowed.
	Most int
	// RetryAfter is how long to wait.
	RetryAfter time.Duration
}

func (e *throttledError) Error() string {
	return fmt.Sprintf("more than %d failed logins in %d minutes: wait %d s and try again",
		e.Most, int(failureWindow.Minutes()), int(e.RetryAfter.Seconds()+0.999))
}

// Throttle remembers failures. The zero value is ready.
type Throttle struct {
	mu       sync.Mutex
	failures map[[sha256.Size]byte][]time.Time // oldest first
	swept    time.Time
}

// bucket is what failures are counted by. Its key is a hash, so that a long name takes no
// more memory than a short one.
type bucket struct {
	key  [sha256.Size]byte
	most int
}

// byUser counts the failures of one user from one source.
func byUser(username, address string) bucket {
	return bucket{sha256.Sum256([]byte("user\x00" + strings.ToLower(username) + "\x00" + clientip.Of(address).String())), MaxFailuresOfUser}
}

// bySource counts the failures of all users from one source.
func bySource(address string) bucket {
	return bucket{sha256.Sum256([]byte("source\x00" + clientip.Of(address).String())), maxFailuresOfSource}
}

// Begin counts an attempt as failed before it is made, so that many at once count too;
// Succeed takes that back.
func (t *Throttle) Begin(now time.Time, buckets ...bucket) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	for _, b := range buckets {
		if recent := t.recent(b, now); len(recent) >= b.most {
			return &throttledError{Most: b.most, RetryAfter: recent[len(recent)-b.most].Add(failureWindow).Sub(now)}
		}
	}
	for _, b := range buckets {
		recent := t.recent(b, now)
		if len(t.failures) >= maxThrottled && len(recent) == 0 {
			t.evict()
		}
		t.failures[b.key] = append(recent, now)
	}
	return nil
}

// Succeed forgives the user's failures; the source's others stay.
func (t *Throttle) Succeed(user bucket, others ...bucket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, user.key)
	for _, b := range others {
		if list := t.failures[b.key]; len(list) > 1 {
			t.failures[b.key] = list[:len(list)-1]
		} else {
			delete(t.failures, b.key)
		}
	}
}

func (t *Throttle) recent(b bucket, now time.Time) []time.Time {
	list := t.failures[b.key]
	for len(list) > 0 && !list[0].Add(failureWindow).After(now) {
		list = list[1:]
	}
	return list
}

// sweep forgets what is over, now and then.
func (t *Throttle) sweep(now time.Time) {
	if t.failures == nil {
		t.failures = map[[sha256.Size]byte][]time.Time{}
	}
	if now.Sub(t.swept) < sweepEvery {
		return
	}
	t.swept = now
	for key, list := range t.failures {
		if !list[len(list)-1].Add(failureWindow).After(now) {
			delete(t.failures, key)
		}
	}
}

// evict makes room: the one that failed last longest ago goes.
func (t *Throttle) evict() {
	var oldest [sha256.Size]byte
	var at time.Time
	for key, list := range t.failures {
		if last := list[len(list)-1]; at.IsZero() || last.Before(at) {
			oldest, at = key, last
		}
	}
	delete(t.failures, oldest)
}
