package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	// A client that was connected for stable starts again with the shortest pause.
	minPause = time.Second
	maxPause = 30 * time.Second
	stable   = time.Minute
	// handshakeLimit bounds one attempt: connect, TLS, upgrade.
	handshakeLimit = 20 * time.Second
)

// Client keeps one websocket to a server open.
type Client struct {
	o       ClientOptions
	log     *slog.Logger
	now     func() time.Time
	dialer  websocket.Dialer
	mu      sync.Mutex // guards status; held while Changed runs, so that calls are in order
	status  Status
	backoff backoff.Backoff
}

// NewClient makes a client; Run connects it.
func NewClient(o ClientOptions) *Client {
	c := &Client{o: o, log: o.Logger, now: o.Now, backoff: backoff.Backoff{Min: minPause, Max: maxPause}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.dialer = websocket.Dialer{
		Proxy:            http.ProxyFromEnvironment,
		HandshakeTimeout: handshakeLimit,
		WriteBufferSize:  clientBuffer,
		WriteBufferPool:  &sync.Pool{},
		NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newSocket(conn, c.now), nil
		},
	}
	if o.TLS != nil {
		c.dialer.TLSClientConfig = o.TLS.Clone()
		c.dialer.TLSClientConfig.NextProtos = nil // a websocket needs HTTP/1.1
	}
	c.status = Status{State: Stopped, Since: c.now()}
	return c
}

// Run connects, serves the server's dials, and connects again whenever the
// connection ends, until the context does. Its error is the context's, or says what
// about the options can never work. It returns after all that it started has ended.
func (c *Client) Run(ctx context.Context) error {
	u, err := url.Parse(c.o.URL)
	if err != nil || u.Scheme != "wss" || u.Host == "" {
		return fmt.Errorf("open tunnel to %q: the address has to be wss://host[:port]/path", c.o.URL)
	}
	defer func() { c.set(Status{State: Stopped}) }()
	for {
		c.set(Status{State: Connecting, Cause: c.Status().Cause})
		lasted, err := c.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if lasted >= stable {
			c.backoff.Reset()
		}
		pause := c.backoff.Next()
		c.log.Warn("tunnel is not open", "url", c.o.URL, "error", err, "next", pause.Round(time.Millisecond))
		c.set(Status{State: Waiting, Cause: err, Next: c.now().Add(pause)})
		if err := backoff.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

// Status is what the client is doing now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Client) set(s Status) {
	s.Since = c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = s
	if c.o.Changed != nil {
		c.o.Changed(s)
	}
}

// session is the life of one websocket. It says how long the websocket was open and why it ended.
func (c *Client) session(ctx context.Context) (lasted time.Duration, err error) {
	var header http.Header
	if c.o.Header != nil {
		header = c.o.Header()
	}
	ws, answer, err := c.dialer.DialContext(ctx, c.o.URL, header)
	if err != nil {
		return 0, handshakeError(err, answer)
	}
	ws.SetReadLimit(maxMessage)
	targets := newTargets(c.o.Dial)
	session := remotedialer.NewClientSessionWithDialer(acceptOnTheWire, ws, targets.dial)
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, err := session.Serve(ctx)
		served <- err
	}()
	opened := c.now()
	c.log.Info("tunnel is open", "url", c.o.URL)
	c.set(Status{State: Connected})

	select {
	case err = <-served:
		ws.Close()
	case <-ctx.Done():
		// Good manners; whoever does not hear it sees the connection close.
		_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, "the client is stopping"), time.Now().Add(goodbyeLimit))
		ws.Close()
		err = <-served
	}
	// The websocket is closed by now, so nothing below waits for the peer.
	cancel()
	session.Close()
	targets.close()
	return c.now().Sub(opened), fmt.Errorf("the tunnel ended: %w", err)
}

// acceptOnTheWire lets every request through to the local dialer, because a refusal
// here would end the session with all its connections.
func acceptOnTheWire(string, string) bool { return true }

func handshakeError(err error, answer *http.Response) error {
	if answer == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return fmt.Errorf("connect: %w", err)
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 256)) // what came is what there is to tell
	return &HandshakeError{Status: answer.StatusCode, Text: oneLine(string(text))}
}

// oneLine makes text from outside fit for a log line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}
