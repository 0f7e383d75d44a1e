// The node agent: its size, and its memory while its tunnel is open, its Docker answers
// and nothing happens. Its server and its Docker are small ones of this program.

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

func (b *bench) nodeAgent(ctx context.Context) error {
	if err := b.size(ctx, "node agent", "rancher-agent"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir, "node-")
	if err != nil {
		return err
	}
	docker, err := idleDocker(ctx, filepath.Join(dir, "docker.sock"))
	if err != nil {
		return err
	}
	defer docker.Close()
	tunnel.LogTo(slog.New(slog.DiscardHandler))
	tunnels := tunnel.NewServer(tunnel.ServerOptions{Authorize: func(*http.Request) (tunnel.Peer, error) {
		return tunnel.Peer{Subject: "node", Kind: "node-agent"}, nil
	}})
	defer tunnels.Close()
	server := httptest.NewTLSServer(nodeServer(tunnels))
	defer server.Close()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		return err
	}
	agent, err := process.Start(ctx, process.Options{
		Path: filepath.Join(b.module, "server/assets/bin/rancher-agent-"+runtime.GOARCH), LogFile: filepath.Join(dir, "agent.log"),
		Args: []string{"--server", server.URL, "--token", "bench", "--worker", "--node-name", "n1", "--address", "192.0.2.1"},
		Env: []string{"SSL_CERT_FILE=" + ca, "DROVER_AGENT_STATE_DIR=" + filepath.Join(dir, "state"), "DROVER_AGENT_DOCKER_SOCKET=" + filepath.Join(dir, "docker.sock"),
			"DROVER_AGENT_HEALTH_SOCKET=" + filepath.Join(dir, "health"), "LOG_SOCKET_LOCATION=" + filepath.Join(dir, "log")},
	})
	if err != nil {
		return err
	}
	return errors.Join(b.idleNodeAgent(ctx, agent, tunnels, filepath.Join(dir, "agent.log")), agent.Stop(context.WithoutCancel(ctx)))
}

func (b *bench) idleNodeAgent(ctx context.Context, agent *process.Process, tunnels *tunnel.Server, log string) error {
	err := until(ctx, 30*time.Second, "the node agent's tunnel", func() (bool, error) {
		select {
		case <-agent.Done():
			return false, fmt.Errorf("the node agent ended: %s", tail(log))
		default:
		}
		return len(tunnels.Sessions()) > 0, nil
	})
	if err != nil {
		return err
	}
	b.say("the node agent rests for 10 s")
	if err := rest(ctx, 10*time.Second); err != nil {
		return err
	}
	m, err := memoryOf(agent.PID())
	if err != nil {
		return err
	}
	b.table.measure("node agent: resident memory while idle, with tunnel and Docker", fmt.Sprintf("%s (of it anonymous %s)", inMiB(m.resident), inMiB(m.anonymous)),
		mib(m.resident), fmt.Sprintf("≤ %d MiB", maxResident), maxResident)
	return nil
}

// nodeServer is what a node agent asks of a server, with a node config that wants nothing.
func nodeServer(tunnels http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong") })
	mux.Handle(connect.Path, tunnels)
	mux.Handle(connect.RegisterPath, tunnels)
	mux.HandleFunc(connect.ConfigPath, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusterName":"bench"}`) })
	return mux
}

// idleDocker answers as a Docker engine does that has no containers.
func idleDocker(ctx context.Context, socket string) (*http.Server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			http.NewResponseController(w).Flush() // a client that cannot hear it has gone
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/info"):
			json.NewEncoder(w).Encode(map[string]any{"ServerVersion": "28.5.2", "OSType": "linux"})
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			io.WriteString(w, "[]")
		default:
			io.WriteString(w, "OK")
		}
	})}
	go s.Serve(l) // ends with Close
	return s, nil
}
