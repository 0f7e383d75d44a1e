// One websocket of a client, from its opening to its end, and moving to another one.

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
)

// link is one open websocket. A goroutine serves it until it ends.
type link struct {
	ws          *websocket.Conn
	multiplexed bool
	address     netip.Addr // of the server; not valid when there is a proxy between
	targets     *targets
	done        chan struct{}
	err         error // why it ended; written before done is closed
}

// serve begins to serve the server's dials over a new websocket.
func (c *Client) serve(ctx context.Context, ws *websocket.Conn, multiplexed bool) *link {
	one := &link{
		ws: ws, multiplexed: multiplexed, address: c.direct(ws.RemoteAddr()),
		targets: newTargets(c.o.Dial), done: make(chan struct{}),
	}
	serving, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { one.close("the client is stopping") })
	go func() {
		defer close(one.done)
		defer cancel()
		carry := one.serveLibrary
		if one.multiplexed {
			carry = one.serveMux
		}
		carry(serving, c, func(err error) {
			one.err = explain(ws, err)
			stop()
			one.close(farewellOf(one.err))
			cancel()
		})
		one.targets.close()
	}()
	return one
}

// serveLibrary is a client's end of the original protocol, until the websocket ends.
func (l *link) serveLibrary(ctx context.Context, c *Client, ended func(error)) {
	l.ws.SetReadLimit(maxMessage)
	session := remotedialer.NewClientSessionWithDialer(acceptOnTheWire, l.ws, l.targets.dial)
	boundControls(l.ws, c.now)
	_, err := session.Serve(ctx)
	// The session is not closed, see target.abandon. Its pings end with ctx, and the
	// copies with their targets, which are closed next.
	ended(err)
}

// explain adds what the socket knows of the end of a websocket.
func explain(ws *websocket.Conn, err error) error {
	if encrypted, ok := ws.NetConn().(*tls.Conn); ok {
		if below, ok := encrypted.NetConn().(*socket); ok {
			if reason, _ := below.over(); reason != "" {
				return fmt.Errorf("the server: %s (%w)", reason, err)
			}
		}
	}
	return err
}

// acceptOnTheWire lets every request through to the local dialer, because a refusal
// here would end the session with all its connections.
func acceptOnTheWire(string, string) bool { return true }

// boundControls ends a websocket over which too many pings come: each is answered.
func boundControls(ws *websocket.Conn, now func() time.Time) {
	count := frames{now: now}
	for _, h := range []struct {
		get func() func(string) error
		set func(func(string) error)
	}{{ws.PingHandler, ws.SetPingHandler}, {ws.PongHandler, ws.SetPongHandler}} {
		handle := h.get()
		h.set(func(text string) error {
			if err := count.beginControl(uint64(len(text))); err != nil {
				return err
			}
			return handle(text)
		})
	}
}

// farewellOf is the reason that the server gets for an error; empty when it cannot receive one.
func farewellOf(err error) string {
	var network net.Error
	var closed *websocket.CloseError
	if errors.As(err, &network) || errors.As(err, &closed) || errors.Is(err, net.ErrClosed) {
		return ""
	}
	return "the client cannot go on: " + oneLine(err.Error())
}

// close ends the websocket, with words unless they are empty.
func (l *link) close(words string) {
	if words != "" {
		words = words[:min(len(words), maxCloseReason-2)]
		// What is being written may be stuck.
		overdue := time.AfterFunc(goodbyeLimit, func() { l.ws.Close() })
		defer overdue.Stop()
		// Good manners; a peer that does not hear it sees the connection close.
		_ = l.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, words), time.Now().Add(goodbyeLimit))
	}
	l.ws.Close() // a second close does no harm
}

// follow waits for the end of a link. When the server's name no longer leads to the
// address in use, it opens another link first and goes on with that one. It returns the
// link that ended last.
func (c *Client) follow(ctx context.Context, one *link) *link {
	tick := time.NewTicker(c.times.resolve)
	defer tick.Stop()
	misses := 0
	for {
		wanted := 2
		select {
		case <-one.done:
			return one
		case <-tick.C:
		case <-c.refresh:
			wanted = 1
		}
		if !one.address.IsValid() || ctx.Err() != nil {
			continue
		}
		if misses = c.names.missed(ctx, c.url.Hostname(), one.address, misses); misses < wanted {
			continue
		}
		c.log.Info("the server's name leads to another address now", "url", c.o.URL, "from", one.address.String())
		next, err := c.open(ctx)
		if err != nil {
			c.log.Warn("the tunnel stays where it is", "error", err)
			continue
		}
		old := one
		c.retired.Go(func() { c.retire(old) })
		one, misses = next, 0
	}
}

// retire ends a link that has a successor once it is not used, or after a while.
func (c *Client) retire(one *link) {
	tick := time.NewTicker(min(time.Second, c.times.retire))
	defer tick.Stop()
	limit := time.NewTimer(c.times.retire)
	defer limit.Stop()
	for one.targets.count() > 0 {
		select {
		case <-one.done:
			return
		case <-limit.C:
			one.close("the client has moved to another address of the server")
			<-one.done
			return
		case <-tick.C:
		}
	}
	one.close("the client has moved to another address of the server")
	<-one.done
}
