// Command build makes the helm programs of the end-to-end tests before they need them: `go run ./test/helm/build` in the root of the
// module. The tests build what is missing by themselves; this shows how far it is.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/helm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, line := range helm.Lines {
		_, err := helm.Build(ctx, helm.Options{Module: ".", CacheDir: helm.CacheDir(), Line: line, Say: func(format string, args ...any) {
			fmt.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
		}})
		if err != nil {
			fmt.Fprintln(os.Stderr, "build:", err)
			os.Exit(1)
		}
	}
}
