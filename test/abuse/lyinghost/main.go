// Command lyinghost plays hosts that join a server and answer its questions with lies: for their agents, their Docker engines and their Kubernetes APIs.
// Its argument is a file with a liar.Plan.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-project/drover/test/abuse/liar"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := liar.Run(ctx, os.Args[1:], liar.Host); err != nil {
		fmt.Fprintln(os.Stderr, "lyinghost:", err)
		os.Exit(1)
	}
}
