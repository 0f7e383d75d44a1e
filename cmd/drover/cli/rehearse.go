// Rehearsals: a snapshot is restored where it does no harm.

package cli

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/clustertree"
)

func (a *app) snapshotsRehearse() *cobra.Command {
	var o askOptions
	var machine, fleet string
	cmd := &cobra.Command{
		Use: "rehearse CLUSTER SNAPSHOT", Short: "Restore a snapshot on a machine of a fleet, count what is in it, and clean up", Args: needs("CLUSTER", "SNAPSHOT"),
		Long: `Restore a snapshot of a k3s cluster on a machine of a fleet, which has no cluster: the proof that a backup is one. The host gets
the snapshot from S3, or through the server from the host that has it, restores it with the k3s of its version, starts the Kubernetes API
on the loopback address, lists every object, and takes away all that it has made. Nothing of the cluster runs there, and the cluster
itself is not touched.

SNAPSHOT is a name that ` + "`drover snapshots ls`" + ` shows, or the path of a file that was copied to the machine's host.`,
		Example: "  drover snapshots rehearse harbour etcd-snapshot-pier-1-1763850000 --fleet spare --wait\n  drover snapshots rehearse harbour /root/etcd-snapshot-pier-1-1763850000 --on spare-1 --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
				asked := apitypes.Asked{Kind: apitypes.KindRehearse, Snapshot: args[1], Fleet: fleet}
				switch {
				case machine == "" && fleet == "":
					return usage("where is the snapshot to be restored? Name a machine of a fleet with --on, or a fleet with --fleet")
				case machine != "":
					m, err := a.findMachine(ctx, c, machine)
					if err != nil {
						return err
					}
					asked.Machines = []string{m.Name}
				}
				if err := a.ask(ctx, c, clusterPath(one)+"/operations", "rehearse", asked, o); err != nil || !o.wait || o.dryRun || !a.tabular() {
					return err
				}
				return a.showRehearsal(ctx, c, one, args[1])
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&machine, "on", "", "the machine of a fleet on which it is restored")
	cmd.Flags().StringVar(&fleet, "fleet", "", "the fleet whose first machine that is free is taken")
	cmd.MarkFlagsMutuallyExclusive("on", "fleet")
	o.flags(cmd)
	return cmd
}

func (a *app) clustersRehearsals() *cobra.Command {
	var asked apitypes.AskedRehearsals
	var off bool
	cmd := &cobra.Command{
		Use: "rehearsals NAME", Short: "Show or set how often a cluster's newest snapshot is rehearsed by itself", Args: needs("NAME"),
		Long: `Show or set how often a snapshot of a k3s cluster is rehearsed by itself, as ` + "`drover snapshots rehearse`" + ` does it: the newest that
can be had, on a machine of a fleet that is idle, and never while another operation of the cluster is under way. The time counts from the
end of the last one, by any user. A rehearsal that cannot begin is an event with its reason, and begins once nothing is in its way.`,
		Example: "  drover clusters rehearsals harbour --every 24h --fleet spare\n  drover clusters rehearsals harbour\n  drover clusters rehearsals harbour --off",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) (err error) {
				var r apitypes.Rehearsals
				switch {
				case !off && (asked.Every == "") != (asked.Fleet == ""):
					return usage("--every and --fleet stand together: how often, and on which fleet")
				case off || asked.Every != "":
					err = c.Send(ctx, "POST", clusterPath(one)+"/rehearsals/set", asked, &r)
				default:
					err = c.Get(ctx, clusterPath(one)+"/rehearsals", &r)
				}
				if err != nil {
					return fmt.Errorf("rehearsals of cluster %s: %w", one.Name, err)
				}
				now := time.Now()
				return a.show(r, func(t *table) {
					clustertree.Rehearsals(t.Row, one.Name, r, now, func(at time.Time) string { return ago(now, at) })
				})
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&asked.Every, "every", "", "the time from the end of one to the next, as in 24h")
	cmd.Flags().StringVar(&asked.Fleet, "fleet", "", "the fleet on whose machines it is done")
	cmd.Flags().BoolVar(&off, "off", false, "end the schedule")
	cmd.MarkFlagsMutuallyExclusive("off", "every")
	cmd.MarkFlagsMutuallyExclusive("off", "fleet")
	return cmd
}

// showRehearsal shows what came of a rehearsal that has ended well; that of a file which is not a listed snapshot is in its operation alone.
func (a *app) showRehearsal(ctx context.Context, c *client.Client, one apitypes.Cluster, snapshot string) error {
	list, err := client.List[apitypes.Snapshot](ctx, c, clusterPath(one)+"/snapshots")
	if err != nil {
		return fmt.Errorf("list the snapshots of cluster %s: %w", one.Name, err)
	}
	for _, s := range list {
		if s.Rehearsal != nil && s.Name == path.Base(snapshot) {
			return a.show(s.Rehearsal, func(t *table) {
				t.Row(fmt.Sprintf("snapshot %s can be restored: %s, counted in %ds on %s", s.Name, s.Rehearsal.Counted(), s.Rehearsal.Seconds, s.Rehearsal.Machine))
				if s.Rehearsal.Unread != "" {
					t.Row("not listed, as pods of the cluster convert them: " + s.Rehearsal.Unread)
				}
			})
		}
	}
	return nil
}

// rehearsed is the last rehearsal of a snapshot in a column.
func rehearsed(now time.Time, r *apitypes.Rehearsal) string {
	switch {
	case r == nil:
		return "-"
	case r.Cause == "":
		return fmt.Sprintf("%s ago, ok (%s)", ago(now, r.At), r.Counted())
	case r.Good.IsZero():
		return fmt.Sprintf("%s ago, failed: %s", ago(now, r.At), r.Cause)
	}
	return fmt.Sprintf("%s ago, failed: %s (ok %s ago)", ago(now, r.At), r.Cause, ago(now, r.Good))
}
