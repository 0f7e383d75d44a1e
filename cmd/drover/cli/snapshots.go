// Snapshots of clusters' etcd: the list, one more, and the way back to one.

package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/server/views"
)

func (a *app) snapshotsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "snapshots", Aliases: []string{"snapshot"}, Short: "Snapshots of clusters' etcd: take one, and restore it"}
	cmd.AddCommand(a.snapshotsList(), a.snapshotsCreate(), a.snapshotsRestore())
	return cmd
}

func (a *app) snapshotsList() *cobra.Command {
	return &cobra.Command{
		Use: "ls CLUSTER", Aliases: []string{"list"}, Short: "List the snapshots of a cluster, the newest first, and whether each can be restored today", Args: needs("CLUSTER"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one views.Cluster) error {
			if one.Distribution == views.RKE1 {
				return a.rkeSnapshots(ctx, c, one)
			}
			var list views.Snapshots
			if err := c.Get(ctx, clusterPath(one)+"/snapshots", &list); err != nil {
				return fmt.Errorf("list the snapshots of cluster %s: %w", one.Name, err)
			}
			if list.Stale != "" {
				fmt.Fprintf(a.Err, "as it was known before; the cluster cannot be asked now: %s\n", list.Stale)
			}
			a.hint(len(list.Data) == 0, "there is no snapshot; `drover snapshots create "+one.Name+"` takes one")
			now := time.Now()
			return a.show(list, func(t *table) {
				t.row("NAME", "MACHINE", "NODE", "AGE", "SIZE", "VERSION", "BY", "RESTORE")
				for _, s := range list.Data {
					can := "yes"
					if !s.Restorable {
						can = "no: " + s.Why
					}
					by := s.By
					if by == "" {
						by = "schedule"
					}
					t.row(s.Name, s.Machine, orDash(s.Node), ago(now, s.Created), sizeText(s.Size), s.Version, by, can)
				}
			})
		}),
	}
}

// sizeText is a size in bytes for people.
func sizeText(bytes int64) string {
	const kib = 1024
	switch {
	case bytes < kib:
		return fmt.Sprintf("%d B", bytes)
	case bytes < kib*kib:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/kib)
	case bytes < kib*kib*kib:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/kib/kib)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/kib/kib/kib)
}

// askOptions are how an operation is to be begun.
type askOptions struct {
	dryRun, queue, replace, wait bool
	timeout                      time.Duration
}

func (o *askOptions) flags(cmd *cobra.Command, timeout time.Duration) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "look at the hosts of an RKE1 cluster and print what would be done; do nothing")
	cmd.Flags().BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the cluster is under way")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow it until it has ended; the exit code is 0 when it has succeeded")
	cmd.Flags().DurationVar(&o.timeout, "timeout", timeout, "how long --wait waits")
}

// query are the options that the server takes.
func (o askOptions) query() string {
	q := url.Values{}
	for name, is := range map[string]bool{"dryRun": o.dryRun, "queue": o.queue, "replace": o.replace} {
		if is {
			q.Set(name, "true")
		}
	}
	return q.Encode()
}

// follows waits for an operation that was begun when that is wanted, and shows it otherwise.
func (a *app) follows(ctx context.Context, c *client.Client, id, title, state string, shown any, o askOptions) error {
	if o.wait {
		_, err := a.awaitOperation(ctx, c, id, o.timeout, func(views.Operation) {})
		return err
	}
	return a.show(shown, func(t *table) {
		t.row(fmt.Sprintf("operation %s is %s: %s; `drover operations wait %s` waits for its end", id, state, title, id))
	})
}

// ask asks for an operation on a cluster, and follows it when that is wanted.
func (a *app) ask(ctx context.Context, c *client.Client, one views.Cluster, path string, body any, o askOptions) error {
	if err := onlyFor(one, map[string]bool{"dry-run": o.dryRun}); err != nil {
		return err
	}
	var begun views.Operation
	if err := c.Send(ctx, "POST", clusterPath(one)+path+"?"+o.query(), body, &begun); err != nil {
		return err
	}
	return a.follows(ctx, c, begun.ID, begun.Title, string(begun.State), begun, o)
}

// machineNames are machines' names by whatever people know them by.
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

func (a *app) snapshotsCreate() *cobra.Command {
	var o askOptions
	var machines []string
	var name string
	cmd := &cobra.Command{
		Use: "create CLUSTER", Short: "Take a snapshot of a cluster's etcd, on one member after the other, and look whether each is whole", Args: needs("CLUSTER"),
		Example: "  drover snapshots create harbour --wait\n  drover snapshots create harbour --machine pier-1 --name before-work",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one views.Cluster) error {
			if one.Distribution == views.RKE1 {
				if err := onlyFor(one, map[string]bool{"machine": len(machines) > 0}); err != nil {
					return err
				}
				return a.askRKE(ctx, c, one, views.Asked{Kind: "snapshot", Snapshot: name}, o)
			}
			names, err := a.machineNames(ctx, c, machines)
			if err != nil {
				return err
			}
			if err := a.ask(ctx, c, one, "/take-snapshot", views.SnapshotRequest{Name: name, Machines: names}, o); err != nil {
				return fmt.Errorf("take a snapshot of cluster %s: %w", one.Name, err)
			}
			return nil
		}),
	}
	cmd.Flags().StringArrayVar(&machines, "machine", nil, "only on this machine (repeat)")
	cmd.Flags().StringVar(&name, "name", "", "what the names of its files begin with (default on-demand), of which as many are kept as of the scheduled ones; in an RKE1 cluster its whole name")
	o.flags(cmd, 30*time.Minute)
	return cmd
}

func (a *app) snapshotsRestore() *cobra.Command {
	var o askOptions
	var machine, mode string
	var yes, keep bool
	cmd := &cobra.Command{
		Use: "restore CLUSTER SNAPSHOT --yes", Short: "Restore a snapshot: all servers stop, and begin anew with what it has", Args: needs("CLUSTER", "SNAPSHOT"),
		Long: `Restore a snapshot of a cluster's etcd: one that ` + "`drover snapshots ls`" + ` shows, or a file on the host of a
machine, by its path and --machine. All servers stop; that machine begins the cluster anew with what the snapshot has,
the others join it one after the other, and kubelets of workers restart. What was written since the snapshot is lost.

Before anything is stopped the host is asked whether the file is whole and of this cluster, and whether there is room.
What the servers had before stays on their hosts until the cluster works again. Servers whose hosts are lost have to be
removed first, by ` + "`drover machines rm NAME --force`" + `; if all are lost, register new hosts, copy the file to one of
them, and restore it there.`,
		Example: "  drover snapshots restore harbour on-demand-pier-1-1763850000 --yes --wait\n  drover snapshots restore harbour /root/snapshot --machine pier-4 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(func(ctx context.Context, c *client.Client, one views.Cluster) error {
				if !yes && !o.dryRun {
					return usage("all servers of cluster %s would be stopped, and what was written since snapshot %s would be lost; say --yes to do it", one.Name, args[1])
				}
				if one.Distribution == views.RKE1 {
					if err := onlyFor(one, map[string]bool{"machine": machine != "", "mode": mode != "none"}); err != nil {
						return err
					}
					return a.askRKE(ctx, c, one, views.Asked{Kind: "restore", Snapshot: args[1], KeepState: keep}, o)
				}
				if err := onlyFor(one, map[string]bool{"keep-state": keep}); err != nil {
					return err
				}
				r := views.RestoreRequest{Snapshot: args[1], Mode: mode}
				if machine != "" {
					names, err := a.machineNames(ctx, c, []string{machine})
					if err != nil {
						return err
					}
					r.Machine = names[0]
				}
				if err := a.ask(ctx, c, one, "/restore", r, o); err != nil {
					return fmt.Errorf("restore snapshot %s of cluster %s: %w", args[1], one.Name, err)
				}
				return nil
			})(cmd, args[:1])
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&keep, "keep-state", false, "RKE1: keep the certificates and keys that the server has, and do not take those in the snapshot")
	cmd.Flags().StringVar(&machine, "machine", "", "the machine on whose host the snapshot is")
	cmd.Flags().StringVar(&mode, "mode", "none", "what becomes as it was too: none, kubernetesVersion, or all, which is the version and the settings")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "end a change that is under way in favour of it")
	o.flags(cmd, time.Hour)
	cmd.MarkFlagsMutuallyExclusive("queue", "replace")
	return cmd
}
