// Asking what runs on a host whether it works, from the host itself.

package onhost

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/tunnel/answers"
)

// askLimit bounds one question, maxAnswer its answer in bytes.
const (
	askLimit  = 5 * time.Second
	maxAnswer = 4 << 10
)

// Check is a URL that answers 200 when something works.
type Check struct {
	URL string
	// TLS is for https; nil leaves the server's certificate unverified, as that of a component
	// that made its own cannot be.
	TLS *tls.Config
	// Container is whose output says more when it does not work.
	Container string
	// Tries is how often it is asked, Pause how long apart.
	Tries int
	Pause time.Duration
}

// UnhealthyError is that something did not come to work.
type UnhealthyError struct {
	Host, Container, URL string
	// Last is what the last question got.
	Last error
	// Output are the container's last lines.
	Output []string
}

func (e *UnhealthyError) Error() string {
	text := fmt.Sprintf("%s on host %s does not work: %s: %v", e.Container, e.Host, e.URL, e.Last)
	if len(e.Output) > 0 {
		text += "; its last lines:\n  " + strings.Join(e.Output, "\n  ")
	}
	return text
}

func (e *UnhealthyError) Unwrap() error { return e.Last }

// Await asks until the answer is good; each is called for every answer that is not. The error is
// *UnhealthyError when the tries are over.
func (h *Host) Await(ctx context.Context, c Check, each func(attempt int, err error)) error {
	client := h.http(c.TLS)
	defer client.CloseIdleConnections()
	for attempt := 1; ; attempt++ {
		err := ask(ctx, client, c.URL)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("ask %s on host %s: %w", c.URL, h.Address, context.Cause(ctx))
		}
		each(attempt, err)
		if attempt >= c.Tries {
			return h.unhealthy(ctx, c, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.Pause):
		}
	}
}

func (h *Host) unhealthy(ctx context.Context, c Check, last error) error {
	e := &UnhealthyError{Host: h.Address, Container: c.Container, URL: c.URL, Last: last}
	// Without the lines the sentence is still true.
	e.Output, _ = h.Logs(ctx, c.Container, outputLines)
	return e
}

// HTTP is a client whose connections begin on the host. Close its idle connections.
func (h *Host) http(t *tls.Config) *http.Client {
	if t == nil {
		t = &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- a question about health, without a secret
	}
	return &http.Client{
		Timeout: askLimit,
		Transport: &http.Transport{
			DialContext: h.DialTCP, TLSClientConfig: t, ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: answers.HeaderBytes,
		},
		// A redirect is an answer that is not good.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// OpenTCP opens a connection from the host that has not been refused.
func (h *Host) OpenTCP(ctx context.Context, address string) (net.Conn, error) {
	return dial.Open(ctx, h.dial, "tcp", address)
}

// DialTCP opens a connection from the host. That no process listens there may be heard when it is read from. The error is an *UnreachableError where
// there is no way to the host.
func (h *Host) DialTCP(ctx context.Context, _, address string) (net.Conn, error) {
	return h.dial(ctx, "tcp", address)
}

func ask(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s: %.300q", answer.Status, failing(string(text)))
	}
	return nil
}

// failing are the checks that fail in the answer of one of Kubernetes' components, which lists all; any other answer is itself.
func failing(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "[-]") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) == 0 {
		return text
	}
	return strings.Join(lines, ", ")
}
