// Command drover is the management server and the operator's command line, one binary, and on systems
// other than Linux the command line alone.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-project/drover/cmd/drover/cli"
)

func main() {
	if code, is := lineOfKubectl(); is {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends things in order; a second one ends them at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Getenv, serve))
}
