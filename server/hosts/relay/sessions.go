// Listing: which tunnels end at which server.

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

// SessionsPath is where a server lists its tunnels for the others.
const SessionsPath = "/v1-drover/relay/sessions"

const (
	// listLimit bounds another server's answer in time, maxList in bytes.
	listLimit = 5 * time.Second
	maxList   = 32 << 20
)

// Held are the tunnels of one server.
type Held struct {
	// Server is its URL.
	Server   string
	Sessions []tunnel.SessionInfo
	// Fault is why they are not known.
	Fault string
}

// Sessions are the open tunnels of this server and of the others, each of which has a few
// seconds to answer.
func (r *Relay) Sessions(ctx context.Context, own records.Replica, others []records.Replica) []Held {
	all := make([]Held, 1+len(others))
	all[0] = Held{Server: own.URL, Sessions: r.Local.Sessions()}
	var asked sync.WaitGroup
	for i, other := range others {
		asked.Go(func() {
			h := Held{Server: other.URL}
			var err error
			if h.Sessions, err = r.sessionsOf(ctx, other); err != nil {
				h.Fault = err.Error()
			}
			all[1+i] = h
		})
	}
	asked.Wait()
	return all
}

func (r *Relay) sessionsOf(ctx context.Context, other records.Replica) ([]tunnel.SessionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	u, err := addressOf(other)
	if err != nil {
		return nil, fmt.Errorf("ask for its tunnels: %w", err)
	}
	u.Path = SessionsPath
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask server %s for its tunnels: %w", other.URL, err)
	}
	request.Header.Set("Authorization", "Bearer "+r.Secret)
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: r.TLS, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the secret goes to servers alone
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask server %s for its tunnels: %w", other.URL, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask server %s for its tunnels: it answered %s", other.URL, answer.Status)
	}
	var list []tunnel.SessionInfo
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxList)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the tunnels of server %s: %w", other.URL, err)
	}
	return list, nil
}

// ServeSessions lists this server's tunnels for another server.
func (r *Relay) ServeSessions(w http.ResponseWriter, request *http.Request) {
	if !r.trusted(w, request) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r.Local.Sessions()) // nobody is left to answer when this fails
}
