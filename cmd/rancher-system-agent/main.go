// Rancher-system-agent runs on every host of a cluster as a systemd service: it takes
// plans from its server or from a directory and performs them. It replaces the agent of
// the same name that Rancher ships, and install.sh calls its validators.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/daemon"
	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/daemon/systemd"
	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/tunnel"
)

const name = "rancher-system-agent"

const usage = `usage: rancher-system-agent <command>

  status [-o json] [-f]       say what the agent of this host does, waits for and failed at; -f follows the output
  plan FILE [-o json]         say what a plan would do to this host, and do nothing
  bundle [FILE]               collect how this host stands in one file for others, without secrets; needs no server
  sentinel                    take plans and perform them until stopped; what the systemd unit runs
  validate-config FILE        check an agent configuration
  validate-connection FILE    check connection information
  self-update                 replace this agent by another version, which goes back by itself; -h lists the flags
  version                     print the version
  help                        print this

environment of sentinel:
  CATTLE_AGENT_CONFIG              configuration file
  RANCHER_SYSTEM_AGENT_CONFIG_DIR  directory with config.yaml, when CATTLE_AGENT_CONFIG is not set
  CATTLE_LOGLEVEL                  trace, debug, info (default), warn or error
  CATTLE_AGENT_STRICT_VERIFY       accepted for compatibility: the server's CA is always verified
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY

environment of sentinel, status and bundle:
  RANCHER_SYSTEM_AGENT_STATUS_SOCKET  where the agent answers (default /run/rancher-system-agent/status.sock)
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run performs a command and returns the exit code: 0, or 1 after one line that says why.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.Bool("version", false, "")
	flags.BoolVar(version, "v", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		return fail(stderr, fmt.Errorf("%w; see %s help", err, name))
	case *version:
		return printVersion(stdout)
	}
	args = flags.Args()
	if len(args) == 0 {
		fmt.Fprint(stdout, usage)
		return 0
	}
	command, args := args[0], args[1:]
	if command != "self-update" && len(args) == 1 && (args[0] == "-h" || args[0] == "--help") { // that one has a page of its own
		command = "help"
	}
	switch command {
	case "help":
		fmt.Fprint(stdout, usage)
		return 0
	case "version":
		return printVersion(stdout)
	case supervise.Entry: // with one it never comes here
		return fail(stderr, fmt.Errorf("%s needs one directory", command))
	case "validate-config":
		return validate(stderr, command, args, validateConfig)
	case "validate-connection":
		return validate(stderr, command, args, validateConnection)
	case "self-update":
		return selfUpdate(args, stdout, stderr)
	case selfupdate.WatchCommand:
		return watchUpdate(args, stdout, stderr)
	case "plan":
		return showPlan(args, os.Getenv, stdout, stderr)
	case "bundle":
		return writeBundle(args, os.Getenv, stdout, stderr)
	case "status":
		return showStatus(args, os.Getenv, stdout, stderr)
	case "sentinel":
		if len(args) > 0 {
			return fail(stderr, errors.New("sentinel takes no arguments"))
		}
		return sentinel(stdout, stderr)
	}
	return fail(stderr, fmt.Errorf("no such command: %q; see %s help", command, name))
}

// untilStopped is a context that ends when the command has to stop.
func untilStopped() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

func fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return 1
}

func printVersion(stdout io.Writer) int {
	fmt.Fprintf(stdout, "%s version %s\n", name, drover.Version)
	return 0
}

func validate(stderr io.Writer, command string, args []string, check func(path string) error) int {
	if len(args) != 1 {
		return fail(stderr, fmt.Errorf("%s needs one file", command))
	}
	if err := check(args[0]); err != nil {
		return fail(stderr, err)
	}
	return 0
}

func validateConfig(path string) error {
	_, err := config.LoadAgent(path)
	return err
}

func validateConnection(path string) error {
	c, err := config.LoadConnection(path)
	if err != nil {
		return err
	}
	if _, err := remote.ParseKubeconfig(c.KubeConfig); err != nil {
		return fmt.Errorf("connection information %s: %w", path, err)
	}
	return nil
}

// sentinel is the agent's life. Its errors are of this host and go to the journal with the rest.
func sentinel(stdout, stderr io.Writer) int {
	if os.Geteuid() != 0 {
		return fail(stderr, errors.New("sentinel has to run as root, because plans change the host"))
	}
	level, err := parseLevel(os.Getenv("CATTLE_LOGLEVEL"))
	if err != nil {
		return fail(stderr, err)
	}
	log := newLogger(stdout, level, os.Getenv)
	tunnel.LogTo(log)
	executable, err := os.Executable()
	if err != nil {
		return fail(stderr, fmt.Errorf("find this program: %w", err))
	}
	watchdog, err := systemd.Watchdog(os.Getenv, os.Getpid())
	if err != nil {
		log.Warn("watchdog settings cannot be read and are ignored", "error", err)
	}
	saveMemory()

	ctx, stop := untilStopped()
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the agent at once
	refresh := make(chan os.Signal, 1)
	signal.Notify(refresh, syscall.SIGHUP)
	log.Info(name, "version", drover.Version, "pid", os.Getpid())
	err = daemon.Run(ctx, daemon.Options{
		Getenv:       os.Getenv,
		StatusSocket: statusSocket(os.Getenv),
		Supervisor:   []string{executable, supervise.Entry},
		Version:      drover.Version,
		UserAgent:    fmt.Sprintf("%s/%s (%s/%s) drover", name, drover.Version, runtime.GOOS, runtime.GOARCH),
		Notify:       func(state string) error { return systemd.Notify(os.Getenv, state) },
		Watchdog:     watchdog,
		Refresh:      refresh,
		Logger:       log,
	})
	if err != nil {
		log.Error("agent cannot go on", "error", err)
		return 1
	}
	return 0
}
