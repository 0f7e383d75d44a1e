// Command drover is the management server and the operator's command line, one binary. The server starts it under another
// name for lines of kubectl that people type into its page.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-project/drover/cmd/drover/cli"
	"github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
)

func main() {
	if os.Args[0] == kubectl.Program {
		os.Exit(commands.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends things in order; a second one ends them at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Getenv))
}
