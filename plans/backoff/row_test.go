package backoff

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRow: a server that was away and answers that it is not ready is found again soon, one that
// answers so for long is spared.
func TestRow(t *testing.T) {
	refused := fmt.Errorf("GET: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	unnamed := fmt.Errorf("look up example.com: %w", &net.DNSError{IsNotFound: true})
	forbidden := errors.New("the server answered 403")
	now := time.Unix(1.8e9, 0)
	r := Row{
		Backoff: Backoff{Min: time.Second, Max: 30 * time.Second, Floor: 1},
		Away:    3 * time.Second, Fresh: 10 * time.Second, Now: func() time.Time { return now },
	}
	var got []int
	for _, step := range []struct {
		err   error
		times int
	}{{forbidden, 4}, {refused, 3}, {unnamed, 2}, {forbidden, 7}, {refused, 1}, {forbidden, 1}} {
		for range step.times {
			pause := r.After(step.err)
			now = now.Add(pause)
			got = append(got, int(pause/time.Second))
		}
	}
	want := []int{
		1, 2, 4, 8, // in trouble
		3, 3, 3, 3, 3, // away
		1, 2, 3, 3, 3, 30, 30, // back, and in trouble again
		3, // away
		1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
