// What the agent itself offers to the server through the tunnel: logs, of a container or
// of a unit, as lines while they come.

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/drover-project/drover/daemon/hostservice"
)

// serviceAddress is the in-process service, as the server dials it; the system agent's has the same.
const serviceAddress = "drover-agent:80"

const (
	usualTail  = 200
	maxTail    = 100_000
	maxStreams = 16 // logs that are read at once
	idleLimit  = time.Minute
)

var (
	unitName      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]{0,254}$`) })
	containerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$`) })
)

type service struct {
	docker   *client.Client
	log      *slog.Logger
	listener *hostservice.Pipe
	streams  chan struct{} // one entry for each log that is read
}

func newService(d *client.Client, log *slog.Logger) *service {
	return &service{docker: d, log: log, listener: hostservice.NewPipe(serviceAddress), streams: make(chan struct{}, maxStreams)}
}

func (s *service) run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/logs", s.logs)
	mux.HandleFunc("GET /v1/containers", containersHandler(s.docker))
	server := &http.Server{
		Handler: mux, ReadTimeout: healthLimit, IdleTimeout: idleLimit, // and no limit of writing: logs are followed
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve the in-process service: %w", err)
}

// question is what of a log is asked for.
type question struct {
	unit, container string
	follow          bool
	tail            int
}

func read(r *http.Request) (question, error) {
	v := r.URL.Query()
	q := question{unit: v.Get("unit"), container: v.Get("container"), tail: usualTail}
	switch {
	case (q.unit == "") == (q.container == ""):
		return q, errors.New("name one of unit and container")
	case q.unit != "" && !unitName().MatchString(q.unit):
		return q, errors.New("unit is not a valid name of a systemd unit")
	case q.container != "" && !containerName().MatchString(q.container):
		return q, errors.New("container is not a valid name or id of a container")
	}
	if text := v.Get("follow"); text != "" {
		follow, err := strconv.ParseBool(text)
		if err != nil {
			return q, errors.New("follow has to be 1 or 0")
		}
		q.follow = follow
	}
	if text := v.Get("tail"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxTail {
			return q, fmt.Errorf("tail has to be a number of lines from 0 to %d", maxTail)
		}
		q.tail = n
	}
	return q, nil
}

func (s *service) logs(w http.ResponseWriter, r *http.Request) {
	q, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d logs are read already; close one", maxStreams), http.StatusTooManyRequests)
		return
	}
	if q.unit != "" {
		hostservice.UnitLog(w, r, q.unit, q.tail, q.follow)
	} else {
		s.container(w, r, q)
	}
}

// container prints a container's log, both streams.
func (s *service) container(w http.ResponseWriter, r *http.Request, q question) {
	is, err := s.docker.ContainerInspect(r.Context(), q.container)
	if err != nil {
		code := http.StatusBadGateway
		if errdefs.IsNotFound(err) {
			code = http.StatusNotFound
		}
		http.Error(w, line1(err.Error()), code)
		return
	}
	log, err := s.docker.ContainerLogs(r.Context(), q.container, container.LogsOptions{
		ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: q.follow, Tail: strconv.Itoa(q.tail)})
	if err != nil {
		http.Error(w, line1(err.Error()), http.StatusBadGateway)
		return
	}
	defer log.Close()
	out := hostservice.Prompt(w)
	if is.Config != nil && is.Config.Tty {
		_, err = io.Copy(out, log)
	} else {
		_, err = stdcopy.StdCopy(out, out, log)
	}
	if err != nil && r.Context().Err() == nil {
		fmt.Fprintf(w, "read the log of container %s: %v\n", q.container, err)
	}
}
