// Health for what looks after the agent: GET /livez (the process works) and GET
// /readyz (it does its work), both with the live status as JSON.

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"
)

const healthLimit = 5 * time.Second

// Health is the answer.
type Health struct {
	OK         bool        `json:"ok"`
	Conditions []Condition `json:"conditions"`
}

func (a *agent) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, Health{OK: true, Conditions: a.liveStatus.list()})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h := Health{Conditions: a.liveStatus.list()}
		well := 0
		for _, c := range h.Conditions {
			if a.needs[c.Name] && c.OK {
				well++
			}
		}
		h.OK = well == len(a.needs)
		answer(w, h)
	})
	return mux
}

func answer(w http.ResponseWriter, h Health) {
	w.Header().Set("Content-Type", "application/json")
	if !h.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(h) // a client that went away needs no answer
}

func (a *agent) serveHealth(ctx context.Context) error {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, one := range []struct{ network, address string }{{"unix", a.HealthSocket}, {"tcp", a.HealthAddress}} {
		if one.address == "" {
			continue
		}
		if err := vacate(one.network, one.address); err != nil {
			return err
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, one.network, one.address)
		if err != nil {
			return fmt.Errorf("listen for questions about health on %s: %w", one.address, err)
		}
		listeners = append(listeners, l)
	}
	server := &http.Server{Handler: a.health(), ReadTimeout: healthLimit, WriteTimeout: healthLimit, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- server.Serve(l) }()
	}
	err := <-ended
	server.Close()
	for range len(listeners) - 1 {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve health: %w", err)
}

// vacate removes the socket that a former life left.
func vacate(network, path string) error {
	if network != "unix" {
		return nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen for questions about health on %s: there is something that is not a socket", path)
	}
	return os.Remove(path)
}

// AskHealth is what the command asks: whether the agent on a socket lives, or is ready. The error says that no agent answers there, or not in this
// form.
func AskHealth(ctx context.Context, socket string, whetherReady bool) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	path := "/livez"
	if whetherReady {
		path = "/readyz"
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return Health{}, err
	}
	got, err := client.Do(q)
	if err != nil {
		return Health{}, fmt.Errorf("ask the agent on %s (does it run?): %w", socket, err)
	}
	defer got.Body.Close()
	var h Health
	if err := json.NewDecoder(http.MaxBytesReader(nil, got.Body, 1<<20)).Decode(&h); err != nil {
		return Health{}, fmt.Errorf("ask the agent on %s: %w", socket, err)
	}
	return h, nil
}
