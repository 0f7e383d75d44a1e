// Package onhost is what an RKE1 engine does on one host through its Docker socket: short
// commands in containers, files, and asking what runs there whether it works. It does not
// know what a cluster is.
package onhost

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

// callLimit bounds one call of Docker's API that does no work of its own.
const callLimit = 50 * time.Second

// Host is a host whose Docker engine answered. Its methods may be called from many goroutines.
type Host struct {
	// Address is the host's in cluster.yml, by which sentences name it.
	Address string
	Docker  *client.Client
	// Info is what the engine said of itself when the host was opened.
	Info system.Info

	dial   dial.Dialer
	logger *slog.Logger
	calls  *atomic.Int64
	// now is the host's clock, which need not be right.
	now func() time.Time
}

// UnreachableError is that no connection to a host's Docker engine can be made.
type UnreachableError struct {
	Host string
	// Err is the dialer's, without what it says of the host.
	Err error
}

func (e *UnreachableError) Error() string {
	return "host " + e.Host + " cannot be reached: " + e.Err.Error()
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// unreachable is why a host cannot be reached.
func unreachable(address string, err error) error {
	if login, ok := errors.AsType[*dial.LoginError](err); ok {
		err = login.Err
	}
	return &UnreachableError{Host: address, Err: err}
}

// Open asks a host's Docker engine who it is. Close the host. A host that does not answer is dialled once, and the error is an
// *UnreachableError.
func Open(ctx context.Context, address, socket string, d dial.Dialer, now func() time.Time, logger *slog.Logger) (*Host, error) {
	h := &Host{Address: address, dial: d, logger: logger.With("host", address), calls: &atomic.Int64{}}
	// Docker's client hides why there is no connection, and asks three times for the version of an engine that does not answer: a host
	// that is down would cost three times its limit.
	var fault atomic.Pointer[error]
	var known atomic.Bool
	docker, err := dial.Docker(func(ctx context.Context, network, to string) (net.Conn, error) {
		if cause := fault.Load(); cause != nil && !known.Load() {
			return nil, *cause
		}
		conn, err := d(ctx, network, to)
		if err != nil {
			fault.Store(&err)
		}
		return conn, err
	}, address, socket, h.calls)
	if err != nil {
		return nil, err
	}
	h.Docker = docker
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	h.Info, err = docker.Info(ctx)
	if err != nil {
		docker.Close()
		if cause := fault.Load(); cause != nil {
			return nil, unreachable(address, *cause)
		}
		return nil, fmt.Errorf("ask the Docker engine of host %s: %w", address, err)
	}
	known.Store(true)
	h.now = clockOf(h.Info, now)
	return h, nil
}

// clockOf is the clock of a host, which said what time it is.
func clockOf(info system.Info, now func() time.Time) func() time.Time {
	there, err := time.Parse(time.RFC3339Nano, info.SystemTime)
	if err != nil {
		return now // an engine that does not say: its clock counts as right
	}
	ahead := there.Sub(now())
	return func() time.Time { return now().Add(ahead) }
}

// sleepUntil waits until the host's clock has come to a moment.
func (h *Host) sleepUntil(ctx context.Context, t time.Time) error {
	select {
	case <-time.After(t.Sub(h.now())):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the idle connections to the host.
func (h *Host) Close() error { return h.Docker.Close() }

// Calls is how many calls of Docker's API were made on this host.
func (h *Host) Calls() int64 { return h.calls.Load() }

// Engine performs the host's container actions.
func (h *Host) Engine() *nodeconfig.Engine {
	return &nodeconfig.Engine{Docker: h.Docker, Logger: h.logger}
}

// Logs are the last lines of a container's output, both streams, for sentences about its failure.
func (h *Host) Logs(ctx context.Context, name string, lines int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	stream, err := h.Docker.ContainerLogs(ctx, name, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: fmt.Sprint(lines)})
	if err != nil {
		return nil, fmt.Errorf("read the output of container %s on host %s: %w", name, h.Address, err)
	}
	defer stream.Close()
	out := &bounded{limit: maxOutput}
	if err := separate(out, stream); err != nil {
		return nil, fmt.Errorf("read the output of container %s on host %s: %w", name, h.Address, err)
	}
	text := strings.TrimRight(string(out.b), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}

// separate writes both streams of a container's output, which come in pieces with a header each. Docker's own function makes room
// for as much as a header says that there is, which may be 4 GiB.
//
// Wire source: docs.docker.com/reference/api/engine, ContainerAttach, "Stream format".
func separate(out io.Writer, stream io.Reader) error {
	in := bufio.NewReader(stream)
	for header := make([]byte, 8); ; {
		if _, err := io.ReadFull(in, header); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if header[0] > 2 {
			return fmt.Errorf("it is of no known stream (%d)", header[0])
		}
		if n, err := io.CopyN(out, in, int64(binary.BigEndian.Uint32(header[4:]))); err != nil {
			return fmt.Errorf("it ends %d bytes after the beginning of a piece: %w", n, err)
		}
	}
}

// maxOutput bounds what is kept of a container's output, in bytes.
const maxOutput = 64 << 10

// bounded keeps the end of what is written to it.
type bounded struct {
	b     []byte
	limit int
}

func (w *bounded) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	if over := len(w.b) - w.limit; over > 0 {
		w.b = append(w.b[:0], w.b[over:]...)
	}
	return len(p), nil
}
