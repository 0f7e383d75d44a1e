// Giving a plan to machines of a fleet.

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/daemon/outputstream"
	"github.com/drover-project/drover/plans/handwritten"
)

// giveOptions are how a plan is to be given.
type giveOptions struct {
	file, fleet, concurrency     string
	labels                       []string
	dryRun, wait, queue, replace bool
	timeout                      time.Duration
}

func (a *app) machinesPlan() *cobra.Command {
	o := giveOptions{timeout: 30 * time.Minute}
	cmd := &cobra.Command{
		Use:   "plan [NAME...] -f FILE",
		Args:  usageerr.Between(0, "NAME..."),
		Short: "Give machines of a fleet a plan",
		Long: `Give machines of a fleet a plan: those that are named and those that have all labels of -l, or, with --fleet
alone, all of a fleet. The file is in YAML or JSON, in the form that hosts take from a directory. Machines that have
this plan, and did not fail with it, are left alone.

It is one operation. So many machines are on their way at a time as --concurrency says, one by default; one that fails
is tried again and keeps its place. With --wait it is followed, with what instructions print on the hosts, and the
exit code is 0 when all machines have the plan and are Active.`,
		Example: `  drover machines plan edge-1 -f motd.yaml --dry-run
  drover machines plan -l site=north -f motd.yaml --concurrency 25% --wait
  drover machines plan --fleet edge -f motd.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.file == "":
				return usage("which plan? give its file with -f, or -f - for standard input")
			case len(args) == 0 && len(o.labels) == 0 && o.fleet == "":
				return usage("which machines? name them, choose them with -l key=value, or all of a fleet with --fleet")
			}
			for _, label := range o.labels {
				if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
					return usage("-l %s is not of the form key=value", label)
				}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.give(cmd.Context(), c, args, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "filename", "f", "", "file with the plan, or - for standard input")
	f.StringArrayVarP(&o.labels, "label", "l", nil, "machines with this label, key=value; with several, those that have all of them (repeat)")
	f.StringVar(&o.fleet, "fleet", "", "machines of this fleet, where names and labels do not say which")
	f.StringVar(&o.concurrency, "concurrency", "1", "how many machines may be on their way at a time: a number, 0 for all, or a part such as 25%")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be done on which machine, in their order, and change nothing")
	f.BoolVar(&o.wait, "wait", false, "follow it until it has ended")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "how long --wait waits")
	f.BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the fleet is under way")
	f.BoolVar(&o.replace, "replace", false, "end the plan that is being given in favour of this one")
	cmd.MarkFlagsMutuallyExclusive("queue", "replace")
	return cmd
}

// planText reads a plan's file. What is wrong with it is said with file and line before anything is asked.
func (a *app) planText(name string) ([]byte, error) {
	var in io.Reader = a.In
	called := "standard input"
	if name != "-" {
		f, err := os.Open(filepath.Clean(name))
		if err != nil {
			return nil, fmt.Errorf("read the plan: %w", err)
		}
		defer f.Close()
		in, called = f, name
	}
	text, err := io.ReadAll(io.LimitReader(in, handwritten.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if _, err := handwritten.Parse(called, text); err != nil {
		return nil, err
	}
	return text, nil
}

func (a *app) give(ctx context.Context, c *client.Client, names []string, o giveOptions) error {
	text, err := a.planText(o.file)
	if err != nil {
		return err
	}
	if o.fleet == "" {
		if o.fleet, err = a.fleetOf(ctx, c, names, o.labels); err != nil {
			return err
		}
	}
	q := url.Values{"machine": names, "label": o.labels, "concurrency": {o.concurrency}}
	for name, is := range map[string]bool{"dryRun": o.dryRun, "queue": o.queue, "replace": o.replace} {
		if is {
			q.Set(name, "true")
		}
	}
	var result apitypes.PlanResult
	if err := c.Do(ctx, http.MethodPost, fleetPath(o.fleet)+"/plan?"+q.Encode(), "application/yaml", text, &result); err != nil {
		return fmt.Errorf("give a plan: %w", err)
	}
	if err := a.show(result, func(t *table) { givenRows(t, result, o.dryRun) }); err != nil || !o.wait || result.Operation == "" {
		return err
	}
	return a.waitGiven(ctx, c, result, o.timeout)
}

func givenRows(t *table, r apitypes.PlanResult, dryRun bool) {
	action := fmt.Sprintf("plan %s %s to %d machines of fleet %s", r.Plan, r.Action, len(r.Machines), r.Fleet)
	switch {
	case r.Action == apitypes.PlanUnchanged:
		action = fmt.Sprintf("unchanged: %d machines of fleet %s have plan %s already", r.Alone, r.Fleet, r.Plan)
	case r.Action == apitypes.PlanQueued:
		action = fmt.Sprintf("plan %s queued for %d machines of fleet %s", r.Plan, len(r.Machines), r.Fleet)
	}
	if dryRun {
		action += " (dry run)"
	}
	if r.Operation != "" {
		action += " by operation " + r.Operation
	}
	t.Row(action)
	if r.Preview != nil && r.Action != apitypes.PlanUnchanged {
		preview(t, *r.Preview)
	}
}

// fleetOf is the fleet of the machines that are named or have all of the labels.
func (a *app) fleetOf(ctx context.Context, c *client.Client, names, labels []string) (string, error) {
	if len(names) > 0 {
		m, err := a.findMachine(ctx, c, names[0])
		if err == nil && !m.Fleet {
			err = fmt.Errorf("machine %s is of cluster %s, whose document its plans are made of; only machines of a fleet are given plans", m.Name, m.Cluster)
		}
		return m.Cluster, err
	}
	list, err := client.List[apitypes.Machine](ctx, c, machinesPath)
	if err != nil {
		return "", fmt.Errorf("find machines: %w", err)
	}
	var found []string
	for _, m := range list {
		has := func(label string) bool {
			key, value, _ := strings.Cut(label, "=")
			got, ok := m.Labels[key]
			return ok && got == value
		}
		if m.Fleet && !slices.Contains(found, m.Cluster) && !slices.ContainsFunc(labels, func(label string) bool { return !has(label) }) {
			found = append(found, m.Cluster)
		}
	}
	switch len(found) {
	case 0:
		return "", absent("no machine of a fleet has label %s; `drover fleets show NAME` shows the labels there are", strings.Join(labels, " and "))
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	return "", usage("machines with label %s are of fleets %s; say which with --fleet", strings.Join(labels, " and "), strings.Join(found, " and "))
}

const (
	// followedHosts is how many hosts are listened to at a time.
	followedHosts = 8
	// lastWords is how long a host is listened to after its outcome is known, which may come first.
	lastWords = time.Second
)

// waitGiven follows an operation that gives a plan, with what it prints on the hosts, to its end.
func (a *app) waitGiven(ctx context.Context, c *client.Client, r apitypes.PlanResult, timeout time.Duration) error {
	one := *a
	one.Out = &shared{to: a.Out}
	hear := &hearing{client: c, plan: r.Plan, out: one.Out, end: map[string]context.CancelFunc{}}
	follow := hear.follow
	if !a.tabular() {
		follow = func(context.Context, apitypes.Operation) {} // the result is out, and what comes is the operation
	}
	listening, stop := context.WithCancel(ctx)
	last, err := one.awaitOperation(ctx, c, r.Operation, timeout, func(o apitypes.Operation) { follow(listening, o) })
	if err == nil || last.State.Ended() {
		hear.rest()
	}
	stop()
	hear.all.Wait()
	for _, t := range last.Tasks {
		var m apitypes.Machine
		if t.State != apitypes.TaskFailed || !a.tabular() || c.Get(ctx, machinesPath+"/"+strings.Split(last.Cluster, "/")[0]+"/"+t.ID, &m) != nil || m.LastFailure == nil {
			continue
		}
		_ = a.show(m, func(rows *table) { // the error is that of the operation
			rows.Row("machine", m.Name)
			describeFailure(rows, m)
		})
	}
	return err
}

// hearing listens to the hosts of an operation while they carry a plan out.
type hearing struct {
	client *client.Client
	plan   string // the beginning of its checksum
	out    io.Writer
	end    map[string]context.CancelFunc // of hosts that are listened to, by machine
	all    sync.WaitGroup
}

// follow begins to listen to machines that are on their way, and ends that for those that are through.
func (h *hearing) follow(ctx context.Context, o apitypes.Operation) {
	namespace, _, _ := strings.Cut(o.Cluster, "/")
	for _, t := range o.Tasks {
		end, listening := h.end[t.ID]
		switch {
		case t.State == apitypes.TaskRunning && !listening && len(h.end) < followedHosts:
			one, cancel := context.WithCancel(ctx)
			h.end[t.ID] = cancel
			h.all.Go(func() { h.listen(one, apitypes.Machine{ID: namespace + "/" + t.ID, Name: cmp.Or(t.Host, t.ID)}) })
		case t.State.Ended() && listening:
			delete(h.end, t.ID)
			h.all.Go(func() { wait(ctx, lastWords); end() })
		}
	}
}

// rest waits for the last words of those that are listened to.
func (h *hearing) rest() {
	for name, end := range h.end {
		delete(h.end, name)
		h.all.Go(end)
	}
	h.all.Wait()
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// listen prints what instructions of the plan print on a host. A host that has no tunnel is heard by its outcome alone.
func (h *hearing) listen(ctx context.Context, m apitypes.Machine) {
	open := func(ctx context.Context, q url.Values) (io.ReadCloser, error) {
		return h.client.Stream(ctx, machinePath(m)+"/output?"+q.Encode())
	}
	printer := outputstream.NewPrinter(&hostLines{to: h.out, name: m.Name})
	ours := false // only where a try begins its plan is named
	_ = outputstream.Follow(ctx, outputstream.Place{Attempt: -1, Follow: true}, open, func(r outputstream.Record) {
		if r.Kind == outputstream.Began {
			ours = strings.HasPrefix(r.Plan, h.plan)
		}
		if ours {
			printer.Print(r)
		}
	}, nil)
	printer.Flush()
}

// shared is a writer for several at once; each of their writes comes out whole.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(b)
}

// hostLines writes whole lines, each behind the name of its host.
type hostLines struct {
	to   io.Writer
	name string
	rest []byte // of a line that is not whole
}

// Write implements io.Writer.
func (h *hostLines) Write(b []byte) (int, error) {
	h.rest = append(h.rest, b...)
	for {
		i := slices.Index(h.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		if _, err := fmt.Fprintf(h.to, "%s | %s\n", h.name, h.rest[:i]); err != nil {
			return len(b), err
		}
		h.rest = h.rest[i+1:]
	}
}
