// Command quickstart shows drover at work on one machine: it builds, starts a server,
// makes a host of a container, lets it join, and leaves a working cluster until
// Ctrl-C. `make quickstart` runs it after installing what it needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/journey"
	"github.com/drover-project/drover/test/realk3s"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, environ func(string) string) (err error) {
	say := func(format string, args ...any) {
		fmt.Fprintf(out, time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
	}
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "drover-quickstart-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	j, err := journey.Start(ctx, journey.Options{
		Dir: dir, Module: module, CacheDir: environ("DROVER_CACHE"), Released: released(ctx, say), Password: randomid.Secret(), Say: say, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() {
		say("ending everything that was started")
		err = errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}()
	return walk(ctx, j, out, say, environ("QUICKSTART_EXIT") == "1")
}

// released says whether hosts can pull the released k3s, and what is done where they cannot.
func released(ctx context.Context, say func(string, ...any)) bool {
	ref := realk3s.InstallerRef(realk3s.Version)
	say("looking for the released image %s", ref)
	if err := realk3s.Released(ctx, ref, nil); err != nil {
		say("%v", err)
		say("so k3s is built here from its Go module: about %d minutes the first time on two idle cores, cached afterwards", int(realk3s.ColdBuild.Minutes()))
		return false
	}
	say("hosts pull it from its registry")
	return true
}

// greet says where the page is and how to log in there. The password was made for this server, and is in no log.
func greet(out io.Writer, url, password string) {
	fmt.Fprintf(out, `
The page is open; the browser has to be told that it may trust the server's own authority.
  page        %s/dashboard/
  user        admin
  password    %s

`, url, password)
}

// walk is the user's path, one step a line.
func walk(ctx context.Context, j *journey.Journey, out io.Writer, say func(string, ...any), exit bool) error {
	say("$ drover server --data-dir %s --listen %s", j.DataDir, j.Address)
	if err := j.StartServer(ctx); err != nil {
		return err
	}
	greet(out, j.URL, j.Password)
	say("$ drover apply -f examples/k3s.yaml")
	answer, err := j.Drover(ctx, "apply", "-f", filepath.Join(j.Module, "examples/k3s.yaml"))
	if err != nil {
		return err
	}
	say("%s", strings.TrimSpace(answer))
	say("starting a host: a container with systemd of its own")
	h, err := j.Host(ctx, "pier-1")
	if err != nil {
		return err
	}
	join, err := j.JoinCommand(ctx, "harbour")
	if err != nil {
		return err
	}
	say("$ drover clusters join-command harbour --all-roles    (its line runs on the host now)")
	if _, err := h.Sh(ctx, join); err != nil {
		return err
	}
	_, err = j.Await(ctx, "Active", func(m journey.Machine) {
		line := m.DroverState
		if m.Cause != "" {
			line += ": " + m.Cause
		}
		say("%s  %s", m.MachineName(), line)
	})
	if err != nil {
		return err
	}
	return leave(ctx, j, h, out, say, exit)
}

// leave writes the kubeconfig, shows the nodes with it, and waits for Ctrl-C.
func leave(ctx context.Context, j *journey.Journey, h *host.Host, out io.Writer, say func(string, ...any), exit bool) error {
	config, err := j.Drover(ctx, "clusters", "kubeconfig", "harbour")
	if err != nil {
		return err
	}
	file := filepath.Join(j.Dir, "kubeconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	say("$ drover clusters kubeconfig harbour > %s && kubectl --kubeconfig %s get nodes", file, file)
	get := func() (string, error) { return j.Kubectl(ctx, "--kubeconfig", file, "get", "nodes") }
	if j.Released { // this machine may have no kubectl; the host has one
		get = func() (string, error) { return h.Sh(ctx, "k3s kubectl get nodes") }
	}
	nodes, err := get()
	if err != nil {
		return err
	}
	fmt.Fprint(out, nodes)
	fmt.Fprintf(out, `
The cluster works.
  server      %s
  page        %s/dashboard/    user admin, password %s
  kubeconfig  %s
  commands    DROVER_DATA_DIR=%s bin/drover machines ls
`, j.URL, j.URL, j.Password, file, j.DataDir)
	if !j.Released {
		fmt.Fprintf(out, "  kubectl     %s --kubeconfig %s get nodes\n", j.K3s.Kubectl(), file)
	}
	if exit {
		return nil
	}
	fmt.Fprintln(out, "\nCtrl-C ends it.")
	select {
	case <-ctx.Done():
		return nil
	case <-j.ServerEnded():
	}
	say("the server ended; what it knew is kept. This starts it again: %s/drover server --data-dir %s --listen %s --server-url %s", j.Bin, j.DataDir, j.Address, j.URL)
	<-ctx.Done()
	return nil
}
