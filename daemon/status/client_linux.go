// Asking the agent of this host.

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

// maxStatus bounds the answer, in bytes.
const maxStatus = 8 << 20

// ErrNoAgent says that no agent runs on this host.
var ErrNoAgent = errors.New("no agent runs on this host")

// Client asks the agent at a socket.
type Client struct {
	socket string
	http   http.Client
}

// NewClient makes a client for the agent at the socket.
func NewClient(socket string) *Client {
	c := &Client{socket: socket}
	c.http.Transport = &http.Transport{
		DisableKeepAlives: true, ResponseHeaderTimeout: requestLimit,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
		},
	}
	return c
}

// Status asks how the agent stands. The error is ErrNoAgent when there is none.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var s Status
	body, err := c.get(ctx, "/v1/status")
	if err != nil {
		return s, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxStatus)).Decode(&s); err != nil {
		return s, fmt.Errorf("read the agent's status: %w", err)
	}
	return s, nil
}

// Output asks for output; query is that of GET /v1/output. The caller closes the answer. The error says that no agent answers, or what it has
// refused.
func (c *Client) Output(ctx context.Context, query string) (io.ReadCloser, error) {
	return c.get(ctx, "/v1/output?"+query)
}

func (c *Client) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	answer, err := c.http.Do(request)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) { // it ended before it took the connection; another may run by now
		answer, err = c.http.Do(request)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrNoAgent
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s is for root only; use sudo", c.socket)
	case err != nil:
		return nil, fmt.Errorf("ask the agent at %s: %w", c.socket, err)
	case answer.StatusCode != http.StatusOK:
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 512)) // what came is what there is to show
		return nil, fmt.Errorf("the agent answered %s: %s", answer.Status, text)
	}
	return answer.Body, nil
}
