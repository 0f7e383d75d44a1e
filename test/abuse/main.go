// Command abuse repeats against a real server what anonymous clients have been seen to do: bodies
// of aliases, names of a megabyte, bodies that stall, clients that never read, bogus logins,
// floods of registrations. The server runs in a memory cgroup where one can be made. A
// well-behaved client is timed before, during and after each; the table that is printed says
// what the server held meanwhile, and the exit code whether a limit was broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	o := options{}
	flag.StringVar(&o.drover, "drover", "", "the server's program; empty builds it")
	flag.StringVar(&o.dir, "dir", "", "where the server's data and log are put; empty is a temporary directory")
	flag.Int64Var(&o.memory, "memory", 512<<20, "bytes that the server may have")
	flag.DurationVar(&o.each, "each", 8*time.Second, "how long each attack goes on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, o)
	fmt.Print(report.String())
	if err != nil {
		fmt.Fprintln(os.Stderr, "abuse:", err)
		os.Exit(1)
	}
}
