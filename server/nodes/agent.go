// Asking drover's agent on a host, through its tunnel.

package nodes

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

// AskAgent sends GET path to the agent on a machine's host. The caller closes the answer,
// which may be a stream that ends with the context or with the tunnel. An error is that
// the agent cannot be reached.
func (m *Manager) AskAgent(ctx context.Context, subject, path string) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{
		// The tunnel's dial does not wait for the host; the header shows that it is there.
		DisableKeepAlives: true, ResponseHeaderTimeout: handshakeLimit,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return m.Tunnels.Dial(ctx, subject, "tcp", agentService)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://drover-agent"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent on %s: %w", subject, err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent on %s: %w", subject, withoutURL(err))
	}
	return answer, nil
}
