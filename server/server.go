// Package server wires the management server: the store, the listener and the rooms
// behind it, in the order in which they need each other, and waits for all of them
// when it ends. What each of them does is in its own package.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/assets"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/kubeproxy"
	"github.com/drover-project/drover/server/metrics"
	"github.com/drover-project/drover/server/nodeagents"
	"github.com/drover-project/drover/server/nodes"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/presence"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/relay"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
	"github.com/drover-project/drover/tunnel"
)

// LocalURLFile is the name of the file below the data directory that tells commands on
// this host where the server listens.
const LocalURLFile = "local-url"

// AdminTokenFile is the name of the administrator's token below the data directory.
const AdminTokenFile = "admin-token"

// systemAgent is the kind of the tunnels of drover's agents.
const systemAgent = "system-agent"

// shutdownLimit is how long requests may take to end when the server stops. Watches do not
// end by themselves; they are cut.
const shutdownLimit = 3 * time.Second

// Options of a server.
type Options struct {
	// DataDir holds everything that the server keeps.
	DataDir string
	// Listen is host:port.
	Listen string
	// ServerURL is the address that hosts and people use; empty takes this host's.
	ServerURL string
	// TLSNames are further names and addresses that the server's own certificate is good for.
	TLSNames []string
	// CertFile, KeyFile and CAFile are a certificate of somebody else's making instead of the
	// server's own; CAFile is what agents pin, empty when a public authority signed it.
	CertFile, KeyFile, CAFile string
	// Store says where documents are kept; its DataDir is filled in.
	Store store.Options
	// AssetsDir holds the agents that hosts download; empty takes those inside the binary.
	AssetsDir string
	// PeerURL is where the other servers of the same etcd reach this one; empty takes this host's first address.
	PeerURL string
	// VersionData is a file with Kubernetes versions beyond the built-in ones.
	VersionData string
	// BootstrapPassword is the first administrator's; empty makes one and prints it once.
	BootstrapPassword string
	// Environ is os.Getenv.
	Environ func(string) string
	// Out gets what the person who starts the server has to see.
	Out    io.Writer
	Logger *slog.Logger
	Now    func() time.Time
}

// Server is a server about to run.
type Server struct {
	Options
	names names

	listener net.Listener
	tls      *tls.Config
	caPEM    []byte
	state    *state.State
	settings *settings.Settings
	auth     *auth.Auth
	plans    *planapi.API
	register *registration.Registration
	tunnels  *tunnel.Server
	agents   *nodeagents.Agents
	presence *presence.Presence
	relay    *relay.Relay
	nodes    *nodes.Manager
	control  *clusters.Controller
	apply    *clusters.Applier
	handler  http.Handler
}

// Run serves until ctx ends or something fails that the server cannot do without.
func Run(ctx context.Context, o Options) error {
	s := &Server{Options: o}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	// The store comes first: it takes the data directory for this process alone, before
	// anything else is read from it or written to it.
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.close()
	for _, step := range []func(context.Context) error{s.listen, s.certify, s.bootstrap, s.wire} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.serve(ctx)
}

func (s *Server) open(ctx context.Context) (err error) {
	o := s.Store
	o.DataDir, o.Logger = s.DataDir, s.Logger
	s.state, err = state.Open(ctx, o)
	return err
}

func (s *Server) close() {
	if s.listener != nil {
		// The HTTP server has closed it unless it never ran.
		_ = s.listener.Close()
	}
	if err := s.state.Close(); err != nil {
		s.Logger.Error("closing the store failed", "error", err)
	}
}

func (s *Server) listen(ctx context.Context) (err error) {
	var config net.ListenConfig
	s.listener, err = config.Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; if another program has the port (ss -ltnp shows it), stop it or choose another with --listen", s.Listen, err)
	}
	s.names, err = hostNames(s.listener.Addr(), s.TLSNames, s.ServerURL, s.PeerURL)
	return err
}

// certify gives the listener its certificate: a given one, or one of the server's own.
func (s *Server) certify(ctx context.Context) error {
	// HTTP/1.1 alone: an idle agent then costs a quarter of what HTTP/2's machinery holds for
	// it, and websockets work for every client. Big records keep a plan to a few writes.
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return fmt.Errorf("read the certificate given by --tls-cert and --tls-key: %w", err)
		}
		s.tls.Certificates = []tls.Certificate{pair}
		if s.CAFile == "" {
			return nil
		}
		if s.caPEM, err = os.ReadFile(s.CAFile); err != nil {
			return fmt.Errorf("read the authority given by --tls-ca: %w", err)
		}
		return nil
	}
	authority, err := s.authority(ctx)
	if err != nil {
		return err
	}
	s.caPEM = authority.PEM
	s.tls.GetCertificate, err = authority.Renewing(s.names.certificate())
	return err
}

func (s *Server) bootstrap(ctx context.Context) error {
	s.settings = settings.New(s.state, s.Environ, settings.Defaults{ServerURL: s.names.url(s.ServerURL), CACerts: string(s.caPEM), Version: drover.Version})
	if err := s.settings.Check(); err != nil {
		return err
	}
	s.auth = auth.New(s.state, s.Now, s.Logger)
	tokenFile := filepath.Join(s.DataDir, AdminTokenFile)
	generated, err := s.auth.Bootstrap(ctx, s.BootstrapPassword, tokenFile)
	if err != nil {
		return fmt.Errorf("make the first administrator: %w", err)
	}
	fmt.Fprintf(s.Out, "drover %s serves %s\n", drover.Version, s.settings.ServerURL())
	if generated != "" {
		fmt.Fprintf(s.Out, "first login: user admin, password %s (shown only now)\n", generated)
	}
	local := []byte(s.names.local() + "\n")
	if err := os.WriteFile(filepath.Join(s.DataDir, LocalURLFile), local, 0o644); err != nil {
		return fmt.Errorf("write the server's local address: %w", err)
	}
	fmt.Fprintf(s.Out, "on this host, drover's commands log in by %s\n", tokenFile)
	return nil
}

// wire makes the rooms behind the listener and connects them.
func (s *Server) wire(ctx context.Context) error {
	files, err := assets.Open(s.AssetsDir)
	if err != nil {
		return err
	}
	known, err := versions.Load(s.VersionData)
	if err != nil {
		return err
	}
	s.register = registration.New(registration.Options{State: s.state, Settings: s.settings, Assets: files, Now: s.Now, Logger: s.Logger})
	s.plans = planapi.New(planapi.Options{
		State: s.state, Machine: s.register.MachineByToken, Admin: s.isAdmin, Now: s.Now, Logger: s.Logger,
	})
	s.tunnels = tunnel.NewServer(tunnel.ServerOptions{
		Authorize: s.tunnelSubject, Allow: s.allowedTarget, Logger: s.Logger, Now: s.Now,
		Messages: s.Environ != nil && s.Environ("CATTLE_TUNNEL_DATA_DEBUG") == "true",
	})
	if err := s.join(ctx); err != nil {
		return err
	}
	s.nodes = nodes.New(nodes.Options{
		State: s.state, Tunnels: s.relay, Logger: s.Logger, Now: s.Now,
		Changed: func(key string) { s.control.Changed(key) },
	})
	s.agents = nodeagents.New(nodeagents.Options{
		State: s.state, Tokens: s.register, Tunnel: s.tunnelOf, Accept: s.tunnels, Now: s.Now, Logger: s.Logger,
	})
	identity, err := os.Hostname()
	if err != nil {
		identity = "drover"
	}
	s.control = clusters.New(clusters.Options{
		State: s.state, Versions: known, Identity: fmt.Sprintf("%s-%d", identity, os.Getpid()),
		InstallerImage: func() string { return s.settings.Get("system-agent-installer-image").Value },
		Watching:       s.plans.Watching, Tunnel: s.tunnelOf, API: s.nodes.API, Logger: s.Logger, Now: s.Now,
	})
	s.apply = &clusters.Applier{State: s.state, Now: s.Now}
	s.plans.OnPresence(s.presenceChanged)
	proxy := &kubeproxy.Proxy{State: s.state, Authenticate: s.auth.Authenticate, Transport: s.nodes.Transport, Logger: s.Logger}
	s.handler = s.routes(api.New(api.Options{
		State: s.state, Auth: s.auth, Settings: s.settings, Registration: s.register, Clusters: s.apply, Versions: known,
		KubeProxy: proxy, AskAgent: s.nodes.AskAgent, Dial: s.relay.Dial, Tunnels: s.openTunnels, Now: s.Now, Logger: s.Logger,
	}).Handler())
	return nil
}

// routes sends agents' requests to their rooms and all others to the management API, which
// routes on the escaped path by itself.
func (s *Server) routes(management http.Handler) http.Handler {
	mux := http.NewServeMux()
	s.register.Routes(mux)
	s.plans.Routes(mux)
	s.agents.Routes(mux)
	mux.Handle("/v3/connect/machine", s.tunnels)
	mux.Handle(relay.Path, s.relay)
	mux.HandleFunc("GET "+relay.SessionsPath, s.relay.ServeSessions)
	mux.Handle("GET /metrics", metrics.Handler(s.tunnels, s.isAdmin, s.Now))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		management.ServeHTTP(w, r)
	})
}

func (s *Server) isAdmin(r *http.Request) bool {
	who, err := s.auth.Authenticate(r)
	return err == nil && who.Admin && who.ClusterID == ""
}

// tunnelSubject is the machine that a tunnel belongs to, by the machine's own token, unless
// the room of the node agents has let it in.
func (s *Server) tunnelSubject(r *http.Request) (tunnel.Peer, error) {
	if peer, ok := nodeagents.Admitted(r); ok {
		return peer, nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return tunnel.Peer{}, errors.New("a tunnel needs the machine's token")
	}
	key, ok := s.register.MachineByToken(token)
	if !ok {
		return tunnel.Peer{}, errors.New("this machine's token is not valid; run the cluster's join command on the host again")
	}
	return tunnel.Peer{Subject: key, Kind: systemAgent}, nil
}

// allowedTarget is the server's half of what may be dialled on a host; the agent has its own.
func (s *Server) allowedTarget(peer tunnel.Peer, network, address string) error {
	if peer.Kind == nodeagents.Kind {
		d, ok := s.state.Machines.Get(records.MachineOfSubject(peer.Subject))
		if !ok {
			return fmt.Errorf("machine %s is not known any more", peer.Subject)
		}
		return nodeagents.Allowed(d.Value, network, address)
	}
	return systemTarget(network, address)
}

// systemTarget is what may be dialled on a host with a system agent.
func systemTarget(network, address string) error {
	switch network + " " + address {
	case "tcp 127.0.0.1:6443", "tcp drover-agent:80":
		return nil
	}
	return fmt.Errorf("%s %s is no target on a host", network, address)
}

// presenceChanged looks at a cluster again when one of its agents came or went.
func (s *Server) presenceChanged(secretKey string, _ bool) {
	if d, ok := s.state.PlanSecrets.Get(secretKey); ok {
		s.control.Changed(d.Value.Namespace + "/" + d.Value.Labels["rke.cattle.io/cluster-name"])
	}
}

// serve runs everything until ctx ends or one of them fails.
func (s *Server) serve(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer s.agents.Close()
	web := &http.Server{
		Handler: s.handler, TLSConfig: s.tls, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	web.Protocols = new(http.Protocols)
	web.Protocols.SetHTTP1(true)
	var group sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		group.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	run("run the cluster controller", s.control.Run)
	run("watch the clusters' nodes", s.nodes.Run)
	run("tell other servers who is connected", s.presence.Run)
	run("end machines' old tokens", s.register.Run)
	run("clean up tokens", s.purgeTokens)
	run("serve https", func(context.Context) error { return web.ServeTLS(s.listener, "", "") })
	run("keep the store", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.state.Store.Failed():
			return s.state.Store.Err()
		}
	})
	s.Logger.Info("serving", "address", s.listener.Addr().String(), "url", s.settings.ServerURL(), "version", drover.Version)
	notify(s.Logger, daemon.SdNotifyReady)
	<-ctx.Done()
	notify(s.Logger, daemon.SdNotifyStopping)
	// The web server does not know of the agents' watches, which took their connections over.
	s.plans.Close()
	limit, done := context.WithTimeout(context.WithoutCancel(parent), shutdownLimit)
	defer done()
	if err := web.Shutdown(limit); err != nil {
		// Watches and tunnels are still open, as they are meant to be.
		_ = web.Close()
	}
	s.tunnels.Close()
	group.Wait()
	if cause := context.Cause(ctx); parent.Err() == nil && cause != nil {
		return cause
	}
	return nil
}

// purgeTokens forgets tokens that ended a while ago; people still see them until then.
func (s *Server) purgeTokens(ctx context.Context) error {
	const every, keep = time.Hour, 7 * 24 * time.Hour
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := s.auth.Purge(ctx, keep); err != nil && ctx.Err() == nil {
			s.Logger.Warn("old tokens could not be removed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Debug("telling systemd failed", "error", err)
	}
}
