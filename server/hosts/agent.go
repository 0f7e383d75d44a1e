// Questions to drover's agent on a host, through its tunnel.

package hosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"

	"github.com/drover-project/drover/server/records"
)

// answerLimit bounds the time until the agent begins its answer.
const answerLimit = 10 * time.Second

// Ask sends GET path to the agent on a host. The caller closes the answer, which may be a
// stream that ends with the context or with the tunnel, and reads no more of it than it has
// room for. An error is that the agent cannot be reached, or answers with a redirect.
func (h *Hosts) Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error) {
	return h.AskFor(ctx, subject, path, nil)
}

// AskFor is Ask with fields of the request's header, such as Range.
func (h *Hosts) AskFor(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{
		// The tunnel's dial does not wait for the host; the header shows that it is there.
		DisableKeepAlives: true, ResponseHeaderTimeout: answerLimit, DisableCompression: true, MaxResponseHeaderBytes: answers.HeaderBytes,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return h.Dial(ctx, subject, tunnel.Target{Network: "tcp", Address: AgentService})
		},
	}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return &answers.RedirectError{From: fmt.Sprintf("the agent on %s", subject), Status: r.Response.StatusCode}
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://drover-agent"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent on %s: %w", subject, err)
	}
	maps.Copy(request.Header, header)
	answer, err := client.Do(request)
	if made, ok := errors.AsType[*url.Error](err); ok {
		err = made.Err // the URL is made up and means nothing to a reader
	}
	if err != nil {
		return nil, fmt.Errorf("ask the agent on %s: %w", subject, err)
	}
	return answer, nil
}
