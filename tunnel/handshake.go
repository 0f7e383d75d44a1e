// A dial that is known to have worked: with a handshake, under a time limit, and again
// when the tunnel and not the target was at fault.

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// handshakeTries is how often DialHandshake tries at most.
const handshakeTries = 3

// DialHandshake dials and does a handshake with the target (TLS, or a request), which
// alone proves that a dial has worked. The handshake gets the connection and returns it or
// one above it; it has 10 seconds. When the connection was lost before anything came back,
// the dial is repeated up to twice; when the host did not answer or could not reach the
// target, another tunnel of the subject is tried if there is one. Errors are those of
// Dial and of the handshake.
func (s *Server) DialHandshake(ctx context.Context, subject, network, address string,
	handshake func(context.Context, net.Conn) (net.Conn, error)) (net.Conn, error) {
	tried := map[*session]bool{}
	for try := 1; ; try++ {
		c, err := s.dial(ctx, subject, network, address, tried)
		if err != nil {
			return nil, err
		}
		tried[c.session] = true
		done, err := s.shake(ctx, c, handshake)
		if err == nil {
			return done, nil
		}
		if try == handshakeTries || ctx.Err() != nil || !s.worthAnotherTry(c, tried) {
			return nil, fmt.Errorf("handshake with %s %s of %s: %w", network, address, subject, err)
		}
	}
}

// shake does one handshake within its time.
func (s *Server) shake(ctx context.Context, c *conn, handshake func(context.Context, net.Conn) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.handshake)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.fail(fmt.Errorf("%w: %w%s", os.ErrDeadlineExceeded, context.Cause(ctx), c.progress())) })
	done, err := handshake(ctx, c)
	if !stop() && err == nil {
		err = fmt.Errorf("the handshake took longer than %s: %w", s.limits.handshake, os.ErrDeadlineExceeded)
	}
	if err == nil {
		return done, nil
	}
	c.Close()
	return nil, err
}

// worthAnotherTry decides by what the connection, not the handshake, ended with.
func (s *Server) worthAnotherTry(c *conn, tried map[*session]bool) bool {
	var lost *LostError
	if errors.As(c.over(), &lost) {
		return !lost.Answered
	}
	var refused *TargetRefusedError
	if !errors.As(c.over(), &refused) && !errors.Is(c.over(), os.ErrDeadlineExceeded) {
		return false // the target answered with something that the handshake did not like
	}
	candidates, none := s.candidates(c.session.peer.Subject)
	if none != nil {
		return false
	}
	for _, one := range candidates {
		if !tried[one] {
			return true
		}
	}
	return false
}
