package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name  string
		b     Backoff
		reset int // after so many
		want  []time.Duration
	}{
		{
			name: "doubles to the longest and stays",
			b:    Backoff{Min: time.Second, Max: 30 * time.Second, Rand: func() float64 { return 1 }},
			want: []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9},
		},
		{
			name: "full jitter may be nothing",
			b:    Backoff{Min: time.Second, Max: 30 * time.Second, Rand: func() float64 { return 0 }},
			want: []time.Duration{0, 0, 0},
		},
		{
			name: "the floor stays",
			b:    Backoff{Min: 8 * time.Second, Max: 30 * time.Second, Floor: 0.5, Rand: func() float64 { return 0.5 }},
			want: []time.Duration{6e9, 12e9, 22500 * time.Millisecond},
		},
		{
			name:  "starts over",
			b:     Backoff{Min: time.Second, Max: 30 * time.Second, Rand: func() float64 { return 1 }},
			reset: 3,
			want:  []time.Duration{1e9, 2e9, 4e9, 1e9, 2e9},
		},
		{
			name: "zero value",
			want: []time.Duration{0, 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []time.Duration
			for i := range tc.want {
				if tc.reset > 0 && i == tc.reset {
					tc.b.Reset()
				}
				got = append(got, tc.b.Next())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextStaysWithinBoundsForever(t *testing.T) {
	b := Backoff{Min: 800 * time.Millisecond, Max: 30 * time.Second, Floor: 0.5}
	for range 10_000 {
		if p := b.Next(); p < 400*time.Millisecond || p > 30*time.Second {
			t.Fatalf("pause of %v", p)
		}
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("waited %v", d)
		}
		if err := Wait(t.Context(), 3*time.Second); err != nil {
			t.Errorf("err = %v", err)
		}
	})
}
