// Package hostservice is what a host offers to its server through the tunnel: a short
// table of targets, and a small HTTP service inside the agent. Everything else is
// refused here, on the host, even when the server asks for it.
package hostservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-project/drover/tunnel"
)

// Address is the in-process service, as the server dials it.
const Address = "drover-agent:80"

const (
	// maxKubeconfig bounds the file that is handed out, in bytes.
	maxKubeconfig = 1 << 20
	// requestLimit bounds a request and its answer, idleLimit the time between two.
	requestLimit = 15 * time.Second
	idleLimit    = time.Minute
)

// targets are the only addresses of the host that may be dialled, all by tcp.
var targets = map[string]string{
	"127.0.0.1:6443": "the Kubernetes API",
	"[::1]:6443":     "the Kubernetes API",
	"localhost:6443": "the Kubernetes API",
	"127.0.0.1:9345": "the RKE2 supervisor",
}

// runtimes are the distributions whose kubeconfig can be asked for.
var runtimes = map[string]string{
	"k3s":  "/etc/rancher/k3s/k3s.yaml",
	"rke2": "/etc/rancher/rke2/rke2.yaml",
}

// Options are what a Service is made of.
type Options struct {
	// Root is put before every path on the host; empty is the host itself.
	Root string
	// Owner is the user id that files have to belong to before they are handed out; 0 is root.
	Owner int
	// Status answers GET /v1/status and GET /v1/output; nil answers 404.
	Status http.Handler
	Logger *slog.Logger // default slog.Default()
}

// Service serves the server through the tunnel.
type Service struct {
	o         Options
	inProcess *Pipe
	reading   chan struct{} // one entry for each log that is read
	sending   chan struct{} // one entry for each snapshot that is sent
}

// New makes a service; Run serves.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Service{o: o, inProcess: NewPipe(Address), reading: make(chan struct{}, maxLogs), sending: make(chan struct{}, maxSnapshots)}
}

// Dial is the policy of the tunnel: it opens the few targets that the server needs. Any other target gets a *tunnel.RefusedError.
func (s *Service) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "tcp" && address == Address {
		return s.inProcess.Dial(ctx)
	}
	if network != "tcp" || targets[address] == "" {
		s.o.Logger.Warn("tunnel target is refused", "network", network, "address", address)
		return nil, &tunnel.RefusedError{Network: network, Address: address, Reason: "this host does not offer it"}
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// Run serves the in-process service until the context ends. It can be called once. It returns the context's error then, and the listener's where that
// fails before.
func (s *Service) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadTimeout: requestLimit, WriteTimeout: requestLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(s.inProcess)
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve the in-process service: %w", err)
}

func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/kubeconfig", s.kubeconfig)
	mux.HandleFunc("GET /v1/certificates", s.certificates)
	mux.HandleFunc("GET /v1/logs", s.logs)
	mux.HandleFunc("GET /v1/snapshot", s.snapshot)
	if s.o.Status != nil {
		mux.Handle("GET /v1/status", s.o.Status)
		mux.Handle("GET /v1/output", s.o.Status)
	}
	return mux
}

// kubeconfig hands out the administrator's kubeconfig of the distribution on this host.
func (s *Service) kubeconfig(w http.ResponseWriter, r *http.Request) {
	runtime := r.URL.Query().Get("runtime")
	path, ok := runtimes[runtime]
	if !ok {
		http.Error(w, "runtime has to be k3s or rke2", http.StatusBadRequest)
		return
	}
	b, err := s.read(path)
	if err != nil {
		code := http.StatusNotFound
		if !errors.Is(err, fs.ErrNotExist) {
			code = http.StatusForbidden
			s.o.Logger.Warn("kubeconfig is not handed out", "error", err)
		}
		http.Error(w, err.Error(), code)
		return
	}
	s.o.Logger.Info("kubeconfig is handed out to the server", "path", path)
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(b)
}

// read returns a small file that only root can have made.
func (s *Service) read(path string) ([]byte, error) {
	f, _, err := s.open(path, maxKubeconfig)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKubeconfig))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read", path)
	}
	return b, nil
}

// open opens a file of at most limit bytes that only root can have made. That there is none is fs.ErrNotExist.
func (s *Service) open(path string, limit int64) (f *os.File, info fs.FileInfo, err error) {
	f, err = os.OpenFile(filepath.Join(s.o.Root, path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%s is not there yet: %w", path, fs.ErrNotExist)
	case errors.Is(err, syscall.ELOOP):
		return nil, nil, fmt.Errorf("%s is a symbolic link", path)
	case err != nil:
		return nil, nil, fmt.Errorf("%s cannot be opened", path)
	}
	info, err = s.trusted(f, path, limit)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// trusted says what is wrong with an open file.
func (s *Service) trusted(f *os.File, path string, limit int64) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be looked at", path)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case !ok || int(owner.Uid) != s.o.Owner:
		return nil, fmt.Errorf("%s does not belong to root", path)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s has mode %04o, so others can write it", path, info.Mode().Perm())
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return info, nil
}
