// Command abuse repeats against a real server what anonymous clients have been seen to do: bodies
// of aliases, names of a megabyte, bodies that stall, clients that never read, bogus logins,
// floods of registrations; and has hosts and clusters lie to all its questions. The server runs in a memory cgroup where one can be made. A
// well-behaved client is timed before, during and after each; the table that is printed says
// what the server held meanwhile, and the exit code whether a limit was broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	o := options{}
	flag.StringVar(&o.drover, "drover", "", "the server's program; empty builds it")
	flag.StringVar(&o.dir, "dir", "", "where the server's data and log are put; empty is a temporary directory")
	flag.Int64Var(&o.memory, "memory", 512<<20, "bytes that the server may have")
	flag.StringVar(&o.only, "only", "", "a text in the names of the attacks that are done; empty is all")
	flag.StringVar(&o.lie, "lie", "", "a text in the names of the lies that are told; empty is all")
	each := flag.Duration("each", 8*time.Second, "how long each attack of strangers goes on")
	who := flag.String("who", "strangers,liars", "who attacks: strangers, liars or both")
	from := flag.String("from", "", "the address of a server that runs with its data below -dir, on which the one attack that -only names is done")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var attacks []attack
	if strings.Contains(*who, "strangers") {
		attacks = append(attacks, strangers(*each)...)
	}
	if strings.Contains(*who, "liars") {
		attacks = append(attacks, liars()...)
	}
	if *from != "" {
		note, err := one(ctx, o, *from, attacks)
		if err != nil {
			note = "!" + err.Error()
		}
		fmt.Print(note)
		return
	}
	report, err := run(ctx, o, attacks)
	fmt.Print(report.String())
	if err != nil {
		fmt.Fprintln(os.Stderr, "abuse:", err)
		os.Exit(1)
	}
}
