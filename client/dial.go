// A request that becomes a connection.

package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// dialProtocol is what the server upgrades the request to.
const dialProtocol = "drover-dial"

// DialPath is where the server connects to a target on a machine's host: docker, or
// address:port. machine is <namespace>/<name>.
func DialPath(machine, target string) string {
	return "/v1-drover/machines/" + machine + "/dial?target=" + url.QueryEscape(target)
}

// Dial is a connection to a target on a machine's host, through the server. It has CloseWrite, as a TCP connection has, and ends with ctx.
// A target that the host does not allow, and a host that is away, are an *Error.
func (c *Client) Dial(ctx context.Context, machine, target string) (io.ReadWriteCloser, error) {
	var below net.Conn // of the last attempt, which is the one that was answered
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { below = got.Conn }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.Server+DialPath(machine, target), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.config.Server, err)
	}
	c.sign(request.Header)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", dialProtocol)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.failure(err)
	}
	if body, ok := answer.Body.(upgraded); ok && answer.StatusCode == http.StatusSwitchingProtocols {
		return dialled{upgraded: body, below: below}, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.config.Server, err)
	}
	return nil, c.refusal(answer, text)
}

// maxFrame bounds one frame of a subscription, in bytes.
const maxFrame = 16 << 20

// Subscribe is a websocket at a path of the server, such as /v3/subscribe. The caller closes it. Its errors are those of Get.
func (c *Client) Subscribe(ctx context.Context, path string) (*websocket.Conn, error) {
	dialer := websocket.Dialer{TLSClientConfig: c.tls.Clone(), Proxy: http.ProxyFromEnvironment, HandshakeTimeout: time.Minute}
	dialer.TLSClientConfig.NextProtos = []string{"http/1.1"} // HTTP/2 has no such upgrade
	header := http.Header{}
	c.sign(header)
	conn, answer, err := dialer.DialContext(ctx, "wss"+strings.TrimPrefix(c.config.Server, "https")+path, header) //nolint:bodyclose // the library has read and closed it
	switch {
	case err == nil:
		conn.SetReadLimit(maxFrame)
		return conn, nil
	case answer == nil:
		return nil, c.failure(err)
	}
	text, err := io.ReadAll(answer.Body) // which is cut to a kilobyte
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.config.Server, err)
	}
	return nil, c.refusal(answer, text)
}

// upgraded is the body of an answer that is a connection.
type upgraded interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// dialled is a connection whose end below TLS is seen, too.
type dialled struct {
	upgraded
	below net.Conn
}

// WaitGone waits, after the end of what comes from the connection, until the server takes nothing any more either, or the connection is
// closed here. It says false at once where that cannot be known.
func (d dialled) WaitGone() bool {
	secured, ok := d.below.(*tls.Conn)
	if !ok {
		return false
	}
	_, _ = secured.NetConn().Read(make([]byte, 1)) // behind the last word of TLS comes only the end of the connection below
	return true
}
