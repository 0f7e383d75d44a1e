// How requests are sent, and when again.

package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	// firstPause is left before a request is made a second time; each further one takes twice as long, up to longestPause.
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// sender sends requests.
type sender struct {
	config Config
	http   *http.Client
}

// send sends a request.
func (c *sender) send(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return c.do(request, body)
}

// patience is how long a request that has one answer may take with its repetitions.
func (c *sender) patience() time.Duration { return time.Minute + c.config.Retry }

// sign says who asks.
func (c *sender) sign(h http.Header) {
	if c.config.Token != "" {
		h.Set("Authorization", "Bearer "+c.config.Token)
	}
	h.Set("User-Agent", c.config.Agent)
}

// request is a request with the name and the token of the caller.
func (c *sender) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.config.Server+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.config.Server, err)
	}
	c.sign(request.Header)
	request.Header.Set("Accept", "application/json")
	return request, nil
}

// accepted is an answer of one of the statuses; another one is closed and an error.
func (c *sender) accepted(response *http.Response, statuses ...int) (*http.Response, error) {
	if slices.Contains(statuses, response.StatusCode) {
		return response, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.config.Server, err)
	}
	return nil, c.refusal(response, answer)
}

// do sends a request with a body, and again as far as the configuration and the answers allow. The caller closes the answer.
func (c *sender) do(request *http.Request, body []byte) (*http.Response, error) {
	until := time.Now().Add(c.config.Retry)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		response, err := c.http.Do(request)
		wait, over := pause, false
		if err != nil {
			over = !canRetry(request, err)
			err = c.failure(err)
		} else {
			wait, over = max(pause, retryAfter(response)), !busy(request, response)
		}
		if over || time.Now().Add(wait).After(until) {
			return response, err
		}
		if response != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
			_ = response.Body.Close()
		}
		select {
		case <-request.Context().Done():
			return nil, c.failure(request.Context().Err())
		case <-time.After(wait):
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// canRetry says that a request which got no answer can be made a second time: it changes nothing, or the server was not there to take it.
func canRetry(request *http.Request, err error) bool {
	if request.Context().Err() != nil || trustFailed(err) {
		return false
	}
	if _, redirected := errors.AsType[*RedirectError](err); redirected {
		return false
	}
	return request.Method == http.MethodGet || errors.Is(err, syscall.ECONNREFUSED)
}

// busy is an answer by which nothing was done, and which says that it will be another time.
func busy(request *http.Request, response *http.Response) bool {
	return response.StatusCode == http.StatusTooManyRequests || request.Method == http.MethodGet && response.StatusCode == http.StatusServiceUnavailable
}

// retryAfter is how long an answer asks that the server is left alone; zero where it does not say it in seconds.
func retryAfter(response *http.Response) time.Duration {
	n, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
