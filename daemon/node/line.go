// The line to the server: the tunnel of tunnel.Client, first to the endpoint that
// registers the host and afterwards to the one that does not, and what is done when it
// stays dead.

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// With a server that can be reached but no tunnel, the client is made anew after stale,
// and the process ends after stuck, so that whoever started it starts it again.
const (
	stale     = 10 * time.Minute
	stuck     = 30 * time.Minute
	lookEvery = 15 * time.Second
)

var errNewEndpoint = errors.New("this host is registered now")
var errStale = errors.New("no tunnel for ten minutes although the server can be reached")

type line struct {
	*agent
	pull *pull
}

// run keeps a client running, made anew when its endpoint changes or when it is stale.
func (l *line) run(ctx context.Context) error {
	down := l.Now() // since when there is no tunnel
	pause := backoff.Backoff{Min: time.Second, Max: 30 * time.Second}
	for {
		trusted, err := l.trust.tls(ctx)
		if err != nil {
			l.board.set(onTunnel, fmt.Errorf("the server's CA is not known yet: %w", err))
			if err := backoff.Wait(ctx, pause.Next()); err != nil {
				return err
			}
			continue
		}
		pause.Reset()
		one, end := context.WithCancelCause(ctx)
		client := tunnel.NewClient(tunnel.ClientOptions{
			URL: l.endpoint(), Header: l.header, TLS: trusted, Dial: l.dial,
			Changed: l.changed(end), Logger: l.Logger, Now: l.Now,
		})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			l.watch(one, end, &down)
		}()
		err = client.Run(one)
		cause := context.Cause(one)
		end(nil)
		<-watched
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(cause, ErrStuck):
			return cause
		case errors.Is(cause, errStale), errors.Is(cause, errNewEndpoint):
			l.Logger.Info("tunnel is made anew", "because", cause)
		default:
			return err
		}
	}
}

// changed notes what the client does. A tunnel to the registering endpoint that ends is
// not opened there again.
func (l *line) changed(end context.CancelCauseFunc) func(tunnel.Status) {
	registering := !l.registered()
	return func(s tunnel.Status) {
		switch {
		case s.State == tunnel.Connected:
			l.board.set(onTunnel, nil)
			l.mark()
			l.pull.now()
		case s.Cause != nil:
			l.board.set(onTunnel, l.explain(s.Cause))
		case s.State == tunnel.Connecting:
			if _, known := l.board.get(onTunnel); !known {
				l.board.set(onTunnel, errors.New("connecting for the first time"))
			}
		}
		if registering && s.State == tunnel.Waiting && l.registered() {
			end(errNewEndpoint)
		}
	}
}

// mark writes down that this host is registered.
func (l *line) mark() {
	if l.registered() {
		return
	}
	if err := durable.WriteFile(l.marker(), nil, 0o600); err != nil {
		l.Logger.Warn("it cannot be written down that this host is registered", "error", err)
	}
}

// explain adds what a person can do to what the server said.
func (l *line) explain(err error) error {
	var refused *tunnel.HandshakeError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w (the registration token is not valid for this server; take the command again from the cluster's page)", err)
	case http.StatusNotFound:
		return fmt.Errorf("%w (%s may be the address of something else)", err, l.Server)
	case http.StatusBadRequest:
		return fmt.Errorf("%w (if this host was removed from the cluster, remove %s and start the agent again)", err, l.marker())
	}
	return err
}

// watch ends a client that has had no tunnel for too long although the server answers.
// down is since when that is so, over the lives of several clients.
func (l *line) watch(ctx context.Context, end context.CancelCauseFunc, down *time.Time) {
	began := l.Now()
	for backoff.Wait(ctx, lookEvery) == nil {
		tunnelled, _ := l.board.get(onTunnel)
		server, _ := l.board.get(onServer)
		if tunnelled.OK || !server.OK {
			*down = l.Now()
			continue
		}
		if err := verdict(l.Now(), *down, began); err != nil {
			end(err)
			return
		}
	}
}

// verdict is what to do about a tunnel that is down since a time with a client that began
// at another; nil is to wait.
func verdict(now, down, began time.Time) error {
	switch {
	case now.Sub(down) >= stuck:
		return ErrStuck
	case now.Sub(down) >= stale && now.Sub(began) >= stale:
		return errStale
	}
	return nil
}

func (l *line) header() http.Header {
	h := http.Header{"User-Agent": {l.UserAgent}}
	h.Set(connect.TokenHeader, l.Token)
	params, err := connect.Encode(l.params(l.docker.said(), 0))
	if err != nil {
		l.Logger.Error("this host cannot be described", "error", err) // furnish has checked all but Docker's part
		return h
	}
	h.Set(connect.ParamsHeader, params)
	return h
}
