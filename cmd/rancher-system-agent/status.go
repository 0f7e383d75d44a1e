// The status command: what the agent of this host does and waits for, and what failed.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/drover-project/drover/daemon"
	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/outputstream"
	"github.com/drover-project/drover/daemon/status"
)

// statusSocketEnv names another socket, for several agents on one host.
const statusSocketEnv = "RANCHER_SYSTEM_AGENT_STATUS_SOCKET"

func statusSocket(env func(string) string) string {
	if path := env(statusSocketEnv); path != "" {
		return path
	}
	return status.DefaultSocket
}

// showing are the flags of commands that show something.
type showing struct {
	format string
	follow bool
}

// parseShowing reads the flags, before and after the arguments.
func parseShowing(command string, args []string, follows bool) (s showing, rest []string, err error) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.format, "o", "text", "")
	if follows {
		flags.BoolVar(&s.follow, "f", false, "")
	}
	for {
		if err := flags.Parse(args); err != nil {
			return s, nil, fmt.Errorf("%s: %w; see %s help", command, err, name)
		}
		if args = flags.Args(); len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if s.format != "text" && s.format != "json" {
		return s, nil, fmt.Errorf("%s: -o %.40q is neither text nor json", command, s.format)
	}
	return s, rest, nil
}

func showStatus(args []string, env func(string) string, stdout, stderr io.Writer) int {
	show, rest, err := parseShowing("status", args, true)
	if err == nil && len(rest) > 0 {
		err = errors.New("status takes no arguments")
	}
	if err != nil {
		return fail(stderr, err)
	}
	ctx, stop := untilStopped()
	defer stop()
	client := status.NewClient(statusSocket(env))
	s, err := client.Status(ctx)
	switch {
	case errors.Is(err, status.ErrNoAgent):
		fail(stderr, fmt.Errorf("%w; systemctl start rancher-system-agent starts it", err))
		if show.format == "json" {
			stdout = stderr // who reads JSON there gets no text
		}
		showLedgers(env, stdout, stderr)
		return 1
	case err != nil:
		return fail(stderr, err)
	}
	if show.format == "json" {
		err = printJSON(stdout, s)
	} else {
		_, err = io.WriteString(stdout, s.String())
	}
	if err == nil && show.follow {
		if len(s.Idle()) > 0 {
			fmt.Fprintf(stderr, "%s: waiting for the next output of any instruction; Ctrl-C ends this\n", name)
		}
		err = followOutput(ctx, client, show, stdout, stderr)
	}
	if err != nil {
		return fail(stderr, err)
	}
	return 0
}

// followOutput prints output as it comes until the person has seen enough.
func followOutput(ctx context.Context, client *status.Client, show showing, stdout, stderr io.Writer) error {
	open := func(ctx context.Context, q url.Values) (io.ReadCloser, error) { return client.Output(ctx, q.Encode()) }
	printer := outputstream.NewPrinter(stdout)
	each := printer.Print
	if show.format == "json" {
		lines := json.NewEncoder(stdout)
		each = func(r outputstream.Record) { _ = lines.Encode(r) } // the reader may have gone, which a signal reports
	}
	lost := func(err error) { fmt.Fprintf(stderr, "%s: %v; asked again\n", name, err) }
	err := outputstream.Follow(ctx, outputstream.Place{Attempt: -1, Follow: true, Periodic: true}, open, each, lost)
	printer.Flush()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// showLedgers says what an agent that does not run has left to do, and what failed last.
func showLedgers(env func(string) string, stdout, stderr io.Writer) {
	path := config.Find(env)
	c, err := config.LoadAgent(path)
	if err != nil {
		fail(stderr, err)
		return
	}
	if c.RemoteEnabled {
		if err := validateConnection(c.ConnectionInfoFile); err != nil {
			fail(stderr, err) // that may be why none runs
		}
	}
	left, err := daemon.Interrupted(c.LedgerDirectory())
	if err != nil {
		fail(stderr, err)
	}
	if left == "" && err == nil {
		fmt.Fprintf(stdout, "No plan was interrupted (configuration %s, ledgers in %s).\n", path, c.LedgerDirectory())
	}
	io.WriteString(stdout, left)
	failures, err := status.ReadFailures(status.FailuresFile(c.LedgerDirectory()))
	if err != nil {
		fail(stderr, err)
	}
	io.WriteString(stdout, status.Failed(failures, time.Now()))
}

func printJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}
