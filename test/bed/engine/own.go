package engine

// Our own Docker engine: started when none is usable, shared by the test processes of the machine, stopped by the last.
//
// Two locks order the processes. The gate is held while a process starts or stops the engine. The lease is held, shared,
// by everybody who uses it: a process that can have it exclusively is alone.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/bed/engine/dropcap"
	"github.com/drover-project/drover/test/bed/lockfile"
)

const (
	// startTimeout is for an engine that never answers; an idle machine needs two seconds.
	startTimeout = 5 * time.Minute
	// stopTimeout is how long the engine may take to stop before it is killed.
	stopTimeout = 2 * time.Minute
	pollEvery   = 50 * time.Millisecond
)

// ownDaemon is our own engine, as seen by one of the processes that use it.
type ownDaemon struct {
	prefix   string
	cacheDir string
	log      *slog.Logger
	iptables string // the command; empty when none works
	lease    *lockfile.Lock
}

func (d *ownDaemon) socket() string      { return "unix://" + d.prefix + ".sock" }
func (d *ownDaemon) pidFile() string     { return d.prefix + ".pid" }
func (d *ownDaemon) gatePath() string    { return d.prefix + ".gate" }
func (d *ownDaemon) leasePath() string   { return d.prefix + ".lease" }
func (d *ownDaemon) configPath() string  { return d.prefix + ".json" }
func (d *ownDaemon) forwardNote() string { return d.prefix + ".ip_forward" }
func (d *ownDaemon) logPath() string     { return filepath.Join(d.cacheDir, "dockerd.log") }

// startOwn returns with a running engine and a lease on it.
func startOwn(ctx context.Context, o Options) (*ownDaemon, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can; start Docker, or run this as root")
	}
	d := &ownDaemon{prefix: o.RunPrefix, cacheDir: o.CacheDir, log: o.Log, iptables: findIptables(ctx)}
	gate, err := lockfile.Take(ctx, d.gatePath(), lockfile.Exclusive)
	if err != nil {
		return nil, err
	}
	defer gate.Unlock()

	alone, err := lockfile.Try(d.leasePath(), lockfile.Exclusive)
	if err != nil {
		return nil, err
	}
	view := &Engine{Log: d.log, host: d.socket()}
	if !d.answers(ctx, view) {
		if err := d.launch(ctx, view); err != nil {
			return nil, err
		}
	}
	if alone == nil {
		d.lease, err = lockfile.Take(ctx, d.leasePath(), lockfile.Shared)
		return d, err
	}
	// No process uses the engine, so what carries a run's label was left by runs that were killed.
	err = errors.Join(view.removeLabelled(ctx, labelKey), d.removeRules(ctx, d.ruleMark()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("remove what killed runs left: %w", err), d.stop(ctx))
	}
	d.lease = alone
	return d, alone.Share() // the gate keeps others out meanwhile
}

func (d *ownDaemon) answers(ctx context.Context, view *Engine) bool {
	version, err := view.Docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err == nil && version != ""
}

// launch starts dockerd and waits until it answers. It outlives this process if others use it then.
func (d *ownDaemon) launch(ctx context.Context, view *Engine) error {
	if err := d.configure(ctx); err != nil {
		return err
	}
	path, err := shimPath(d.iptables, d.prefix+"-bin")
	if err != nil {
		return err
	}
	log, err := os.Create(d.logPath())
	if err != nil {
		return fmt.Errorf("open the engine's log: %w", err)
	}
	defer log.Close() // the engine has its own descriptor
	command := exec.Command("dockerd", "--config-file", d.configPath())
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), "PATH="+path)
	// A Ctrl-C at the terminal is for the tests, which then remove their containers from a living engine.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w; test/bed/setup.sh installs it", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }() // ends with dockerd, which release or another process stops

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !d.answers(ctx, view) {
		select {
		case err := <-ended:
			return fmt.Errorf("dockerd ended before it answered (%w); the end of %s:\n%s", err, d.logPath(), tail(d.logPath()))
		case <-ctx.Done():
			_ = command.Process.Kill() // it may have ended by itself
			return fmt.Errorf("dockerd does not answer (%w); the end of %s:\n%s", ctx.Err(), d.logPath(), tail(d.logPath()))
		case <-time.After(pollEvery):
		}
	}
	d.log.Info("started a Docker engine", "socket", d.socket(), "pid", command.Process.Pid, "log", d.logPath())
	return nil
}

// configure writes dockerd's configuration. The storage driver is dockerd's to choose: it tries a real mount and takes
// overlay2 where that works, vfs where nothing else does.
func (d *ownDaemon) configure(ctx context.Context) error {
	config := map[string]any{
		"data-root":                    filepath.Join(d.cacheDir, "docker"),
		"exec-root":                    d.prefix,
		"hosts":                        []string{d.socket()},
		"pidfile":                      d.pidFile(),
		"bridge":                       "none", // each run makes its own network
		"containerd-namespace":         "drover",
		"containerd-plugins-namespace": "drover-plugins",
		"iptables":                     false, // see forward.go
		"ip6tables":                    false,
		"ip-forward":                   false,
		"log-level":                    "warn",
	}
	lacks, err := dropcap.Withheld()
	if err != nil {
		return err
	}
	if lacks {
		runtime, err := buildDropCap(ctx, filepath.Join(d.cacheDir, "bin"))
		if err != nil {
			return err
		}
		config["runtimes"] = map[string]any{"drover-dropcap": map[string]string{"path": runtime}}
		config["default-runtime"] = "drover-dropcap"
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the engine's configuration: %w", err)
	}
	if err := os.WriteFile(d.configPath(), data, 0o600); err != nil {
		return fmt.Errorf("write the engine's configuration: %w", err)
	}
	return nil
}

// release gives the lease back and stops the engine if no other process has one.
func (d *ownDaemon) release(ctx context.Context) error {
	gate, err := lockfile.Take(ctx, d.gatePath(), lockfile.Exclusive)
	if err != nil {
		return err
	}
	defer gate.Unlock()
	if err := d.lease.Unlock(); err != nil {
		return fmt.Errorf("give the engine's lease back: %w", err)
	}
	alone, err := lockfile.Try(d.leasePath(), lockfile.Exclusive)
	if err != nil || alone == nil {
		return err
	}
	defer alone.Unlock()
	return d.stop(ctx)
}

// stop ends the engine, whichever process started it, and undoes what was done to this machine for it.
func (d *ownDaemon) stop(ctx context.Context) error {
	return errors.Join(d.end(ctx), endForwarding(d.forwardNote()))
}

// end ends the process whose pid file this is.
func (d *ownDaemon) end(ctx context.Context) error {
	text, err := os.ReadFile(d.pidFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil // stopped already
	}
	if err != nil {
		return fmt.Errorf("find the engine's process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("parse %s: %w", d.pidFile(), err)
	}
	if !d.isOurs(pid) {
		return nil // it died, and its number may be another process's now
	}
	d.log.Info("stopping the Docker engine", "pid", pid)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the engine, process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for d.isOurs(pid) {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("stop the engine, process %d: %w", pid, ctx.Err()), syscall.Kill(pid, syscall.SIGKILL))
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// isOurs reports whether the process runs with our configuration file; a process that ended has no command line.
func (d *ownDaemon) isOurs(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), d.configPath())
}

// tail returns the end of a log for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-stderrTail):])
}
