// The way of people's requests to a cluster's API. It leads over the connection that works now;
// a request that could not be sent, because the host that it led through has just gone, is
// sent through the next one, so that people see a pause where a host dies, and no error.

package downstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/records"
)

const (
	// waitLimit is how long a request waits for another way, once a cluster had one.
	waitLimit = 10 * time.Second
	// connectLimit is how long one connection may take until TLS is spoken. A host that accepts and stays silent has to
	// leave a request the time for the next one.
	connectLimit = 4 * time.Second
	// retryPause is between two tries of the same connection.
	retryPause = 200 * time.Millisecond
	// ViaHeader names, in a response, the host that the request went through, or says cluster-agent.
	ViaHeader = "X-Drover-Via"
)

// Credentials say whose are on a way.
type Credentials int

const (
	// NoCredentials is for requests that carry their own.
	NoCredentials Credentials = iota
	// AdminCredentials are those of the cluster's administrator, who may do everything.
	AdminCredentials
)

// Way is the way to a cluster's API for requests of people. An UnavailableError says why there is
// none; an UnsentError, that nothing of the request reached the API.
func (c *Clusters) Way(key records.ClusterKey, as Credentials) http.RoundTripper {
	return way{clusters: c, key: key, as: as}
}

// UnsentError says that a request was not sent, since no connection came about.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *UnsentError) Unwrap() error { return e.Err }

type way struct {
	clusters *Clusters
	key      records.ClusterKey
	as       Credentials
}

// RoundTrip implements http.RoundTripper.
func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	end := time.Now().Add(waitLimit)
	r, pass := hold(r)
	defer pass()
	for left := false; ; {
		patience, cancel := context.WithDeadline(r.Context(), end)
		c, err := w.clusters.awaited(patience, w.key)
		cancel()
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as a transport does that sends nothing
			}
			return nil, err
		}
		response, err := w.try(c, r)
		if err == nil {
			response.Header.Set(ViaHeader, w.clusters.via(w.key, c.subject))
			return response, nil
		}
		if _, unsent := errors.AsType[*UnsentError](err); !unsent || r.Context().Err() != nil {
			return nil, err
		}
		w.clusters.doubt(w.key, c)
		if next := time.Now().Add(connectLimit); !left && c.over.Err() != nil && next.After(end) {
			left, end = true, next // the wait for an answer over c took the time that the next connection needs
		}
		if !time.Now().Before(end) && !w.clusters.another(w.key, c) {
			return nil, err
		}
		select {
		case <-r.Context().Done():
		case <-time.After(min(retryPause, time.Until(end))):
		}
	}
}

func (w way) over(c *connection) http.RoundTripper {
	if w.as == AdminCredentials {
		return c.admin
	}
	return c.bare
}

// another says whether the cluster has another connection now than the given one.
func (c *Clusters) another(key records.ClusterKey, than *connection) bool {
	w := c.watcher(key)
	if w == nil {
		return false
	}
	now, _, _, _ := w.now()
	return now != nil && now != than
}

// awaited is the connection that works now. A cluster that has just lost one may have the next one
// soon, which is waited for; one that never had any, or lost it long ago, is not. The error says why
// there is none.
func (c *Clusters) awaited(ctx context.Context, key records.ClusterKey) (*connection, error) {
	for {
		w := c.watcher(key)
		if w == nil {
			return nil, &UnavailableError{Cause: c.unreached(key).Error()}
		}
		connection, changes, cause, lost := w.now()
		if connection != nil {
			return connection, nil
		}
		left := waitLimit - c.Now().Sub(lost)
		if lost.IsZero() || left <= 0 {
			return nil, &UnavailableError{Cause: cause}
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, &UnavailableError{Cause: cause}
		case <-timer.C:
		case <-changes:
			timer.Stop()
		}
	}
}

// doubt has the cluster's watcher see at once whether a connection still leads anywhere.
func (c *Clusters) doubt(key records.ClusterKey, suspect *connection) {
	if w := c.watcher(key); w != nil {
		select {
		case suspect.doubts <- struct{}{}:
		default:
		}
	}
}

// now is the watcher's connection, nil for none; what is closed when that changes; why there is
// none; and since when there has been none, zero when there never was one.
func (w *watcher) now() (c *connection, changes <-chan struct{}, cause string, lost time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connection, w.changes, w.api.Cause, w.since
}

// dialTLS makes connections, each within connectLimit; an error is an UnsentError.
func dialTLS(dial func(context.Context, string, string) (net.Conn, error), config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectLimit)
		defer cancel()
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, &UnsentError{Err: err}
		}
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			// What the handshake failed with is worth more than what closing may add.
			_ = raw.Close()
			if ctx.Err() == context.DeadlineExceeded {
				err = fmt.Errorf("no answer within %s", connectLimit)
			}
			return nil, &UnsentError{Err: fmt.Errorf("TLS handshake with the Kubernetes API: %w", err)}
		}
		return conn, nil
	}
}
