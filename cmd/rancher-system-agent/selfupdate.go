// The commands by which the agent replaces itself.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/selfupdate"
)

const selfUpdateUsage = `usage: rancher-system-agent self-update --from FILE|URL --checksum SHA256 [flags]

  --from FILE|URL     the new agent
  --checksum SHA256   its SHA-256 in hexadecimal
  --ca-file FILE      authorities of an https server; the system's without it
  --within TIME       how long the new agent may take to be healthy (2m)
  --no-wait           do not wait for the outcome

The new agent has to start, notify systemd that it is ready and, when this one had, reach its server. Otherwise this one
comes back. Exit code: 0 updated, or the same program; 1 not updated.
`

func selfUpdate(args []string, stdout, stderr io.Writer) int {
	var r selfupdate.Request
	flags := flag.NewFlagSet("self-update", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&r.From, "from", "", "")
	flags.StringVar(&r.Checksum, "checksum", "", "")
	flags.StringVar(&r.CAFile, "ca-file", "", "")
	flags.DurationVar(&r.Within, "within", selfupdate.DefaultWithin, "")
	noWait := flags.Bool("no-wait", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, selfUpdateUsage)
		return 0
	case err != nil:
		return fail(stderr, err)
	case flags.NArg() > 0 || r.From == "" || r.Checksum == "":
		return fail(stderr, errors.New("self-update needs --from and --checksum, and takes no arguments; self-update -h lists the flags"))
	case os.Geteuid() != 0:
		return fail(stderr, errors.New("self-update has to run as root"))
	}
	ctx, stop := untilStopped()
	defer stop()
	last, err := update(ctx, r, *noWait, stdout)
	if errors.Is(err, selfupdate.ErrSame) {
		fmt.Fprintf(stdout, "%s: %v\n", name, err)
		return 0
	}
	if err == nil && !*noWait {
		err = last.Err()
	}
	if err != nil {
		return fail(stderr, err)
	}
	return 0
}

// update begins an update and waits for its end, which the unit that decides brings about.
func update(ctx context.Context, r selfupdate.Request, noWait bool, stdout io.Writer) (selfupdate.Last, error) {
	u, err := updater(ctx)
	if err != nil {
		return selfupdate.Last{}, err
	}
	id, err := u.Begin(ctx, r)
	if err != nil {
		return selfupdate.Last{}, err
	}
	if noWait {
		fmt.Fprintf(stdout, "the update has begun; journalctl -u %s shows it, %s/last.json its outcome\n", selfupdate.WatchService, u.Dir)
		return selfupdate.Last{}, nil
	}
	fmt.Fprintf(stdout, "the new agent is put in place and has %s to be healthy\n", r.Within)
	// As long again for taking it back, and something for systemd.
	ctx, cancel := context.WithTimeout(ctx, 2*r.Within+2*time.Minute)
	defer cancel()
	last, err := u.Await(ctx, id)
	if err == nil && last.Updated {
		fmt.Fprintf(stdout, "updated from %s to %s\n", last.OldVersion, last.NewVersion)
	}
	return last, err
}

// updater is made of this program and of what its service is configured with.
func updater(ctx context.Context) (*selfupdate.Updater, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	getenv, err := selfupdate.ServiceEnv(ctx, os.Getenv)
	if err != nil {
		return nil, err
	}
	path := config.Find(getenv)
	c, err := config.LoadAgent(path)
	if err != nil {
		return nil, err
	}
	return &selfupdate.Updater{Program: program, Version: drover.Version, Config: path, Dir: selfupdate.Dir(c.LedgerDirectory())}, nil
}

// watchUpdate is what the unit of an update runs.
func watchUpdate(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || os.Geteuid() != 0 {
		return fail(stderr, fmt.Errorf("%s needs one directory, and root; it is for self-update alone", selfupdate.WatchCommand))
	}
	log := newLogger(stdout, slog.LevelInfo, os.Getenv)
	ctx, stop := untilStopped()
	defer stop()
	if err := (&selfupdate.Watcher{Dir: args[0], Logger: log}).Run(ctx); err != nil && ctx.Err() == nil { // stopped is not a failure: the host goes down, or an installer takes over
		log.Error("update is held up and goes on in a second", "error", err)
		return 1
	}
	return 0
}
