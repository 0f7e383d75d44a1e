// Command build makes the k3s of the end-to-end tests before they need it: `go run ./test/realk3s/build` in the root of
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

	"github.com/drover-project/drover/test/realk3s"
)

func main() {
	cache := cmp.Or(os.Getenv("DROVER_CACHE"), "/var/cache/drover")
	flag.StringVar(&cache, "cache", cache, "the directory that keeps it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_, err := realk3s.Build(ctx, realk3s.Options{
		Module: ".", CacheDir: cache, Versions: []string{realk3s.Version, realk3s.Older}, Components: true,
		Say: func(format string, args ...any) {
			fmt.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}
