// A request that becomes a connection.

package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/tunnel"
)

// dialProtocol is what the server upgrades the request to.
const dialProtocol = "drover-dial"

// DialPath is where the server connects to a target on a machine's host: docker, or
// address:port. machine is <namespace>/<name>.
func DialPath(machine, target string) string {
	return "/v1-drover/machines/" + machine + "/dial?target=" + url.QueryEscape(target)
}

// Dial is a connection to a target on a machine's host, through the server. It can be joined
// (see tunnel.Join) and half-closed. It ends with ctx.
func (c *Client) Dial(ctx context.Context, machine, target string) (io.ReadWriteCloser, error) {
	var below net.Conn // of the last attempt, which is the one that was answered
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { below = got.Conn }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.context.Server+DialPath(machine, target), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.context.Server, err)
	}
	request.Header.Set("Authorization", "Bearer "+c.context.Token)
	request.Header.Set("User-Agent", "drover")
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", dialProtocol)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(err)
	}
	if body, ok := answer.Body.(upgraded); ok && answer.StatusCode == http.StatusSwitchingProtocols {
		return dialled{upgraded: body, below: below}, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.context.Server, err)
	}
	return nil, c.refusal(answer.StatusCode, text)
}

// maxFrame bounds one frame of what somebody subscribes to, in bytes.
const maxFrame = 16 << 20

// Subscribe is a websocket at a path of the server. The caller closes it.
func (c *Client) Subscribe(ctx context.Context, path string) (*websocket.Conn, error) {
	dialer := websocket.Dialer{TLSClientConfig: c.tls.Clone(), Proxy: http.ProxyFromEnvironment, HandshakeTimeout: time.Minute}
	dialer.TLSClientConfig.NextProtos = []string{"http/1.1"} // HTTP/2 has no such upgrade
	header := http.Header{"Authorization": {"Bearer " + c.context.Token}, "User-Agent": {"drover"}}
	conn, answer, err := dialer.DialContext(ctx, "wss"+strings.TrimPrefix(c.context.Server, "https")+path, header) //nolint:bodyclose // the library has read and closed it
	switch {
	case err == nil:
		conn.SetReadLimit(maxFrame)
		return conn, nil
	case answer == nil:
		return nil, c.explain(err)
	}
	text, err := io.ReadAll(answer.Body) // which is cut to a kilobyte
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.context.Server, err)
	}
	return nil, c.refusal(answer.StatusCode, text)
}

// upgraded is the body of an answer that is a connection.
type upgraded interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// dialled is one whose end below TLS is seen, too.
type dialled struct {
	upgraded
	below net.Conn
}

// WaitGone is as of the connection below.
func (d dialled) WaitGone() bool { return tunnel.WaitGone(d.below) }
