package backoff

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Spared is a server's wish to be left alone for a while (Retry-After), which everything that is sent
// to it heeds. It is for several goroutines; the zero value asks for no pause.
type Spared struct {
	mu    sync.Mutex
	until time.Time
}

// Heed notes the wish and returns how long it holds: up to a quarter longer, by chance, so that not all
// who were asked come back in the same moment. Zero asks for no pause.
func (s *Spared) Heed(wish time.Duration, now time.Time) time.Duration {
	if wish <= 0 {
		return 0
	}
	wish += time.Duration(rand.Float64() * float64(wish) / 4) // #nosec G404 -- spreads load, nothing secret
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = now.Add(wish)
	return wish
}

// Left is how long the server is still to be left alone; not above zero: it is not.
func (s *Spared) Left(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.Sub(now)
}
