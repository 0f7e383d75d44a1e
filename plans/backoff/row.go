// The pauses of a row of attempts to reach a server. A server that is away cannot be bothered and
// is looked for often; one that answers, and not as it should, is spared more and more. The two
// do not count together: a server that starts anew refuses connections for a while and then answers
// for a moment that it is not ready.

package backoff

import (
	"context"
	"errors"
	"net"
	"time"
)

// Row is the pauses between attempts at one thing. It is for one goroutine.
type Row struct {
	Backoff
	// Away is the longest pause while no connection can be made, and while the server has answered
	// again for less than Fresh.
	Away, Fresh time.Duration
	Now         func() time.Time

	wasAway bool
	back    time.Time // when the server answered again; zero: it was not away
}

// Server is the row by which agents look for their server.
func Server(now func() time.Time) Row {
	return Row{Backoff: Backoff{Min: time.Second, Max: 30 * time.Second}, Away: 5 * time.Second, Fresh: 30 * time.Second, Now: now}
}

// Wait waits for the pause that follows an error, and until the server is not to be left alone any more.
func (r *Row) Wait(ctx context.Context, err error, spared *Spared) error {
	return Wait(ctx, max(r.After(err), spared.Left(r.Now())))
}

// After is the pause that follows an error.
func (r *Row) After(err error) time.Duration {
	var connecting *net.OpError
	var unnamed *net.DNSError
	away := errors.As(err, &connecting) && connecting.Op == "dial" || errors.As(err, &unnamed)
	if r.wasAway && !away {
		r.Reset()
		r.back = r.Now()
	}
	r.wasAway = away
	pause := r.Next()
	if away || !r.back.IsZero() && r.Now().Sub(r.back) < r.Fresh {
		return min(pause, r.Away)
	}
	return pause
}
