// Command lyingcluster plays imported clusters whose agents open tunnels to a server and whose Kubernetes APIs answer its questions with lies.
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
	if err := liar.Run(ctx, os.Args[1:], liar.Cluster); err != nil {
		fmt.Fprintln(os.Stderr, "lyingcluster:", err)
		os.Exit(1)
	}
}
