// Package engine gives a test run a Docker engine it can start privileged containers on, and a network of its own.
//
// An engine that answers is used as it is. Where none does, or where it could not start a privileged container, the
// package starts one of its own (root only) with its own data, sockets and containerd namespace. That engine is shared
// by all test processes of the machine and stopped by the last of them.
//
// Everything a run makes carries the run's label, and Close removes exactly that.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/test/bed/engine/dropcap"
)

// labelKey is the label of everything a run makes; its value is the run's id.
const labelKey = "drover-test.run"

// Options say where an engine keeps its things.
type Options struct {
	// CacheDir holds what later runs use again: images, binaries, the data of our own engine.
	// Default: the variable DROVER_CACHE, else /var/cache/drover.
	CacheDir string
	// RunPrefix is the beginning of the paths of our own engine's socket, pid file, locks and run-time state.
	// Default: /run/drover-docker.
	RunPrefix string
	// Log hears what is started, built and stopped. Default: no listener.
	Log *slog.Logger
}

// Engine is a Docker engine with a network for one run.
type Engine struct {
	// Log hears what is done with the engine; never nil.
	Log *slog.Logger

	host     string // what `docker --host` gets; empty for the CLI's own default
	cacheDir string
	run      string
	network  network
	own      *ownDaemon // nil when the engine is not ours

	mu     sync.Mutex
	lastIP netip.Addr // the last address handed out
}

// Start finds or starts an engine, and makes the run's network. The caller must Close it.
func Start(ctx context.Context, o Options) (*Engine, error) {
	o = withDefaults(o)
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache directory: %w", err)
	}
	e := &Engine{Log: o.Log, cacheDir: o.CacheDir, run: newRunID()}
	obstacle := e.usable(ctx)
	if obstacle != nil {
		o.Log.Info("starting our own Docker engine", "because", obstacle)
		own, err := startOwn(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("start a Docker engine (%w): %w", obstacle, err)
		}
		e.own, e.host = own, own.socket()
	}
	var err error
	e.network, err = e.makeNetwork(ctx)
	if err == nil && e.own != nil {
		err = e.forward(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close(context.WithoutCancel(ctx)))
	}
	e.lastIP = e.network.gateway
	for range reservedAddresses {
		e.lastIP = e.lastIP.Next()
	}
	return e, nil
}

func withDefaults(o Options) Options {
	if o.CacheDir == "" {
		o.CacheDir = os.Getenv("DROVER_CACHE")
	}
	o.CacheDir = cmp.Or(o.CacheDir, "/var/cache/drover")
	o.RunPrefix = cmp.Or(o.RunPrefix, "/run/drover-docker")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func newRunID() string {
	var id [4]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// usable returns why the engine the CLI would use by itself is of no use to us, or nil.
func (e *Engine) usable(ctx context.Context) error {
	runtime, err := e.Docker(ctx, "info", "--format", "{{.DefaultRuntime}}")
	switch {
	case err != nil:
		return errors.New("no Docker engine answers")
	case runtime == "": // an old CLI prints an empty answer instead of failing
		return errors.New("no Docker engine answers")
	case runtime != "runc":
		return nil // the runtime was chosen on purpose
	}
	lacks, err := dropcap.Withheld()
	if err != nil {
		return err
	}
	if lacks {
		return errors.New("the running engine's runtime cannot do without CAP_SYS_RESOURCE, which this machine withholds")
	}
	return nil
}

// Close removes the containers and the network of the run, and stops the engine if it is ours and no other process uses it.
func (e *Engine) Close(ctx context.Context) error {
	err := e.removeLabelled(ctx, e.RunLabel())
	if e.own != nil {
		err = errors.Join(err, e.own.removeRules(ctx, e.own.ruleMark()+e.run), e.own.release(ctx))
	}
	return err
}

// removeTries is how often a removal is tried, removeEvery apart.
const (
	removeTries = 20
	removeEvery = 500 * time.Millisecond
)

// removeLabelled removes the containers, with their anonymous volumes, and then the networks that carry the label.
func (e *Engine) removeLabelled(ctx context.Context, label string) error {
	kinds := []struct{ list, remove []string }{
		{[]string{"container", "ls", "--all"}, []string{"container", "rm", "--force", "--volumes"}},
		{[]string{"network", "ls"}, []string{"network", "rm"}},
	}
	for _, kind := range kinds {
		list := append(kind.list, "--quiet", "--filter", "label="+label)
		if err := e.removeAll(ctx, list, kind.remove); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes what the list prints until that is nothing. What is listed may be gone already or be on its way out,
// a busy engine refuses what it does a moment later, and an agent among the containers may make new ones to the last.
func (e *Engine) removeAll(ctx context.Context, list, remove []string) error {
	var last error
	for range removeTries {
		ids, err := e.Docker(ctx, list...)
		if err != nil || ids == "" {
			return err
		}
		if _, last = e.Docker(ctx, append(slices.Clone(remove), strings.Fields(ids)...)...); last == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(removeEvery):
		}
	}
	return fmt.Errorf("after %d tries something is left; the last error: %w", removeTries, last)
}

// RunID distinguishes this run from others: eight hexadecimal digits.
func (e *Engine) RunID() string { return e.run }

// RunLabel is the label, as key=value, of everything this run makes.
func (e *Engine) RunLabel() string { return labelKey + "=" + e.run }

// CacheDir is where what later runs use again is kept.
func (e *Engine) CacheDir() string { return e.cacheDir }

// Socket is the path of the engine's socket, for those who speak its API themselves.
func (e *Engine) Socket() string {
	if e.host == "" {
		return "/var/run/docker.sock"
	}
	return strings.TrimPrefix(e.host, "unix://")
}

// Network is the name of the run's network.
func (e *Engine) Network() string { return e.network.name }

// Gateway is the address of this machine on the run's network: containers reach servers that listen on it.
func (e *Engine) Gateway() netip.Addr { return e.network.gateway }
