// Package supportbundle is drover support-bundle: what is known of a server, a cluster or a machine, in one file for others. It asks the server
// with the rights of the caller, and on the server's own host it looks at that, too, so that there is a bundle also of a server that is down.
package supportbundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/daemon/bundle"
)

// App is what the command needs of the program.
type App struct {
	Client      func() (*client.Client, error)
	FindCluster func(ctx context.Context, c *client.Client, name string) (apitypes.Cluster, error)
	FindMachine func(ctx context.Context, c *client.Client, name string) (apitypes.Machine, error)
	// DataDir is that of a server on this host, if there is one.
	DataDir func() string
	// Findings are what drover server check finds on this host; nil where no server can run.
	Findings func(ctx context.Context) (any, error)
	Out, Err io.Writer
}

const (
	// limit is how long all of it may take, askLimit one question.
	limit    = 3 * time.Minute
	askLimit = 20 * time.Second
	// between is how long lies between the two looks at the metrics.
	between = 10 * time.Second
	// maxAnswer bounds an answer, in bytes, maxWhy the clusters that are asked why they are not well.
	maxAnswer = 16 << 20
	maxWhy    = 50
	logTail   = "2000"
)

// The fields that get in, by what they are of.
var (
	clusterFields = bundle.Allow(`id namespace name generation observedGeneration created deleting distribution kubernetesVersion version state message failed
		warning{code message since} ready connected since machines paused`)
	machineFields = bundle.Allow(`id nodeId namespace name clusterName clusterId fleet nodeName roles{etcd controlPlane worker} os address internalAddress created deleting
		refused state code cause waitingFor nextStep since history{state at} node{name kubeletVersion addresses ready notReady} docker{serverVersion storageDriver cgroupDriver operatingSystem kernelVersion seen}
		lastFailure{checksum at instruction} retries nextRetry init joinURL joinedTo drain{since done} agent`)
	whyFields = bundle.Allow(`cluster machine well state message since operation{id kind title state done total wait{object host cause since}} more
		causes{machine node state code title docs cause waitingFor since}`)
	operationFields = bundle.Allow(`id kind cluster title state done total wait{object host cause since} retries once created started ended reason`)
	workerFields    = bundle.Allow(`data{server name title everywhere running since keys queued working{key since} waits{key object host cause since} faults{key error at} waiting failing succeeded failed retries latency lastSuccess lastFault{key error at}} silent{*}`)
	tunnelFields    = bundle.Allow(`data{subject kind machine host cluster server remote agent protocol since lastHeard healthy connections paused dials failures bytesIn bytesOut} silent{*}`)
	eventFields     = bundle.Allow(`id at clusterName kind key name from to code cause`)
	auditFields     = bundle.Allow(`data{time server stage user source verb kind object status} more`)
	backupFields    = bundle.Allow(`dir every keep encrypted keys files{name made size} offsite{place lookedAt} failure failedAt next well`)
	checkFields     = bundle.Allow(`check level says do`)
)

// Command is the command.
func (a *App) Command() *cobra.Command {
	var file, cluster, machine string
	var offline bool
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect what is known of the server, of a cluster or of a machine in one file for others, without secrets",
		Long: `Collect what is known of the server, of a cluster or of a machine in one file for others: states and
causes, operations, workers, tunnels, backups, metrics, and with --machine what the agent of that host
says, with the logs of its units. On the host of a server it looks at that, too, also while the server is
down. Values get in by a list of fields, instructions' output never; MANIFEST.json says what was left out.

The file is an archive with a page, index.html, that a browser reads. What you may not see is not in it.`,
		Example: "  drover support-bundle --cluster harbour\n  drover support-bundle --machine n1 -f n1.tar.zst\n  sudo drover support-bundle --offline",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			if file == "" {
				file = "drover-bundle-" + now.UTC().Format("20060102T150405Z") + ".tar.zst"
			}
			return a.write(cmd.Context(), request{file: file, cluster: cluster, machine: machine, offline: offline, now: now})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "where to write it (default: drover-bundle-TIME.tar.zst here)")
	cmd.Flags().StringVar(&cluster, "cluster", "", "a cluster: its machines, operations and causes")
	cmd.Flags().StringVar(&machine, "machine", "", "a machine: what its agent says, and the logs of its units, through the tunnel")
	cmd.Flags().BoolVar(&offline, "offline", false, "ask no server: this host alone")
	cmd.MarkFlagsMutuallyExclusive("cluster", "machine", "offline")
	return cmd
}

type request struct {
	file, cluster, machine string
	offline                bool
	now                    time.Time
}

func (a *App) write(ctx context.Context, r request) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	title := "The server"
	switch {
	case r.cluster != "":
		title = "Cluster " + r.cluster
	case r.machine != "":
		title = "Machine " + r.machine
	}
	b := bundle.New(title, r.now)
	b.Value("version.json", "The release of the command line", map[string]string{"version": drover.Version}, bundle.Allow("version"))
	if !r.offline {
		if err := a.ask(ctx, b, r); err != nil {
			return err
		}
	}
	if r.cluster == "" && r.machine == "" {
		a.thisHost(ctx, b)
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err // by the caller; of what took too long the rest is a bundle, too
	}
	if err := bundle.Save(r.file, b); err != nil {
		return err
	}
	if n := len(b.Missing()); n > 0 {
		fmt.Fprintf(a.Err, "%d parts could not be had; index.html says which, and why\n", n)
	}
	fmt.Fprintf(a.Out, "%s: unpack it (tar --zstd -xf %s) and open index.html; look through it before you give it away\n", r.file, r.file)
	return nil
}

// ask puts in what the server says. A server that does not answer is a part that is missing; a cluster or a machine that is not there is an error.
func (a *App) ask(ctx context.Context, b *bundle.Bundle, r request) error {
	c, err := a.Client()
	if err != nil {
		b.Fail("server", err)
		return nil
	}
	q := asker{bundle: b, client: c}
	if err := q.value(ctx, "server/version.json", "The server's release", "/v3/settings/server-version", bundle.Allow("id value default source")); err != nil {
		if _, away := errors.AsType[*client.ReachError](err); away {
			return nil // nothing else would answer
		}
	}
	switch {
	case r.machine != "":
		m, err := a.FindMachine(ctx, c, r.machine)
		if err != nil {
			return err
		}
		q.machine(ctx, m)
	case r.cluster != "":
		one, err := a.FindCluster(ctx, c, r.cluster)
		if err != nil {
			return err
		}
		q.cluster(ctx, one)
	default:
		q.server(ctx)
	}
	return nil
}

// asker asks one server for parts of a bundle.
type asker struct {
	bundle *bundle.Bundle
	client *client.Client
}

// value puts in an answer of JSON. The error is in the bundle, too.
func (q asker) value(ctx context.Context, name, title, path string, allowed bundle.Fields) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var answer json.RawMessage
	if err := q.client.Get(ctx, path, &answer); err != nil {
		q.bundle.Fail(name, err)
		return err
	}
	q.bundle.Value(name, title, answer, allowed)
	return nil
}

// list puts in a list of all pages.
func list[T any](ctx context.Context, q asker, name, title, path string, allowed bundle.Fields) []T {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	all, err := client.List[T](ctx, q.client, path)
	if err != nil {
		q.bundle.Fail(name, err)
		return nil
	}
	q.bundle.Value(name, title, all, allowed)
	return all
}

// machines puts in machines, those first that are not well: a file has not room for all of thousands.
func (q asker) machines(ctx context.Context, title, path string) {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	all, err := client.List[apitypes.Machine](ctx, q.client, path)
	if err != nil {
		q.bundle.Fail("machines.json", err)
		return
	}
	q.bundle.Value("machines.json", title, unwellFirst(all), machineFields)
}

func unwellFirst(all []apitypes.Machine) []apitypes.Machine {
	well := func(m apitypes.Machine) bool { return m.State == apitypes.MachineActive }
	return slices.Concat(slices.DeleteFunc(slices.Clone(all), well), slices.DeleteFunc(all, func(m apitypes.Machine) bool { return !well(m) }))
}

// text puts in an answer of text.
func (q asker) text(ctx context.Context, name, title, path string) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	body, err := q.client.Stream(ctx, path)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(body, maxAnswer))
		err = errors.Join(err, body.Close())
	}
	if err != nil {
		q.bundle.Fail(name, err)
		return
	}
	q.bundle.Text(name, title, string(text))
}

func (q asker) server(ctx context.Context) {
	q.text(ctx, "server/metrics-1.txt", "Measures", "/metrics")
	begin := time.Now()
	clusters := list[apitypes.Cluster](ctx, q, "clusters.json", "Clusters", "/v1-drover/clusters", clusterFields)
	q.machines(ctx, "Machines", "/v1-drover/machines")
	list[apitypes.OperationSummary](ctx, q, "operations.json", "Operations", "/v1-drover/operations", operationFields)
	why := 0
	for _, c := range clusters {
		if c.Ready && !c.Failed || why == maxWhy {
			continue
		}
		why++
		_ = q.value(ctx, "why/"+c.ID+".json", "Why "+c.Name+" is not well", "/v1-drover/clusters/"+c.Namespace+"/"+c.Name+"/why", whyFields) // it is in the bundle
	}
	for _, one := range []struct {
		name, title, path string
		fields            bundle.Fields
	}{
		{"server/workers.json", "Workers", "/v1-drover/workers", workerFields},
		{"server/tunnels.json", "Tunnels", "/v1-drover/tunnels", tunnelFields},
		{"server/backups.json", "Backups", "/v1-drover/backups", backupFields},
		{"server/audit.json", "The newest requests that changed something, without names and tokens", "/v1-drover/audit?limit=200", auditFields},
	} {
		_ = q.value(ctx, one.name, one.title, one.path, one.fields) // it is in the bundle
	}
	q.text(ctx, "server/health.txt", "Health", "/healthz")
	select { // what grows shows in two looks
	case <-ctx.Done():
	case <-time.After(between - time.Since(begin)):
		q.text(ctx, "server/metrics-2.txt", "Measures, ten seconds later", "/metrics")
	}
}

func (q asker) cluster(ctx context.Context, c apitypes.Cluster) {
	at := "/v1-drover/clusters/" + c.Namespace + "/" + c.Name
	q.bundle.Value("cluster.json", "The cluster", c, clusterFields)
	_ = q.value(ctx, "why.json", "Why it is not well", at+"/why", whyFields) // it is in the bundle
	of := "?cluster=" + url.QueryEscape(c.ID)
	q.machines(ctx, "Its machines", "/v1-drover/machines"+of)
	list[apitypes.OperationSummary](ctx, q, "operations.json", "Its operations", "/v1-drover/operations?cluster="+url.QueryEscape(c.Namespace+"/"+c.Name), operationFields)
	list[apitypes.Event](ctx, q, "events.json", "Its changes of state", "/v1-drover/events"+of, eventFields)
}

func (q asker) machine(ctx context.Context, m apitypes.Machine) {
	at := "/v1-drover/machines/" + m.ID
	q.bundle.Value("machine.json", "The machine", m, machineFields)
	_ = q.value(ctx, "why.json", "Why it is not well", at+"/why", whyFields)                                         // it is in the bundle
	_ = q.value(ctx, "agent.json", "What its agent does, waits for and failed at", at+"/status", bundle.AgentStatus) // it is in the bundle
	for _, unit := range []string{"rancher-system-agent.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"} {
		q.text(ctx, "host/"+unit+".log", "Log of "+unit, at+"/logs?tail="+logTail+"&unit="+unit)
	}
}

// thisHost puts in this host, where it is that of a server.
func (a *App) thisHost(ctx context.Context, b *bundle.Bundle) {
	dir := a.DataDir()
	if _, err := os.Stat(dir); err != nil {
		b.Fail("host", fmt.Errorf("there is no server on this host: %w", err))
		return
	}
	if a.Findings != nil {
		found, err := a.Findings(ctx)
		if err != nil {
			b.Fail("host/check.json", err)
		} else {
			b.Value("host/check.json", "What a server needs of this host (drover server check)", found, checkFields)
		}
	}
	sizes, err := sizesIn(dir)
	if err != nil {
		b.Fail("host/data-directory.txt", err)
	}
	b.Text("host/data-directory.txt", "The data directory: names and sizes", sizes)
	b.Host(ctx, "drover.service")
}

// sizesIn are the files below a directory with their modes and sizes, two levels deep.
func sizesIn(dir string) (string, error) {
	var b strings.Builder
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	deeper, err2 := filepath.Glob(filepath.Join(dir, "*", "*"))
	var failed error
	for _, name := range append(names, deeper...) {
		info, err := os.Lstat(name)
		if err != nil {
			failed = err
			continue
		}
		fmt.Fprintf(&b, "%s %12d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), name)
	}
	return b.String(), errors.Join(err, err2, failed)
}
