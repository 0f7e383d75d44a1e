// What the agent on a host reports this moment, through the host's tunnel: how it stands, and
// the output of instructions while they run. The server keeps none of it.

package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

const (
	// liveChunk is how much is handed on at once, in bytes.
	liveChunk = 16 << 10
	// liveWrite is how long a reader may take to accept that. Readers that are gone end by it,
	// for an idle agent sends an empty line now and then.
	liveWrite = 30 * time.Second
)

// liveParameters are handed on to the agent, which checks them.
var liveParameters = []string{"source", "id", "instruction", "attempt", "offset", "only", "follow", "periodic", "unit", "container", "pod", "tail"}

// liveTypes are the content types of what an agent is asked for. The server says them: what a host says of its own answer
// could have a browser run it, in the session of the user who looks.
var liveTypes = map[string]string{
	"status": "application/json", "containers": "application/json", "output": "application/x-ndjson", "logs": "text/plain; charset=utf-8",
}

// Ask is GET /v1-drover/machines/{namespace}/{name}/output, …/status and …/logs. Who may see
// a machine's plan may see what it prints.
func (a Machines) Ask(what string) route.Handler {
	return func(c *route.Call) (route.Answer, error) { return a.ask(c, what) }
}

func (a Machines) ask(c *route.Call, what string) (route.Answer, error) {
	d, err := a.Find(c)
	if err != nil {
		return route.Answer{}, err
	}
	if a.AskAgent == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server has no way to the hosts")
	}
	query := url.Values{}
	for _, name := range liveParameters {
		if value := c.Query().Get(name); value != "" {
			query.Set(name, value)
		}
	}
	if what == "logs" { // which may hold anything; the others are drover's own words
		a.Logger.Info("log of a host read", "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source(), "machine", d.Key,
			"unit", query.Get("unit"), "container", query.Get("container"), "pod", query.Get("pod"))
	}
	defer c.Bind(aboutMachine(d.Value))()
	answer, err := a.AskAgent(c.Ctx(), d.Value.Subject(), "/v1/"+what+"?"+query.Encode())
	if err != nil {
		return route.Answer{}, unreachable(d.Value, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return route.Answer{}, agentRefusal(d.Value, answer)
	}
	h := c.W.Header()
	h.Set("Content-Type", liveTypes[what])
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	norman.Uncached(h)
	c.W.WriteHeader(http.StatusOK)
	forward(c, answer.Body, what == "output")
	return route.Answer{}, nil
}

func unreachable(m records.Machine, err error) error {
	hint := "; it is tried again by asking again"
	if _, none := errors.AsType[*tunnel.NoSessionError](err); none && m.Docker != nil {
		hint = "; on " + m.NodeName + ", docker ps shows whether the container of the agent runs, docker logs what it waits for"
	} else if none {
		hint = "; drover's own agent opens a tunnel when it runs, the original agent has none"
	}
	answer := norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "%v%s", err, hint)
	answer.RetryAfter = 2 * time.Second
	return answer
}

func agentRefusal(m records.Machine, answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, 512))
	switch {
	case err != nil:
		return unreachable(m, err)
	case answer.StatusCode == http.StatusBadRequest:
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "%s", text)
	case answer.StatusCode == http.StatusNotFound && !strings.HasPrefix(string(text), "404 page not found"):
		return norman.Errorf(http.StatusNotFound, norman.NotFound, "%s", text)
	case answer.StatusCode == http.StatusNotFound:
		return norman.Errorf(http.StatusNotFound, norman.NotFound, "the agent on %s is too old for this; update it", m.Key())
	}
	return norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "the agent on %s answered %s: %s", m.Key(), answer.Status, text)
}

// forward copies bit by bit. That the way to the host was lost is said in a stream's own
// words, since the status is out already; any other body is cut.
func forward(c *route.Call, body io.Reader, stream bool) {
	control := http.NewResponseController(c.W)
	buffer := make([]byte, liveChunk)
	for whole := true; ; {
		_ = control.SetWriteDeadline(time.Now().Add(liveWrite)) // a connection without deadlines ends by itself
		if control.Flush() != nil {
			return
		}
		n, err := body.Read(buffer)
		if n > 0 {
			whole = buffer[n-1] == '\n' // #nosec G602 -- n is at least 1
			if _, err := c.W.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if stream && err != io.EOF && c.Ctx().Err() == nil {
				reportLoss(c, err, whole)
			}
			return
		}
	}
}

// reportLoss ends a stream of lines.
func reportLoss(c *route.Call, cause error, whole bool) {
	line, err := json.Marshal(map[string]string{"kind": "lost", "text": fmt.Sprintf("the way to the host was lost: %v", cause)})
	if err != nil {
		return
	}
	if !whole {
		line = append([]byte{'\n'}, line...)
	}
	_, _ = c.W.Write(append(line, '\n')) // the reader may be gone too
}
