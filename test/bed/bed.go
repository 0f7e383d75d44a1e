// Package bed is what an end-to-end run stands on: a Docker engine with a network, hosts with a real systemd on it, and
// real binaries on this machine that those hosts reach. It knows nothing of what the binaries do.
//
// The tests and the quick start use the same bed. Whatever a bed starts, its Close ends, by id.
package bed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/process"
)

// stopTimeout is how long a process may take to stop before Close kills it.
const stopTimeout = 2 * time.Minute

// Options say where a bed keeps its things.
type Options struct {
	// Dir gets the binaries in bin and all logs in logs. Required; it is made and never removed.
	Dir string
	// CacheDir holds what later runs use again. Default: see engine.Options.
	CacheDir string
	// Log hears what is done. Default: no listener.
	Log *slog.Logger
}

// Bed is one run's engine, hosts and processes. Its methods may be called from several goroutines.
type Bed struct {
	// Engine is the Docker engine of the run.
	Engine *engine.Engine

	dir string

	mu        sync.Mutex
	hosts     []*host.Host
	processes []*process.Process
}

// Start makes a bed without hosts and processes.
func Start(ctx context.Context, o Options) (*Bed, error) {
	e, err := engine.Start(ctx, engine.Options{CacheDir: o.CacheDir, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &Bed{Engine: e, dir: o.Dir}, nil
}

// Build builds commands of this module, given by their import paths, as static binaries, and returns their directory.
// It must be called from within the module.
func (b *Bed) Build(ctx context.Context, packages ...string) (string, error) {
	bin := filepath.Join(b.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of the binaries: %w", err)
	}
	b.Engine.Log.Info("building", "packages", packages)
	args := append([]string{"build", "-ldflags=-s -w", "-o", bin + string(filepath.Separator)}, packages...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // hosts have another C library, or none
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", strings.Join(packages, " "), err, strings.TrimSpace(string(output)))
	}
	return bin, nil
}

// FreeAddress returns an address, host:port, that hosts of the bed reach and on which nothing listens now. A server
// that is stopped and started again keeps its address by being given it.
func (b *Bed) FreeAddress(ctx context.Context) (string, error) {
	return FreeAddress(ctx, b.Engine.Gateway())
}

// Host starts a host.
func (b *Bed) Host(ctx context.Context, o host.Options) (*host.Host, error) {
	return b.keep(host.Start(ctx, b.Engine, o))
}

// DockerHost starts a host with a Docker engine of its own.
func (b *Bed) DockerHost(ctx context.Context, o host.Options) (*host.Host, error) {
	return b.keep(host.StartWithDocker(ctx, b.Engine, o))
}

func (b *Bed) keep(h *host.Host, err error) (*host.Host, error) {
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts = append(b.hosts, h)
	return h, nil
}

// Run starts a binary on this machine; without a LogFile its log is logs/<name of the binary>.log.
func (b *Bed) Run(ctx context.Context, o process.Options) (*process.Process, error) {
	if o.LogFile == "" {
		o.LogFile = filepath.Join(b.dir, "logs", filepath.Base(o.Path)+".log")
	}
	p, err := process.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	b.Engine.Log.Info("started a process", "path", o.Path, "pid", p.PID(), "log", o.LogFile)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.processes = append(b.processes, p)
	return p, nil
}

// Collect writes what there is to see of every host into logs/<host's name>, for the reader of a failed run, and
// returns the directory of all logs.
func (b *Bed) Collect(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	logs := filepath.Join(b.dir, "logs")
	var errs []error
	for _, h := range b.hosts {
		errs = append(errs, h.Collect(ctx, filepath.Join(logs, h.Name())))
	}
	return logs, errors.Join(errs...)
}

// Close stops the processes, the last started first, and removes the hosts. Binaries and logs stay.
func (b *Bed) Close(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for i := len(b.processes) - 1; i >= 0; i-- {
		errs = append(errs, stop(ctx, b.processes[i]))
	}
	b.processes, b.hosts = nil, nil
	return errors.Join(append(errs, b.Engine.Close(ctx))...)
}

func stop(ctx context.Context, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return p.Stop(ctx)
}

// Await repeats a check until it returns nil, and says what it waited for, how long and the last obstacle when ctx ends
// before that.
func Await(ctx context.Context, what string, every time.Duration, check func(context.Context) error) error {
	begin := time.Now()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // what a check says that was cut short is not an obstacle
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s (%w): %w", time.Since(begin).Round(time.Millisecond), what, ctx.Err(), last)
		case <-time.After(every):
		}
	}
}
