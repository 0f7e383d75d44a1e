// What is done on clusters that run: snapshots, their restore, and rotations. Each is an operation of the server.

package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/follow"
)

// askOptions are how an operation is asked for.
type askOptions struct {
	dryRun, wait, queue bool
	timeout             time.Duration
}

func (o *askOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, of RKE1 after a look at the hosts; do nothing")
	f.BoolVar(&o.wait, "wait", false, "wait until it is done")
	f.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long --wait waits")
	f.BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the cluster is under way")
}

// ask has the server begin an operation by a POST; failed is what could not be done, in front of the reason, which names the cluster.
func (a *app) ask(ctx context.Context, c *client.Client, target, failed string, asked any, o askOptions) error {
	target, query, _ := strings.Cut(target, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	for name, is := range map[string]bool{"dryRun": o.dryRun, "queue": o.queue} {
		if is {
			q.Set(name, "true")
		}
	}
	target += "?" + q.Encode()
	var begun apitypes.Begun
	if err := c.Send(ctx, "POST", target, asked, &begun); err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	if o.dryRun {
		return a.show(begun.Lines, func(t *table) {
			for _, line := range begun.Lines {
				t.Row(line)
			}
		})
	}
	if o.wait {
		_, err := a.awaitOperation(ctx, c, begun.Operation.ID, o.timeout, func(apitypes.Operation) {})
		return err
	}
	return a.show(begun.Operation, func(t *table) {
		t.Row(fmt.Sprintf("operation %s: %s; `drover operations wait %s` waits for its end", begun.Operation.ID, begun.Operation.Title, begun.Operation.ID))
	})
}

func (a *app) snapshotsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "snapshots", Aliases: []string{"snapshot"}, Short: "Snapshots of clusters' etcd, by which a cluster that is lost comes back"}
	cmd.AddCommand(a.snapshotsList(), a.snapshotsDownload(), a.snapshotsRehearse())
	return cmd
}

func (a *app) snapshotsList() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "ls CLUSTER", Aliases: []string{"list"}, Short: "List the snapshots of a cluster that the server took, the newest first", Args: needs("CLUSTER"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			snapshots := follow.List[apitypes.Snapshot]{
				Printer: a.printer(), Errs: a.Err, What: "watch the snapshots of cluster " + one.Name,
				Heading: []string{"NAME", "AGE", "BY", "VERSION", "HOSTS", "SIZE", "BUCKET", "RESTORE", "REHEARSED"}, Cells: snapshotCells,
				Key:  func(s apitypes.Snapshot) string { return s.Name + "/" + s.ID + "/" + snapshotHosts(s) },
				News: func(s apitypes.Snapshot) string { return strings.Join(snapshotCells(s, s.Created), "\n") },
				Line: func(s apitypes.Snapshot) string {
					return at(time.Now(), s.Name, fmt.Sprintf("on %s, %s, restorable: %s", snapshotHosts(s), snapshotSize(s), restorable(s)))
				},
			}
			path := clusterPath(one) + "/snapshots"
			if watch {
				return snapshots.Follow(ctx, client.Watch[apitypes.Snapshot](ctx, c, path))
			}
			list, err := client.List[apitypes.Snapshot](ctx, c, path)
			if err != nil {
				return fmt.Errorf("list the snapshots of cluster %s: %w", one.Name, err)
			}
			slices.Reverse(list)
			a.hint(len(list) == 0, "there is no snapshot of it; `drover snapshots create "+one.Name+"` takes one")
			return snapshots.Print(list)
		}),
	}
	follow.Flag(cmd, &watch)
	return cmd
}

func snapshotCells(s apitypes.Snapshot, now time.Time) []string {
	return []string{s.Name, ago(now, s.Created), snapshotBy(s), orDash(s.Version), snapshotHosts(s), snapshotSize(s), orDash(s.Bucket), restorable(s), rehearsed(now, s.Rehearsal)}
}

// restorable says whether a cluster can go back to a snapshot, or why not.
func restorable(s apitypes.Snapshot) string {
	if s.Restorable {
		return "yes"
	}
	return "no: " + s.Why
}

// snapshotHosts is the host that has a snapshot, or how many have it.
func snapshotHosts(s apitypes.Snapshot) string {
	if len(s.Hosts) == 1 && s.Hosts[0].Address != "" {
		return s.Hosts[0].Address
	}
	return fmt.Sprint(len(s.Hosts))
}

// machineNames are machines' names by any of the names that people know them by.
func (a *app) machineNames(ctx context.Context, c *client.Client, given []string) ([]string, error) {
	var names []string
	for _, one := range given {
		m, err := a.findMachine(ctx, c, one)
		if err != nil {
			return nil, err
		}
		names = append(names, m.Name)
	}
	return names, nil
}

func snapshotBy(s apitypes.Snapshot) string {
	if s.Scheduled {
		return "schedule"
	}
	return orDash(s.By)
}

// snapshotSize is the largest of its archives; members that are asked in the same moment have nearly the same.
func snapshotSize(s apitypes.Snapshot) string {
	var most int64
	for _, h := range s.Hosts {
		most = max(most, h.Size)
	}
	if most == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(most)/(1<<20))
}
