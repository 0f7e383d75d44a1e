package node

// What goes wrong on real hosts and networks, with our own server at the other end: the
// agent lives, both ends say in words what happened, and all is well once it is over.

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/skips"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// withOurs makes the server's end of tunnels ours and returns its log.
func (m *management) withOurs(t *testing.T) *logged {
	t.Helper()
	log := &logged{}
	m.ours = tunnel.NewServer(tunnel.ServerOptions{
		Authorize: func(r *http.Request) (tunnel.Peer, error) {
			who, ok, err := m.authorize(r)
			if err == nil && !ok {
				err = errors.New("the registration token is not known")
			}
			return tunnel.Peer{Subject: who, Kind: "node-agent"}, err
		},
		Allow:  func(tunnel.Peer, string, string) error { return nil },
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	t.Cleanup(m.ours.Close)
	return log
}

// road is a way to a server on which things happen.
type road struct {
	net.Listener
	to   string
	hole atomic.Bool   // nothing passes, and no program is notified
	idle time.Duration // after which a connection is cut; 0 is never

	mu   sync.Mutex
	open []net.Conn
}

func newRoad(t *testing.T, to string, idle time.Duration) *road {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &road{Listener: l, to: to, idle: idle}
	go r.serve()
	t.Cleanup(r.close)
	return r
}

func (r *road) close() {
	r.Listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		c.Close()
	}
}

func (r *road) serve() {
	for {
		in, err := r.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, in, out)
		r.mu.Unlock()
		go r.carry(in, out)
		go r.carry(out, in)
	}
}

func (r *road) carry(from, to net.Conn) {
	b := make([]byte, 32<<10)
	for {
		if r.idle > 0 {
			from.SetReadDeadline(time.Now().Add(r.idle))
		}
		n, err := from.Read(b)
		if err != nil && !r.hole.Load() {
			from.Close()
			to.Close()
		}
		if err != nil {
			return
		}
		if !r.hole.Load() {
			to.Write(b[:n]) // a failure comes again with the next Read
		}
	}
}

// by lets the host take a road, or another server.
func (h *host) by(address string) {
	server := *h.o.Server
	server.Host = address
	h.o.Server = &server
}

func TestClockThatIsADayOff(t *testing.T) {
	for name, off := range map[string]time.Duration{"slow": -24 * time.Hour, "fast": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManagement(t)
			m.withOurs(t)
			m.exchange(t, testToken)
			web := &logged{}
			m.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(web, nil), slog.LevelInfo)
			h := newHost(t, m)
			var skew atomic.Int64
			skew.Store(int64(off))
			h.o.Now = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
			h.live(t)
			h.cause(t, onTunnel, "either this host's clock is wrong or the server's certificate has ended")
			h.cause(t, onClock, map[string]string{"slow": "24h0m0s behind the server's", "fast": "24h0m0s ahead of the server's"}[name])
			waitUntil(t, "the server says who turned away", func() bool { return strings.Contains(web.String(), "bad certificate") })
			skew.Store(0)
			h.cause(t, onTunnel, "")
		})
	}
}

func TestProxyCutsIdleConnections(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	log := m.withOurs(t)
	h := newHost(t, m)
	r := newRoad(t, m.Listener.Addr().String(), 2*time.Second) // between two pings
	h.by(r.Addr().String())
	h.live(t)
	h.cause(t, onTunnel, "it, or something on the way, closed the connection without a word")
	waitUntil(t, "the agent comes again", func() bool { return len(m.opened()) > 1 })
	waitUntil(t, "the server says so", func() bool {
		return strings.Contains(log.String(), "something on the way, closed the connection without a word")
	})
}

func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	log := m.withOurs(t)
	h := newHost(t, m)
	r := newRoad(t, m.Listener.Addr().String(), 0)
	h.by(r.Addr().String())
	h.live(t)
	h.cause(t, onTunnel, "")
	r.hole.Store(true)
	h.cause(t, onTunnel, "nothing was heard of it for 21s")
	waitUntil(t, "the server says so", func() bool { return strings.Contains(log.String(), "nothing was heard of it for 21s") })
	r.hole.Store(false)
	h.cause(t, onTunnel, "")
}

// TestServerMoves has a name that leads to another address, while the old one still answers.
func TestServerMoves(t *testing.T) {
	old := newManagement(t)
	log := old.withOurs(t)
	old.exchange(t, testToken)
	_, port, err := net.SplitHostPort(old.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		skips.Skipf(t, "this machine has no second loopback address: %v", err)
	}
	defer l.Close()
	fresh := newManagement(t)
	fresh.withOurs(t)
	fresh.mu.Lock()
	fresh.ca, fresh.pair = old.ca, old.pair
	fresh.mu.Unlock()
	go forwardAll(l, fresh.Listener.Addr().String())

	h := newHost(t, old)
	h.o.Server = &url.URL{Scheme: "https", Host: "drover.test:" + port}
	var address atomic.Value
	address.Store("127.0.0.1")
	h.o.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "drover.test" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr(address.Load().(string))}, nil
	}
	refresh := make(chan os.Signal, 1)
	h.o.Refresh = refresh
	h.live(t)
	waitUntil(t, "it is at the old address", func() bool { return len(old.opened()) == 1 })
	h.cause(t, onTunnel, "")
	address.Store("127.0.0.2")
	refresh <- syscall.SIGHUP
	waitUntil(t, "it is at the new address", func() bool { return len(fresh.opened()) == 1 })
	waitUntil(t, "the old server says so", func() bool {
		return strings.Contains(log.String(), "the client has moved to another address of the server")
	})
	h.cause(t, onTunnel, "")
	if !strings.Contains(h.log.String(), "the server's name leads to another address now") {
		t.Error("the agent does not say that it moves")
	}
}

func forwardAll(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		go func() { io.Copy(in, out); in.Close() }()
		go func() { io.Copy(out, in); out.Close() }()
	}
}

// TestDockerIsAway has the server ask for a Docker that is not there, and then is.
func TestDockerIsAway(t *testing.T) {
	m := newManagement(t)
	m.withOurs(t)
	h := newHost(t, m)
	h.docker.Stop()
	h.live(t)
	h.cause(t, onTunnel, "")
	h.cause(t, onDocker, "is missing: start Docker")
	ping := func() (string, error) {
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return m.ours.Dial(ctx, "c-abcde:"+connect.MachineName("n1"), tunnel.Target{Network: "unix", Address: dockerTarget})
		}}}
		answer, err := client.Get("http://docker/_ping")
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		return string(b), err
	}
	var refused *tunnel.TargetRefusedError
	if _, err := ping(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "/var/run/docker.sock is missing: start Docker") {
		t.Errorf("the server hears %v", err)
	}
	h.docker.Listen(t)
	h.cause(t, onDocker, "")
	if text, err := ping(); err != nil || text != "OK" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestDockerSocketOfAnother has a socket that is a file at first, and then one that the
// agent's user may not use.
func TestDockerSocketOfAnother(t *testing.T) {
	h := newHost(t, newManagement(t))
	h.docker.Stop()
	if err := os.WriteFile(h.o.DockerSocket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.live(t)
	h.cause(t, onDocker, "nothing listens on")
	if err := os.Remove(h.o.DockerSocket); err != nil {
		t.Fatal(err)
	}
	h.docker.Listen(t)
	h.cause(t, onDocker, "")
	if os.Geteuid() != 0 {
		skips.Skip(t, "only root can become somebody else")
	}
	if err := os.Chmod(h.o.DockerSocket, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(h.o.DockerSocket); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if strings.HasPrefix(dir, os.TempDir()+"/") {
			// The test's own, which others may not enter.
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&1 == 0 {
			skips.Skipf(t, "%s is closed to others", dir)
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asNobody+"="+h.o.DockerSocket)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "cannot be used by this user: run the agent as root") {
		t.Errorf("%v\n%s", err, out)
	}
}

const asNobody = "DROVER_TEST_AS_NOBODY"

// nobodysDocker says how Docker is to a user without rights.
func nobodysDocker(ctx context.Context, socket string) error {
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	d := &docker{socket: socket}
	return explainDocker(socket, d.cause(ctx, errors.New("it answers")))
}
