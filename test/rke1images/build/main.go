// Command build makes the images of RKE1 for the end-to-end tests before they need them: `go run ./test/rke1images/build`
// in the root of the module. The tests build what is missing by themselves; this shows how far it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/rke1images"
)

func main() {
	versions := flag.String("versions", strings.Join([]string{rke1images.Version, rke1images.Older, rke1images.Next, rke1images.Newer}, ","), "the versions, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx, strings.Split(*versions, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, versions []string) (err error) {
	e, err := engine.Start(ctx, engine.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	_, err = rke1images.Build(ctx, rke1images.Options{
		Module: ".", Engine: e, Versions: versions,
		Say: func(format string, args ...any) {
			fmt.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
		},
	})
	return err
}
