// Command bench prints drover's measures on this machine beside their budgets: the agent's
// size and memory, the time from a plan to its outcome, and what a server needs for
// thousands of agents. It uses the real binaries below bin/ (`make bench` builds them) over
// real TLS and a disk that is synced; only the thousands of agents are simulated, each with
// connections of its own. It fails when something does not work, never because of a time:
// other work on the machine is none of drover's business.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	agents  []int
	rounds  int
	cold    int
	writers int
	skip    []string
	count   int
	profile string
	peer    string
	charts  string
	hours   float64
	// clusterCounts are the numbers of clusters that a server starts on.
	clusterCounts []int
}

func parse(args []string, errs io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	agents := flags.String("agents", "1000,5000", "numbers of simulated agents, each measured on a fresh server")
	clusters := flags.String("clusters", "1000", "numbers of clusters, each on a fresh server that is then started again")
	flags.StringVar(&o.charts, "charts", "", "directory for charts of how costs grow with -agents and -clusters")
	skip := flags.String("skip", "", "parts to leave out, of "+strings.Join(partNames(), ","))
	only := flags.String("only", "", "parts to run, and no others")
	flags.IntVar(&o.count, "applies", 10_000, "plans after which the agent's memory is compared with that after 100; at most 100 leaves it out")
	flags.IntVar(&o.rounds, "rounds", 100, "plans to time on one real agent")
	flags.IntVar(&o.cold, "cold", 3, "of them after so long a rest that the agent has given its idle connection up")
	flags.IntVar(&o.writers, "writers", 64, "how many plans are written at once in a roll-out")
	flags.StringVar(&o.profile, "profile", "", "directory for profiles of the servers during roll-outs")
	flags.Float64Var(&o.hours, "hours", 0, "how long the largest number of -agents works on two servers; 0 leaves it out")
	flags.StringVar(&o.peer, "peer", "", "another system agent whose latency is measured in turn with drover's, for example what test/peer/build-agent.sh makes")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err2 error
	o.agents, err = numbers("-agents", *agents)
	o.clusterCounts, err2 = numbers("-clusters", *clusters)
	if err := errors.Join(err, err2); err != nil {
		return o, err
	}
	if o.skip, err = partsOf("-skip", *skip); err != nil {
		return o, err
	}
	wanted, err := partsOf("-only", *only)
	if err != nil {
		return o, err
	}
	for _, name := range partNames() {
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			o.skip = append(o.skip, name)
		}
	}
	if o.rounds < 1 || o.writers < 1 || o.cold < 0 || o.hours < 0 {
		return o, errors.New("-rounds and -writers are at least 1, -cold and -hours at least 0")
	}
	return o, nil
}

// numbers are those of an option.
func numbers(option, list string) (all []int, err error) {
	for _, text := range strings.FieldsFunc(list, isComma) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a number", option, text)
		}
		all = append(all, n)
	}
	return all, nil
}

// partsOf are the parts that an option names.
func partsOf(option, list string) (names []string, err error) {
	for _, name := range strings.FieldsFunc(list, isComma) {
		if !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("%s: there is no part %q, only %s", option, name, strings.Join(partNames(), ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

func isComma(r rune) bool { return r == ',' }

// bench is one run.
type bench struct {
	options
	module string // the sources, where bin/ is
	dir    string // everything that is made, removed at the end
	table  *table
	// machines and clusters are what so many of them cost.
	machines, clusters growth
	say                func(format string, args ...any)
}

// part is a group of measures that can be left out.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

var parts = [...]part{
	{"agent", (*bench).agentSize},
	{"node", (*bench).nodeAgent},
	{"latency", (*bench).latency},
	{"drop", (*bench).drop},
	{"apply", (*bench).applies},
	{"fleet", (*bench).fleets},
	{"join", (*bench).join},
	{"change", (*bench).change},
	{"pages", (*bench).pages},
	{"cold", (*bench).coldStarts},
	{"backup", (*bench).backup},
	{"proxy", (*bench).kubeProxy},
	{"rights", (*bench).rights},
	{"soak", (*bench).soak},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func run(ctx context.Context, args []string, out, errs io.Writer) (err error) {
	o, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	b := &bench{options: o, table: newTable(), machines: growth{}, clusters: growth{}}
	started := time.Now()
	b.say = func(format string, args ...any) {
		fmt.Fprintf(errs, "%6.1fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
	if b.module, err = os.Getwd(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(b.module, "go.mod")); err != nil {
		return errors.New("run it in drover's source directory, as `make bench` does")
	}
	if err := raiseFileLimit(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "drover-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.machine(); err != nil {
		return err
	}
	for _, p := range parts {
		if slices.Contains(b.skip, p.name) {
			continue
		}
		if err := p.run(b, ctx); err != nil {
			// What was measured until then is still true.
			_ = b.table.print(out)
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return errors.Join(b.table.print(out), b.drawCharts())
}

// machine notes what the figures depend on.
func (b *bench) machine() error {
	sync, err := syncTime(b.dir)
	if err != nil {
		return err
	}
	b.table.note("this machine", fmt.Sprintf("%d cores, %s/%s; writing and syncing 4 KiB takes %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, inMillis(sync)))
	return nil
}
