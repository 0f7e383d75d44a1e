// What servers ask of each other: which tunnels end at which server, and what its workers do.

package hosts

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

// sessionsPath is where a server lists its tunnels for the others, and WorkersPath its workers.
const (
	sessionsPath = "/v1-drover/relay/sessions"
	workersPath  = "/v1-drover/relay/workers"
)

const (
	// listLimit bounds another server's answer in time, maxList in bytes.
	listLimit = 5 * time.Second
	maxList   = 32 << 20
)

// Said is what one server says of itself.
type Said[T any] struct {
	// Server is its URL.
	Server string
	Value  T
	// Fault is why it did not say it.
	Fault string
}

// HeldTunnels are the tunnels of one server.
type HeldTunnels = Said[[]tunnel.SessionInfo]

// askServers is what this server says and what the others say at a path, each of which has a few seconds to answer.
func askServers[T any](ctx context.Context, r *Relay, path string, own Said[T], others []records.Replica) []Said[T] {
	all := make([]Said[T], 1+len(others))
	all[0] = own
	var asked sync.WaitGroup
	for i, other := range others {
		asked.Go(func() {
			said := Said[T]{Server: other.URL}
			if err := r.get(ctx, other, path, &said.Value); err != nil {
				said.Fault = err.Error()
			}
			all[1+i] = said
		})
	}
	asked.Wait()
	return all
}

func (r *Relay) get(ctx context.Context, other records.Replica, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	u, err := addressOf(other)
	if err != nil {
		return fmt.Errorf("ask another server: %w", err)
	}
	u.Path = path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("ask server %s: %w", other.URL, err)
	}
	request.Header.Set("Authorization", "Bearer "+r.Secret)
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: r.TLS, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the secret goes to servers alone
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask server %s: %w", other.URL, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask server %s: it answered %s", other.URL, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxList)).Decode(into); err != nil {
		return fmt.Errorf("read the answer of server %s: %w", other.URL, err)
	}
	return nil
}

// Serve answers other servers with what this one says of itself.
func (r *Relay) Serve(own func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		if !r.trusted(w, request) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(own()) // the other server does not wait any more when this fails
	}
}
