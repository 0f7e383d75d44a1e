package backoff

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

type answers func() *http.Response

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

// TestSparing: what an answer asks for is bounded, gets up to a quarter more, and nothing is sent until then.
func TestSparing(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		status     int
		retryAfter string
		want       time.Duration
	}{
		{429, "7", 7 * time.Second},
		{503, "7", 7 * time.Second},
		{503, "Fri, 02 Jan 2026 12:00:30 GMT", 30 * time.Second},
		{503, "Fri, 02 Jan 2026 11:00:30 GMT", 0},
		{503, "Fri, 02 Jan 2099 11:00:30 GMT", LongestPause},
		{429, "9223372036854775807", LongestPause},
		{429, "99999999999999999999", 0},
		{429, "-5", 0}, {429, "0", 0}, {429, "", 0}, {429, "soon", 0},
		{200, "7", 0}, {500, "7", 0},
	} {
		clock, sent := now, 0
		s := Sparing{Spared: new(Spared), Now: func() time.Time { return clock }, Next: answers(func() *http.Response {
			sent++
			return &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.retryAfter}}}
		})}
		if _, err := s.RoundTrip(nil); err != nil {
			t.Fatal(err)
		}
		left := max(s.Left(now), 0)
		if left < tc.want || left > tc.want+tc.want/4 {
			t.Errorf("%d, %q: left alone for %s, want %s", tc.status, tc.retryAfter, left, tc.want)
		}
		var spared *SparedError
		if _, err := s.RoundTrip(nil); (left > 0) != errors.As(err, &spared) {
			t.Errorf("%d, %q: the next request: %v", tc.status, tc.retryAfter, err)
		}
		clock = clock.Add(left)
		if _, err := s.RoundTrip(nil); err != nil {
			t.Errorf("%d, %q: afterwards: %v", tc.status, tc.retryAfter, err)
		}
		want := 2
		if left == 0 {
			want = 3
		}
		if sent != want {
			t.Errorf("%d, %q: %d requests were sent, want %d", tc.status, tc.retryAfter, sent, want)
		}
	}
}
