// Package loglevel changes how much a running agent says: an HTTP service on a unix
// socket, and the command that asks it. What is set lasts until the agent starts again.
//
// Wire source: rancher/log (GET and POST /v1/loglevel on /tmp/log.sock).
package loglevel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// Socket is where the service listens unless it is configured otherwise.
const Socket = "/tmp/log.sock"

// Trace is the level below debug.
const Trace = slog.LevelDebug - 4

const limit = 5 * time.Second

// Parse reads one of trace, debug, info, warn and error.
func Parse(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "trace":
		return Trace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %.20q is none of trace, debug, info, warn and error", s)
}

// Name is the word for a level.
func Name(l slog.Level) string {
	switch {
	case l <= Trace:
		return "trace"
	case l <= slog.LevelDebug:
		return "debug"
	case l <= slog.LevelInfo:
		return "info"
	case l <= slog.LevelWarn:
		return "warn"
	}
	return "error"
}

// Serve answers on a socket, which only this user can use, until the context ends. It returns the context's error then, or why the socket could not
// be had.
func Serve(ctx context.Context, socket string, level *slog.LevelVar) error {
	l, err := listen(ctx, socket)
	if err != nil {
		return fmt.Errorf("listen for log levels on %s: %w", socket, err)
	}
	server := &http.Server{Handler: handler(level), ReadTimeout: limit, WriteTimeout: limit, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve log levels on %s: %w", socket, err)
	}
	return ctx.Err()
}

// listen replaces a socket that a former life left. Anything else at its place stays.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if info, err := os.Lstat(socket); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, errors.New("there is something that is not a socket")
	} else if err == nil {
		if err := os.Remove(socket); err != nil {
			return nil, err
		}
	}
	l, err := (&net.ListenConfig{Control: closed}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// closed sets the mode before the name of the socket can be seen.
func closed(_, _ string, c syscall.RawConn) error {
	var err error
	if controlled := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); controlled != nil {
		return controlled
	}
	return err
}

func handler(level *slog.LevelVar) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/loglevel", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, Name(level.Level()))
	})
	mux.HandleFunc("POST /v1/loglevel", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		to, err := Parse(r.FormValue("level"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		level.Set(to)
		io.WriteString(w, "OK")
	})
	return mux
}

// Ask is the command: it prints the level, or sets it when set is not empty. The error says that no agent answers, or what the agent has refused.
func Ask(ctx context.Context, socket, set string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	method, body := http.MethodGet, ""
	if set != "" {
		method, body = http.MethodPost, url.Values{"level": {set}}.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://agent/v1/loglevel", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if set != "" {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := client.Do(q)
	if err != nil {
		return "", fmt.Errorf("ask the agent on %s (does it run?): %w", socket, err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err != nil {
		return "", fmt.Errorf("ask the agent on %s: %w", socket, err)
	}
	text := strings.TrimSpace(string(b))
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(text)
	}
	return text, nil
}
