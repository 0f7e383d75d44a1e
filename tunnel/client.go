package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/tunnel/mux"
	"github.com/drover-project/drover/tunnel/trust"
)

const (
	// A client that was connected for stable starts again with the shortest pause.
	stable = time.Minute
	// handshakeLimit bounds one attempt: connect, TLS, upgrade.
	handshakeLimit = 20 * time.Second
)

// Client keeps one websocket to a server open.
type Client struct {
	o       ClientOptions
	log     *slog.Logger
	now     func() time.Time
	url     *url.URL // from Run on
	dialer  websocket.Dialer
	names   names
	refresh chan struct{}
	buffers *mux.Buffers
	times   clientTimes
	retired sync.WaitGroup // links that end when their connections have
	modest  bool           // the next attempt offers no protocol of our own

	mu      sync.Mutex // guards status; held while Changed runs, so that calls are in order
	status  Status
	backoff backoff.Row
}

// clientTimes are constants except in tests.
type clientTimes struct {
	resolve        time.Duration // between two look-ups of the server's name
	retire         time.Duration // that a link may take to end when there is another
	restart, stuck time.Duration // see outage
	silence        time.Duration // of a dead server
}

// NewClient makes a client; Run connects it.
func NewClient(o ClientOptions) *Client {
	c := &Client{
		o: o, log: o.Logger, now: o.Now, refresh: make(chan struct{}, 1), buffers: mux.NewBuffers(),
		times: clientTimes{
			resolve: time.Minute, retire: 10 * time.Minute, restart: 10 * time.Minute, stuck: 30 * time.Minute, silence: silenceLimit,
		},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.o.Spared == nil {
		c.o.Spared = new(backoff.Spared)
	}
	c.backoff = backoff.Server(c.now)
	c.reset(o.TLS)
	c.status = Status{State: Stopped, Since: c.now()}
	return c
}

// reset makes everything that one attempt may leave behind for the next.
func (c *Client) reset(trusted *tls.Config) {
	c.names = names{resolve: c.o.Resolve}
	c.dialer = websocket.Dialer{
		Proxy:            c.o.Proxy,
		HandshakeTimeout: handshakeLimit,
		WriteBufferSize:  clientBuffer,
		WriteBufferPool:  &sync.Pool{},
		NetDialContext:   c.connect,
		TLSClientConfig:  &tls.Config{},
	}
	if c.dialer.Proxy == nil {
		c.dialer.Proxy = http.ProxyFromEnvironment
	}
	if trusted != nil {
		c.dialer.TLSClientConfig = trusted.Clone()
	}
	c.dialer.TLSClientConfig.NextProtos = nil // a websocket needs HTTP/1.1
}

// Run connects, serves the server's dials, and connects again whenever the
// connection ends, until the context does. Its error is the context's, a *StuckError, or
// says what about the options can never work. It returns after all that it started has ended.
func (c *Client) Run(ctx context.Context) error {
	u, err := url.Parse(c.o.URL)
	if err != nil || u.Scheme != "wss" || u.Host == "" {
		return fmt.Errorf("open tunnel to %q: the address has to be wss://host[:port]/path", c.o.URL)
	}
	c.url = u
	defer func() { c.set(Status{State: Stopped}) }()
	ctx, cancel := context.WithCancel(ctx)
	defer c.retired.Wait()
	defer cancel()
	out := outage{since: c.now()}
	for {
		c.set(Status{State: Connecting, Cause: c.Status().Cause})
		lasted, err := c.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if lasted > 0 {
			out = outage{since: c.now()}
		}
		if lasted >= stable {
			c.backoff.Reset()
		}
		if stuck := c.despair(ctx, &out, err); stuck != nil {
			return stuck
		}
		pause := max(c.backoff.After(err), c.o.Spared.Left(c.now()))
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

// Refresh looks the server's name up now, and moves to another address if the present one
// is no longer among the answer. It does not wait for that. Agents do it on SIGHUP.
func (c *Client) Refresh() {
	select {
	case c.refresh <- struct{}{}:
	default:
	}
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

// session is the time from one connection to the moment there is none; on the way it may
// move from one websocket to another. It says how long that was and why it ended.
func (c *Client) session(ctx context.Context) (lasted time.Duration, err error) {
	one, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	opened := c.now()
	c.set(Status{State: Connected})
	one = c.follow(ctx, one)
	lasted = max(c.now().Sub(opened), 1)
	// A proxy that takes the header out of the answer leaves both ends with different ideas of
	// the protocol. Without an offer there is but one.
	c.modest = !one.multiplexed && lasted < stable
	return lasted, fmt.Errorf("the tunnel ended: %w", one.err)
}

// open makes one attempt.
func (c *Client) open(ctx context.Context) (*link, error) {
	if err := c.o.Spared.Check(c.now()); err != nil {
		return nil, err
	}
	header := http.Header{}
	if c.o.Header != nil {
		header = c.o.Header()
	}
	if !c.o.original && !c.modest {
		with := http.Header{protocolHeader: {muxProtocol}}
		maps.Copy(with, header)
		header = with
	}
	ws, answer, err := c.dialer.DialContext(ctx, c.o.URL, header) //nolint:bodyclose // the library has read and closed it
	if c.o.Renewal != nil && trust.Outdated(err) {
		failed := c.renew(ctx)
		switch {
		case trust.Outdated(failed): // the same once more: the clock, or a certificate that has ended
			return nil, fmt.Errorf("connect: %w", err)
		case failed != nil:
			return nil, fmt.Errorf("connect: %w; no new CA is adopted: %w", err, failed)
		}
		ws, answer, err = c.dialer.DialContext(ctx, c.o.URL, header) //nolint:bodyclose // the library has read and closed it
	}
	if err != nil {
		return nil, c.handshakeError(err, answer)
	}
	one := c.serve(ctx, ws, answer.Header.Get(protocolHeader) == muxProtocol)
	c.log.Info("tunnel is open", "url", c.o.URL, "address", ws.RemoteAddr().String())
	return one, nil
}

func (c *Client) handshakeError(err error, answer *http.Response) error {
	if answer == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		if proxy, none := c.dialer.Proxy(c.request()); none == nil && proxy != nil {
			return fmt.Errorf("connect through the proxy %s: %w", proxy.Host, err)
		}
		return fmt.Errorf("connect: %w", err)
	}
	c.o.Spared.NoteAnswer(answer, c.now())
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 256)) // a part of the answer is better than none
	return &HandshakeError{Status: answer.StatusCode, Text: oneLine(string(text))}
}

// oneLine makes text from outside fit for a log line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !plans.Safe(r) }), " ")
}
