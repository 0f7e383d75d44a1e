// A request that becomes a connection.

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// dialProtocol is what the server upgrades the request to.
const dialProtocol = "drover-dial"

// DialPath is where the server connects to a target on a machine's host: docker, or
// address:port. machine is <namespace>/<name>.
func DialPath(machine, target string) string {
	return "/v1-drover/machines/" + machine + "/dial?target=" + url.QueryEscape(target)
}

// Dial is a connection to a target on a machine's host, through the server. It has no
// half-close. It ends with ctx.
func (c *Client) Dial(ctx context.Context, machine, target string) (io.ReadWriteCloser, error) {
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
	if conn, ok := answer.Body.(io.ReadWriteCloser); ok && answer.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.context.Server, err)
	}
	return nil, refusal(answer.StatusCode, text)
}
