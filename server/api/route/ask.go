// What pages ask of the API: a form of a page is a request of the API, which the server makes for the user who sent the form.
// It goes through the table like any other, so that rights, checks, sentences and the audit log are those of all clients.

package route

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
)

// maxReply bounds what is kept of an answer, in bytes. Documents and previews of large clusters are some hundred KiB.
const maxReply = 16 << 20

// Asked is a request of the API without who makes it.
type Asked struct {
	Method string
	// Target is the path with its query.
	Target string
	// Type is the content type of Body; empty is JSON.
	Type string
	Body []byte
}

// Reply is the answer of the API to a request that a page made.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Refused is what the API has against the request; nil when it was done.
func (r Reply) Refused() *norman.Error {
	if r.Status < http.StatusBadRequest {
		return nil
	}
	e := &norman.Error{Status: r.Status, Code: norman.ServerError, Message: strings.TrimSpace(string(r.Body))}
	var said struct {
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Field   string          `json:"fieldName"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(r.Body, &said) == nil && said.Message != "" {
		e.Code, e.Message, e.Field = said.Code, said.Message, said.Field
		if said.Errors != nil {
			e.Details = map[string]any{"errors": said.Errors}
		}
	}
	return e
}

// Decode reads the answer, or returns what the API has against the request. An answer that cannot be read is an error, too.
func (r Reply) Decode(to any) error {
	if e := r.Refused(); e != nil {
		return e
	}
	if to == nil || len(r.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Body, to); err != nil {
		return fmt.Errorf("read the answer of the API: %w", err)
	}
	return nil
}

// Ask has the API answer a request of the user of the page. In the audit log the page's own request stands for nothing then: the API's is there. The
// error is that of the context; what the API refuses is in the Reply.
func (c *Call) Ask(asked Asked) (Reply, error) { return c.ask(c.Ctx(), asked) }

// AskWithin is Ask that gives up after a time: what the host of a machine is asked for may take long. It may be called beside everything else that
// goes on in the call. The errors are those of Ask.
func (c *Call) AskWithin(limit time.Duration, asked Asked) (Reply, error) {
	ctx, cancel := context.WithTimeout(c.Ctx(), limit)
	defer cancel()
	return c.ask(ctx, asked)
}

func (c *Call) ask(ctx context.Context, asked Asked) (Reply, error) {
	target, err := url.Parse(asked.Target)
	if err != nil {
		return Reply{}, fmt.Errorf("ask the API: %w", err)
	}
	if c.trail != nil && !isRead(c.Method) {
		c.trail.handedOn = true
	}
	r := c.R.Clone(ctx)
	r.Method, r.URL, r.RequestURI = asked.Method, target, asked.Target
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(asked.Body)), int64(len(asked.Body))
	r.Header = http.Header{"Accept": {"application/json"}}
	for _, name := range []string{"Cookie", "Authorization", "User-Agent", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port"} {
		if given := c.R.Header.Values(name); len(given) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = given
		}
	}
	auth.AddProof(r)
	if len(asked.Body) > 0 {
		r.Header.Set("Content-Type", "application/json")
		if asked.Type != "" {
			r.Header.Set("Content-Type", asked.Type)
		}
	}
	kept := &keeper{reply: Reply{Status: http.StatusOK, Header: http.Header{}}}
	c.env.table.ServeHTTP(kept, r)
	if kept.over {
		return Reply{}, norman.Errorf(http.StatusBadGateway, norman.ServerError, "the answer of the API is larger than the %d MiB that a page shows", maxReply>>20)
	}
	return kept.reply, nil
}

// keeper keeps an answer.
type keeper struct {
	reply Reply
	begun bool
	over  bool
}

func (k *keeper) Header() http.Header { return k.reply.Header }

func (k *keeper) WriteHeader(status int) {
	if !k.begun && status >= http.StatusOK {
		k.reply.Status, k.begun = status, true
	}
}

// Flush does nothing: all of it is kept.
func (k *keeper) Flush() {}

func (k *keeper) Write(p []byte) (int, error) {
	k.begun = true
	if len(k.reply.Body)+len(p) > maxReply {
		k.over = true
		return 0, io.ErrShortWrite
	}
	k.reply.Body = append(k.reply.Body, p...)
	return len(p), nil
}
