package backoff

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// LongestPause bounds what a server may ask for.
const LongestPause = 5 * time.Minute

// Asked is how long an answer asks to be left alone (Retry-After, in seconds or as a time), at most LongestPause;
// 0 when it does not.
func Asked(answer *http.Response, now time.Time) time.Duration {
	text := answer.Header.Get("Retry-After")
	var pause time.Duration
	if n, err := strconv.Atoi(text); err == nil {
		pause = time.Duration(min(n, int(LongestPause/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		pause = at.Sub(now)
	}
	return min(max(pause, 0), LongestPause)
}

// Spared is for how long a server asked to be left alone (Retry-After), which everything that is sent
// to it waits for. It is for several goroutines; the zero value asks for no pause.
type Spared struct {
	mu    sync.Mutex
	until time.Time
}

// SparedError says of a request that it was not sent.
type SparedError struct{ Left time.Duration }

// Error says for how long.
func (e *SparedError) Error() string {
	return fmt.Sprintf("the server asked to be left alone for another %s", e.Left.Round(time.Second))
}

// Note keeps the pause and returns how long it holds: up to a quarter longer, by chance, so that not all
// who were asked come back in the same moment. Zero asks for no pause.
func (s *Spared) Note(pause time.Duration, now time.Time) time.Duration {
	if pause <= 0 {
		return 0
	}
	pause += time.Duration(rand.Float64() * float64(pause) / 4) // #nosec G404 -- spreads load, nothing secret
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = now.Add(pause)
	return pause
}

// NoteAnswer notes what an answer asks for if it is that of a server with too much to do, 429 or 503.
func (s *Spared) NoteAnswer(answer *http.Response, now time.Time) {
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		s.Note(Asked(answer, now), now)
	}
}

// Left is how long the server is still to be left alone; not above zero: it is not.
func (s *Spared) Left(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.Sub(now)
}

// Check is a *SparedError while the server is to be left alone.
func (s *Spared) Check(now time.Time) error {
	if left := s.Left(now); left > 0 {
		return &SparedError{left}
	}
	return nil
}

// Sparing is an http.RoundTripper that sends nothing while the server is to be left alone.
type Sparing struct {
	*Spared
	Next http.RoundTripper
	Now  func() time.Time
}

// RoundTrip implements http.RoundTripper. Its error is Next's or a *SparedError.
func (s Sparing) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := s.Check(s.Now()); err != nil {
		return nil, err
	}
	answer, err := s.Next.RoundTrip(r)
	if err == nil {
		s.NoteAnswer(answer, s.Now())
	}
	return answer, err
}
