// Command build makes the stand-in of RKE2 for the end-to-end tests before they need it: `go run ./test/rke2standin/build` in the root of
// the module. The tests build what is missing by themselves; this shows how far it is.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/rke2standin"
)

func main() {
	cache := cmp.Or(os.Getenv("DROVER_CACHE"), "/var/cache/drover")
	flag.StringVar(&cache, "cache", cache, "the directory that keeps it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_, err := rke2standin.Build(ctx, rke2standin.Options{
		Module: ".", CacheDir: cache, Versions: []string{rke2standin.Version, rke2standin.Older},
		Say: func(format string, args ...any) {
			fmt.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}
