// The socket: only root on this host can ask. A lock beside it distinguishes a socket that a dead
// agent left behind from one that a living agent serves.

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultSocket is where an agent answers unless configured otherwise.
const DefaultSocket = "/run/rancher-system-agent/status.sock"

const (
	requestLimit = 15 * time.Second
	idleLimit    = time.Minute
)

// BusyError says that another agent has the socket.
type BusyError struct{ Socket string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another agent runs on this host: it holds %s", e.Socket)
}

// Socket is where an agent answers.
type Socket struct {
	path     string
	lock     *os.File
	listener *net.UnixListener
}

// Listen takes the socket, in the place of one that a dead agent left. The directory is
// made when it is missing, closed to others. A directory that is there is left as it is, for it may
// be /run; it is refused when others can write it. The error is a *BusyError when another
// agent lives.
func Listen(path string) (*Socket, error) {
	if err := directory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the status socket: %w", err)
	}
	s := &Socket{path: path, lock: lock}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// directory makes it, or says why others could put something in the socket's place.
func directory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the directory of the status socket: %w", err)
		}
	case err != nil:
		return fmt.Errorf("look at the directory of the status socket: %w", err)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write the directory %s of the status socket (mode %04o): name a socket in another, or one that is to be made", dir, info.Mode().Perm())
	}
	return nil
}

func (s *Socket) listen() error {
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &BusyError{s.path}
	}
	if err != nil {
		return fmt.Errorf("lock the status socket: %w", err)
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket that an earlier agent left: %w", err)
	}
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen for people who ask for the status: %w", err)
	}
	if err := os.Chmod(s.path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("close the status socket to others: %w", err), s.listener.Close())
	}
	return nil
}

// Close gives the socket up.
func (s *Socket) Close() error {
	return errors.Join(s.listener.Close(), s.lock.Close())
}

// Serve answers until the context ends, and closes the socket. It returns the context's error then, and the listener's where that fails before.
func (s *Socket) Serve(ctx context.Context, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: requestLimit, WriteTimeout: requestLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(trusted{s.listener, log})
	closed := s.lock.Close()
	if errors.Is(err, http.ErrServerClosed) {
		return errors.Join(ctx.Err(), closed)
	}
	return fmt.Errorf("serve the status: %w", err)
}

// trusted accepts only connections of root and of the agent's own user. The modes of
// directory and socket say the same; this holds when a user loosened them.
type trusted struct {
	*net.UnixListener
	log *slog.Logger
}

func (l trusted) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		if err == nil && (uid == 0 || uid == os.Geteuid()) {
			return conn, nil
		}
		l.log.Warn("a user who is not root asks for the status and is refused", "uid", uid, "error", err)
		if err := conn.Close(); err != nil {
			l.log.Debug("connection does not close", "error", err)
		}
	}
}

// peer is the user at the other end.
func peer(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid = -1
	controlled := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid, errors.Join(controlled, err)
}

// Handler answers GET /v1/status with what now is, and GET /v1/output with output.
func Handler(now func() Status, output http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		b, err := json.MarshalIndent(now(), "", "  ")
		if err != nil {
			http.Error(w, "the status cannot be encoded: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(b, '\n')) // who does not read it goes without
	})
	mux.Handle("GET /v1/output", output)
	return mux
}
