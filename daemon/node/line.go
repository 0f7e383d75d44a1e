// The line to the server: the tunnel of tunnel.Client, first to the endpoint that
// registers the host and afterwards to the one that does not.

package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
	"github.com/drover-project/drover/tunnel/trust"
)

var errNewEndpoint = errors.New("this host is registered now")

type line struct {
	*agent
	pull *pull

	mu     sync.Mutex
	client *tunnel.Client // nil until the server's CA is known
}

// run keeps a client running, made anew when its endpoint changes.
func (l *line) run(ctx context.Context) error {
	pause := backoff.Server(l.Now)
	for {
		trusted, sum, err := l.authority.tls(ctx)
		if err != nil {
			l.liveStatus.set(onTunnel, fmt.Errorf("the server's CA is not known yet: %w", err))
			if err := pause.Wait(ctx, err, l.spared); err != nil {
				return err
			}
			continue
		}
		pause.Reset()
		one, end := context.WithCancelCause(ctx)
		client := tunnel.NewClient(tunnel.ClientOptions{
			URL: l.endpoint(), Header: l.header, TLS: trusted, Renewal: l.authority.renewal(sum), Resolve: l.Resolve, Spared: l.spared, Dial: l.dial,
			Changed: l.changed(end), Logger: l.Logger, Now: l.Now,
		})
		l.mu.Lock()
		l.client = client
		l.mu.Unlock()
		err = client.Run(one)
		anew := errors.Is(context.Cause(one), errNewEndpoint)
		end(nil)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !anew:
			return err
		}
		l.Logger.Info("tunnel is made anew", "because", errNewEndpoint)
	}
}

// refresh asks where the server is, and what it wants, whenever it is told to.
func (l *line) refresh(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Refresh:
		}
		l.Logger.Info("the server's name is looked up, and its node config fetched")
		l.mu.Lock()
		client := l.client
		l.mu.Unlock()
		if client != nil {
			client.Refresh()
		}
		l.pull.now()
	}
}

// changed notes what the client does. A tunnel to the registering endpoint that ends is
// not opened there again.
func (l *line) changed(end context.CancelCauseFunc) func(tunnel.Status) {
	registering := !l.registered()
	return func(s tunnel.Status) {
		switch {
		case s.State == tunnel.Connected:
			l.liveStatus.set(onTunnel, nil)
			l.liveStatus.set(onCA, nil)
			l.mark()
			l.pull.now()
			select {
			case l.connected <- struct{}{}:
			default:
			}
		case s.Cause != nil:
			l.liveStatus.set(onTunnel, l.explain(s.Cause))
			l.authority.doubt(s.Cause)
		case s.State == tunnel.Connecting:
			l.liveStatus.await(onTunnel, "connecting for the first time")
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
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w (either this host's clock is wrong or the server's certificate has ended)", err)
	case trust.Outdated(err) && l.PinAlways:
		return fmt.Errorf("%w (%w)", err, errPinned)
	}
	var refused *tunnel.HandshakeError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w (the registration token is not valid for this server; take the command again from the cluster's page)", err)
	case http.StatusNotFound:
		return fmt.Errorf("%w (%s may be the address of something else)", err, l.Server)
	case http.StatusBadRequest: // servers answer so to unknown tokens as well
		hint := "if the cluster is not known, the registration token has ended: take the command again from the cluster's page"
		if l.registered() && !l.NoRegister {
			hint += "; if this host was removed from it, remove " + l.marker() + " and start the agent again"
		}
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

func (l *line) header() http.Header {
	h := http.Header{"User-Agent": {l.UserAgent}}
	h.Set(connect.TokenHeader, l.Token)
	h.Set(connect.CredentialHeader, l.credential)
	params, err := connect.Encode(l.params(l.docker.said(), 0))
	if err != nil {
		l.Logger.Error("this host cannot be described", "error", err) // newAgent has checked all but Docker's part
		return h
	}
	h.Set(connect.ParamsHeader, params)
	return h
}
