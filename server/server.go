// Package server wires the management server: the store, the listener and the rooms
// behind it, in the order in which they need each other, and waits for all of them
// when it ends. What each of them does is in its own package.
package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the zones of maintenance windows, on hosts that have none

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/guard"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// LocalURLFile is the name of the file below the data directory with the address by which
// commands on this host reach the server.
const LocalURLFile = "local-url"

// AdminTokenFile is the name of the administrator's token below the data directory.
const AdminTokenFile = "admin-token"

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
	// NewAuthority takes an authority other than the one that the store knows, a new one if
	// there is none: hosts that joined before do not trust it.
	NewAuthority bool
	// Store says where documents are kept; its DataDir is filled in.
	Store store.Options
	// AssetsDir holds the agents that hosts download; empty takes those inside the binary.
	AssetsDir string
	// PeerURL is where the other servers of the same etcd reach this one; empty takes this host's first address.
	PeerURL string
	// VersionData is a file or an http(s) URL with Kubernetes versions beyond the built-in ones.
	VersionData string
	// Backups are those that the server makes by itself; its Keys say whether keys are in them.
	Backups backup.Schedule
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
	outgoing outgoing.Outgoing
	auth     *auth.Auth
	parts    parts
}

// Run serves until ctx ends or something fails that the server cannot do without.
func Run(ctx context.Context, o Options) error {
	s := &Server{Options: o}
	s.outgoing.Allowed = func() string { return s.settings.Get(outgoing.Setting).Value } // asked when everything is wired
	if err := o.checkBackups(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	// The store comes first: it takes the data directory for this process alone, before
	// anything else is read from it or written to it.
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.close()
	for _, step := range []func(context.Context) error{s.learn, s.listen, s.certify, s.bootstrap, s.wire} {
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
	s.parts.audit.Close()
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
	s.outgoing.Listens = s.listener.Addr()
	s.names, err = hostNames(s.listener.Addr(), s.TLSNames, s.ServerURL, s.PeerURL)
	return err
}

// certify gives the listener its certificate: a given one, or one of the server's own.
func (s *Server) certify(ctx context.Context) error {
	// HTTP/1.1 alone: an idle agent then costs a quarter of what HTTP/2's machinery holds for
	// it, and websockets work for every client. Big records keep a plan to a few writes.
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: aeadSuites(), NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
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

// aeadSuites are the suites of TLS 1.2 that authenticate what they encrypt. Go's own choice has
// suites with CBC too, which scanners report. Those of TLS 1.3 are all of this kind.
func aeadSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

func (s *Server) bootstrap(ctx context.Context) error {
	s.settings = settings.New(s.state, s.Environ, settings.Defaults{ServerURL: s.names.url(s.ServerURL), CACerts: string(s.caPEM), Version: drover.Version})
	if err := s.settings.Check(); err != nil {
		return err
	}
	s.auth = auth.New(s.state, s.Now, s.Logger)
	s.auth.MaxTokens = quotas.New(s.state, s.settings).TokensPerPerson
	s.auth.Uses.Rest = func() time.Duration { return s.settings.Minutes("auth-user-session-idle-ttl-minutes") }
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
	if err := os.WriteFile(filepath.Join(s.DataDir, LocalURLFile), local, 0o644); err != nil { // #nosec G306 -- an address, for everybody on the host
		return fmt.Errorf("write the server's local address: %w", err)
	}
	fmt.Fprintf(s.Out, "on this host, drover's commands log in by %s\n", tokenFile)
	return nil
}

// serve runs everything until ctx ends or one of them fails.
func (s *Server) serve(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	p := &s.parts
	defer p.agents.Close()
	defer p.inClusters.Close()
	web, connections := s.web(ctx)
	var group sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		group.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	run("run the workers", p.workers.Run)
	run("watch the clusters' nodes", p.clusters.Run)
	run("publish to other servers which hosts are connected", p.hosts.Run)
	run("serve https", func(context.Context) error { return web.ServeTLS(connections.Listener(s.listener), "", "") })
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
	p.plans.Close()
	limit, done := context.WithTimeout(context.WithoutCancel(parent), shutdownLimit)
	defer done()
	if err := web.Shutdown(limit); err != nil {
		// Watches and tunnels are still open, as they are meant to be.
		_ = web.Close()
	}
	p.api.Close()
	p.hosts.Close()
	group.Wait()
	if cause := context.Cause(ctx); parent.Err() == nil && cause != nil {
		return cause
	}
	return nil
}

// web is the web server, and the guard of its connections. What ends nothing here is ended
// where it is written: watches and tunnels.
func (s *Server) web(ctx context.Context) (*http.Server, *guard.Guard) {
	web := &http.Server{
		Handler: s.parts.handler, TLSConfig: s.tls, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	web.Protocols = new(http.Protocols)
	web.Protocols.SetHTTP1(true)
	connections := guard.New(guard.Options{
		PerSource: func() int {
			n, err := strconv.Atoi(s.settings.Get("connections-per-source").Value)
			if err != nil {
				return 0
			}
			return n
		},
		Trusted: s.known,
		Logger:  s.Logger,
	})
	connections.Protect(web)
	return web, connections
}

// known says whether a request has credentials of any kind that are good now: a user's, a
// machine's, or a registration token. What they allow is for the handlers.
func (s *Server) known(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if _, machine := s.parts.register.MachineByToken(bearer); machine {
			return true
		}
		if s.parts.register.KnowsToken(bearer) {
			return true
		}
	}
	_, err := s.auth.Authenticate(r)
	return err == nil
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Debug("systemd could not be notified", "error", err)
	}
}
