// The protocol of tunnel/mux at both ends: how it is agreed on, and what the server and
// the client make of its connections.

package tunnel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/tunnel/mux"
	"github.com/drover-project/drover/tunnel/peer"
)

const (
	// protocolHeader is in a client's request, with the protocols that it speaks besides the
	// original, and in the server's answer, with the one that is spoken. Who does not know it
	// neither sends nor looks at it, and then the original is spoken.
	protocolHeader = "X-Drover-Tunnel-Protocol"
	// muxProtocol is the name of the protocol of package mux, and its version.
	muxProtocol = "mux1"
	// pingInterval is the original's, so that what watches tunnels sees the same.
	pingInterval = 5 * time.Second
	// upgradeLimit bounds the writing of the answer to a request.
	upgradeLimit = 5 * time.Second
	// lastLimit is how long a target may take for what came last, once all else has ended.
	lastLimit = time.Minute
	// muxChunk is how much of one Write is handed over at a time, in bytes.
	muxChunk = 64 << 10
)

func offersMux(h http.Header) bool {
	for _, value := range h.Values(protocolHeader) {
		for name := range strings.SplitSeq(value, ",") {
			if strings.TrimSpace(name) == muxProtocol {
				return true
			}
		}
	}
	return false
}

// multiplexed is the carrier of our own protocol, at the server.
type multiplexed struct {
	session *mux.Session
	socket  *socket // before session has anything to read
}

// newMultiplexed makes a session that begins with serve. The trace is called with what comes.
func newMultiplexed(one *session, buffers *mux.Buffers, trace func(string, uint64, int)) *multiplexed {
	m := &multiplexed{}
	m.session = mux.New(deferred{m}, mux.Options{
		Streams: 2 * one.limits.connections, // with those that are closing
		Buffers: buffers, Trace: trace, Now: one.now, End: m.end,
	})
	return m
}

// deferred is the connection below, which exists before anything is read or written.
type deferred struct{ m *multiplexed }

// Read is of io.Reader.
func (d deferred) Read(p []byte) (int, error) { return d.m.socket.Read(p) }

// Write is of io.Writer.
func (d deferred) Write(p []byte) (int, error) { return d.m.socket.Write(p) }

func (*multiplexed) protocol() string { return muxProtocol }

func (*multiplexed) chunk() int { return muxChunk }

func (m *multiplexed) paused() int { return m.session.Paused() }

func (m *multiplexed) serve(h hijacker, r *http.Request) {
	take := h.take
	h.take = func(c net.Conn) *socket {
		m.socket = take(c)
		peer.KeepUnsentShort(c)
		return m.socket
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: upgradeLimit,
		CheckOrigin:      func(*http.Request) bool { return true }, // as the original: no browser is involved
		Error:            func(w http.ResponseWriter, _ *http.Request, code int, err error) { http.Error(w, err.Error(), code) },
	}
	keeper := &readerKeeper{hijacker: h}
	if _, err := upgrader.Upgrade(keeper, r, http.Header{protocolHeader: {muxProtocol}}); err != nil {
		return // it was answered, or there is no client to answer any more
	}
	_ = m.session.Serve(r.Context(), keeper.in) // end has noted why
}

// readerKeeper keeps the reader of the HTTP server, which would stay in memory unused: a
// server pays for it with each idle host.
type readerKeeper struct {
	hijacker
	in *bufio.Reader
}

// Hijack is of http.Hijacker.
func (k *readerKeeper) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := k.hijacker.Hijack()
	if err == nil {
		k.in = rw.Reader
	}
	return c, rw, err
}

// end notes why the session is over, and says good-bye unless the peer did or cannot hear.
func (m *multiplexed) end(err error) {
	var wrong *mux.ViolationError
	var bye *mux.FarewellError
	switch {
	case errors.As(err, &bye) && bye.Text == "":
		m.socket.dismiss(websocket.CloseNormalClosure, "it closed the tunnel")
	case errors.As(err, &bye):
		m.socket.dismiss(websocket.CloseNormalClosure, "it said: "+oneLine(bye.Text))
	case errors.As(err, &wrong):
		m.socket.dismiss(websocket.ClosePolicyViolation, oneLine(wrong.Text))
	default:
		m.socket.end(m.socket.readReason(err)) // unless the socket has noted it already
	}
}

func (m *multiplexed) dial(_ context.Context, network, address string) (net.Conn, error) {
	st, err := m.session.Open(network + "/" + address)
	if err != nil {
		return nil, err
	}
	return stream{st}, nil
}

// stream is a connection of package mux as conn takes it, which keeps the deadlines itself.
type stream struct{ *mux.Stream }

// LocalAddr is of net.Conn.
func (stream) LocalAddr() net.Addr { return addr("server") }

// RemoteAddr is of net.Conn.
func (stream) RemoteAddr() net.Addr { return addr("host") }

// SetDeadline is of net.Conn; conn keeps the deadlines.
func (stream) SetDeadline(time.Time) error { return nil }

// SetReadDeadline is of net.Conn.
func (stream) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is of net.Conn.
func (stream) SetWriteDeadline(time.Time) error { return nil }

// judgeReset turns the host's reset into an error with a meaning.
func (c *conn) judgeReset(reset *mux.ResetError) error {
	switch reset.Code {
	case mux.Closed:
		return io.EOF
	case mux.Refused, mux.Unreachable:
		return &TargetRefusedError{Subject: c.session.peer.Subject, Network: c.network, Address: c.address, Text: oneLine(reset.Text)}
	default:
		return errors.New("the host ended the connection: " + oneLine(reset.Text))
	}
}

// serveMux is a client's end of our own protocol, until the websocket ends.
func (l *link) serveMux(ctx context.Context, c *Client, ended func(error)) {
	peer.KeepUnsentShort(l.ws.NetConn())
	session := mux.New(l.ws.NetConn(), mux.Options{
		Handle: l.targets.handle, Streams: 2 * maxTargets, Ping: pingInterval, Buffers: c.buffers, Now: c.now,
		End: func(err error) { ended(muxError(err)) },
	})
	_ = session.Serve(ctx, nil) // ended has the reason
}

// muxError says the server's good-bye as the websocket library would.
func muxError(err error) error {
	var bye *mux.FarewellError
	if errors.As(err, &bye) {
		return &websocket.CloseError{Code: bye.Code, Text: bye.Text}
	}
	return err
}

// handle is one connection that the server asked for.
func (t *targets) handle(ctx context.Context, st *mux.Stream, wanted string) {
	network, address, ok := strings.Cut(wanted, "/")
	if !ok {
		st.Reset(mux.Refused, "a target has to be network/address")
		return
	}
	dialing, cancel := context.WithTimeout(ctx, targetLimit)
	raw, err := t.connect(dialing, network, address)
	cancel()
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		st.Reset(mux.Refused, err.Error())
		return
	case err != nil:
		st.Reset(mux.Unreachable, err.Error())
		return
	}
	one := t.track(raw)
	defer one.Close()
	stop := context.AfterFunc(ctx, func() { one.Close() })
	defer stop()
	st.Opened()
	relay(st, one)
}

// relay copies both ways until both have ended, or one has failed. A target that cannot be
// whose other direction has ended is still read.
func relay(st *mux.Stream, one *target) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		_, err := st.ReadFrom(one.Conn)
		switch {
		case err == nil:
			st.CloseWrite() // an error says that it is over already
			st.Wait()
			// Only the target is left to wait for. Sockets go by the system's clock.
			_ = one.SetWriteDeadline(time.Now().Add(lastLimit))
		default:
			st.Reset(mux.Broken, err.Error())
		}
	}()
	if _, err := st.WriteTo(one.Conn); err != nil {
		st.Reset(mux.Broken, err.Error()) // nothing, when it was not the target that failed
		one.Close()
	}
	_ = endWrite(one.Conn) // when this fails, so does what is read of it
	<-up
	one.Close()
}
