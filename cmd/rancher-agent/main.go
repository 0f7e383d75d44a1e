// Rancher-agent runs on a Docker host of an RKE1 cluster, as a container or as a systemd
// service: it opens the host's Docker engine to the server through a tunnel and keeps the
// containers that the server wants there. In a pod, with CATTLE_CLUSTER=true, it opens the
// Kubernetes API of its cluster to the server instead. It replaces the image's entry point and agent
// of the same name that Rancher ships.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/daemon/loglevel"
	"github.com/drover-project/drover/daemon/node"
	"github.com/drover-project/drover/tunnel"
)

const name = "rancher-agent"

const usage = `usage: rancher-agent [flags]           be the node agent of this Docker host; in a pod, with
                                       CATTLE_CLUSTER=true, the agent of its cluster
       rancher-agent loglevel [--set trace|debug|info|warn|error] [--socket-location FILE]
       rancher-agent health [--ready]   whether the agent lives, or does its work; exit code 0 or 1
       rancher-agent kube-api-auth      in a pod: tell a cluster's API servers who a token is
       rancher-agent version | help
       rancher-agent -- COMMAND …       run a command instead

  -s, --server URL             address of the management server          CATTLE_SERVER
  -t, --token TOKEN            registration token of the cluster         CATTLE_TOKEN
  -c, --ca-checksum SHA256     of the server's CA                        CATTLE_CA_CHECKSUM
  -e, --etcd                   roles of this host; at least one          CATTLE_ROLE
  -p, --controlplane
  -w, --worker
  -a, --all-roles
  -n, --node-name NAME         default: the host's name                  CATTLE_NODE_NAME
      --address ADDRESS        IP, interface, or a cloud's keyword       CATTLE_ADDRESS
  -i, --internal-address ADDR  the same                                  CATTLE_INTERNAL_ADDRESS
  -l, --label KEY=VALUE        can be repeated                           CATTLE_NODE_LABEL
      --taints KEY=VALUE:EFF   can be repeated                           CATTLE_NODE_TAINTS
  -r, --no-register            connect only                              CATTLE_AGENT_CONNECT=true
  -o, --only-write-certs       write certificates, then stop             CATTLE_WRITE_CERT_ONLY=true
  -d, --debug                                                            CATTLE_DEBUG=true

The variables, and more of them, are explained in docs/reference/node-agent.md.
`

func main() {
	if err := hideToken(os.Args); err != nil {
		// The agent works without it.
		fmt.Fprintf(os.Stderr, "%s: the token stays in the arguments, which every user of this host can read: %v; pass it by %s\n", name, err, tokenVariable)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run performs a command and returns the exit code: 0, or 1 after a line that says why.
func run(args []string, stdout, stderr io.Writer) int {
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch first {
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return 0
	case "version", "--version":
		fmt.Fprintf(stdout, "%s version %s\n", name, drover.Version)
		return 0
	case "--":
		share, wanted, err := readShareMnt(args[1:])
		switch {
		case err != nil:
			return fail(stderr, err)
		case wanted:
			return share.run(stderr)
		}
		return fail(stderr, instead(args[1:]))
	case "loglevel":
		return printAnswer(stdout, stderr, args[1:], askLevel)
	case "kube-api-auth":
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: startLevel(nil)}))
		if err := apiAuth(context.Background(), args[1:], log); err != nil {
			return fail(stderr, err)
		}
		return 0
	case "health":
		return printAnswer(stdout, stderr, args[1:], askHealth)
	}
	return agent(args, nil, stderr)
}

func fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return 1
}

// instead becomes another program; it returns only when it cannot.
func instead(args []string) error {
	if len(args) == 0 {
		return errors.New("-- needs a command")
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// printAnswer prints the answer of a command.
func printAnswer(stdout, stderr io.Writer, args []string, command func(context.Context, []string) (string, error)) int {
	text, err := command(context.Background(), args)
	if text != "" {
		fmt.Fprintln(stdout, text)
	}
	if err != nil {
		return fail(stderr, err)
	}
	return 0
}

func askLevel(ctx context.Context, args []string) (string, error) {
	f := flag.NewFlagSet("loglevel", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	set := f.String("set", "", "")
	socket := f.String("socket-location", orElse(os.Getenv("LOG_SOCKET_LOCATION"), loglevel.Socket), "")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return "", errors.New("loglevel takes --set LEVEL and --socket-location FILE")
	}
	return loglevel.Ask(ctx, *socket, *set)
}

func askHealth(ctx context.Context, args []string) (string, error) {
	f := flag.NewFlagSet("health", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	ready := f.Bool("ready", false, "")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return "", errors.New("health takes --ready and nothing else")
	}
	h, err := node.AskHealth(ctx, healthSocket(os.Getenv), *ready)
	if err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(h, "", "  ")
	if err == nil && !h.OK {
		err = errors.New("not ready")
	}
	return string(b), err
}

// agent is the agent's life. adjust, unless it is nil, changes its options.
func agent(args []string, adjust func(*node.Options), stderr io.Writer) int {
	o, err := settings(args, host{os.Getenv, os.ReadFile, os.Hostname})
	if err != nil {
		return fail(stderr, err)
	}
	if adjust != nil {
		adjust(&o)
	}
	level := &slog.LevelVar{}
	level.Set(startLevel(args))
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
	tunnel.LogTo(log)
	debug.SetGCPercent(50) // the agent is idle for weeks and shares its host with what the host is for
	log.Info(name, "version", drover.Version, "pid", os.Getpid())
	log.Info("INFO: Arguments: " + strings.Join(redacted(args), " "))
	log.Info("INFO: Environment: " + strings.Join(environment(os.Environ()), " "))

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the agent at once
	serving := make(chan struct{})
	go func() {
		defer close(serving)
		socket := orElse(os.Getenv("LOG_SOCKET_LOCATION"), loglevel.Socket)
		if err := loglevel.Serve(ctx, socket, level); ctx.Err() == nil {
			log.Warn("log level cannot be changed while the agent runs", "error", err)
		}
	}()
	o.UserAgent = fmt.Sprintf("%s/%s (%s/%s) drover", name, drover.Version, runtime.GOOS, runtime.GOARCH)
	o.Logger = log
	refresh := make(chan os.Signal, 1)
	signal.Notify(refresh, syscall.SIGHUP)
	o.Refresh = refresh
	err = node.Run(ctx, o)
	stop()
	<-serving
	if err != nil {
		log.Error("agent cannot go on", "error", err)
		return 1
	}
	return 0
}

// startLevel is how much is said from the start: trace wins over debug.
func startLevel(args []string) slog.Level {
	switch {
	case os.Getenv("CATTLE_TRACE") == "true", os.Getenv("RANCHER_TRACE") == "true":
		return loglevel.Trace
	case os.Getenv("CATTLE_DEBUG") == "true", os.Getenv("RANCHER_DEBUG") == "true",
		slices.ContainsFunc(args, func(s string) bool { return s == "-d" || s == "--debug" || s == "-debug" }):
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// withoutTime leaves the time to the journal, which has a clock of its own. Docker has one too.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// redacted are the arguments without the token.
func redacted(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		option, _, whole := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || option != "token" && option != "t" {
			continue
		}
		if whole {
			out[i] = arg[:strings.Index(arg, "=")+1] + "REDACTED"
		} else if i+1 < len(out) {
			out[i+1] = "REDACTED"
		}
	}
	return out
}

// environment are the CATTLE_ variables without the token, sorted.
func environment(all []string) []string {
	var out []string
	for _, e := range all {
		key, _, _ := strings.Cut(e, "=")
		switch {
		case key == "CATTLE_TOKEN":
			out = append(out, key+"=REDACTED")
		case strings.HasPrefix(key, "CATTLE_"):
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}
