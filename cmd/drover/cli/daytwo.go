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
	dryRun, wait, queue, replace, noSnapshot bool
	timeout                                  time.Duration
}

func (o *askOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, of RKE1 after a look at the hosts; do nothing")
	f.BoolVar(&o.wait, "wait", false, "wait until it is done")
	f.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long --wait waits")
	f.BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the cluster is under way")
}

// ask has the server begin an operation on a cluster.
func (a *app) ask(ctx context.Context, c *client.Client, at string, asked apitypes.Asked, o askOptions) error {
	q := url.Values{}
	for name, is := range map[string]bool{"dryRun": o.dryRun, "queue": o.queue, "replace": o.replace, "noSnapshot": o.noSnapshot} {
		if is {
			q.Set(name, "true")
		}
	}
	var begun apitypes.Begun
	if err := c.Send(ctx, "POST", at+"/operations?"+q.Encode(), asked, &begun); err != nil {
		return fmt.Errorf("%s: %w", strings.ReplaceAll(string(asked.Kind), "-", " "), err) // the server names the cluster
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
	cmd.AddCommand(a.snapshotsList(), a.snapshotsCreate(), a.snapshotsRestore(), a.snapshotsDownload(), a.snapshotsRehearse())
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

func (a *app) snapshotsCreate() *cobra.Command {
	var o askOptions
	var name string
	var machines []string
	cmd := &cobra.Command{
		Use: "create CLUSTER", Short: "Take a snapshot of a cluster's etcd on every host that has it", Args: needs("CLUSTER"),
		Long: `Take a snapshot of a cluster's etcd on every host that has it. Of k3s and RKE2 it is taken on one after the other, and
each host looks whether it is whole.`,
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			names, err := a.machineNames(ctx, c, machines)
			if err != nil {
				return err
			}
			return a.ask(ctx, c, clusterPath(one), apitypes.Asked{Kind: apitypes.KindSnapshot, Snapshot: name, Machines: names}, o)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the snapshot (default: the cluster's ID, a random text and the time); of k3s and RKE2 the beginning of its name (default: on-demand)")
	cmd.Flags().StringArrayVar(&machines, "machine", nil, "only on the host of this machine, of k3s and RKE2 (repeat)")
	o.flags(cmd)
	return cmd
}

func (a *app) snapshotsRestore() *cobra.Command {
	var o askOptions
	var yes, keep bool
	var machines []string
	var mode string
	cmd := &cobra.Command{
		Use: "restore CLUSTER SNAPSHOT --yes", Short: "Bring a cluster back to a snapshot, on the hosts that it has now", Args: needs("CLUSTER", "SNAPSHOT"),
		Long: `Bring a cluster back to a snapshot, on the hosts that it has now. Everything is looked at before anything is changed, and the
data of now stay on their hosts until the cluster works on the others. Hosts that are lost are removed first, with drover machines rm NAME --force.

Of k3s and RKE2 SNAPSHOT is a name that ` + "`drover snapshots ls`" + ` shows, or the path of a file on the host of a machine, with --machine.
All servers stop, that machine begins the cluster anew, and the others join it one after the other. If all servers are
lost, register new hosts, copy the file to one of them, and restore it there.`,
		Example: "  drover snapshots restore harbour on-demand-pier-1-1763850000 --yes --wait\n  drover snapshots restore harbour /root/snapshot --machine pier-4 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
				if !yes && !o.dryRun {
					return usage("cluster %s would go back to snapshot %s, and what was written to it since would be gone; say --yes to do it, or --dry-run to see how", one.Name, args[1])
				}
				names, err := a.machineNames(ctx, c, machines)
				if err != nil {
					return err
				}
				return a.ask(ctx, c, clusterPath(one), apitypes.Asked{Kind: apitypes.KindRestore, Snapshot: args[1], KeepState: keep, Machines: names, Mode: mode}, o)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().StringArrayVar(&machines, "machine", nil, "the machine on whose host the snapshot is, of k3s and RKE2")
	cmd.Flags().StringVar(&mode, "mode", "", "what becomes as it was too, of k3s and RKE2: none, kubernetesVersion, or all, which is the version and the settings (default: none)")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "end a change that is under way in favour of it, of k3s and RKE2")
	cmd.Flags().BoolVar(&o.noSnapshot, "no-snapshot", false, "begin without a snapshot of what the cluster is now, of k3s and RKE2")
	cmd.Flags().BoolVar(&keep, "keep-state", false, "keep the certificates and keys that the server has, and do not take those in the snapshot")
	o.flags(cmd)
	return cmd
}

func (a *app) clustersRotate() *cobra.Command {
	cmd := &cobra.Command{Use: "rotate", Short: "Give a cluster new certificates or CAs, another key for its Secrets, or another server token"}
	var o, k, s, h askOptions
	var asked apitypes.Asked
	certificates := &cobra.Command{
		Use: "certificates NAME", Short: "Issue certificates again and deploy them host by host, also when they have ended", Args: needs("NAME"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			asked.Kind = apitypes.KindRotateCertificates
			return a.ask(ctx, c, clusterPath(one), asked, o)
		}),
	}
	certificates.Flags().BoolVar(&asked.CA, "ca", false, "the CAs, too, as drover clusters rotate ca does")
	certificates.Flags().StringArrayVar(&asked.Services, "service", nil, "only the certificates of this service (repeat)")
	o.flags(certificates)
	keys := &cobra.Command{
		Use: "encryption-keys NAME", Short: "Encrypt every Secret with a new key; the old one goes when nothing is written with it any more", Args: needs("NAME"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			return a.ask(ctx, c, clusterPath(one), apitypes.Asked{Kind: apitypes.KindRotateKeys}, k)
		}),
	}
	k.flags(keys)
	token := &cobra.Command{
		Use: "server-token NAME", Short: "Give a cluster of k3s or RKE2 another server token, and restart its servers one at a time", Args: needs("NAME"),
		Long: `Give a cluster of k3s or RKE2 another server token, and restart its servers one at a time. That is the token with which servers
join, and by which what etcd and its snapshots hold of the cluster's certificates and keys is read. All servers have to work. Workers
have another token, which stays. Snapshots of before are restored with the token of then, which the server keeps.`,
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			return a.ask(ctx, c, clusterPath(one), apitypes.Asked{Kind: apitypes.KindRotateToken}, s)
		}),
	}
	s.flags(token)
	ca := &cobra.Command{
		Use: "ca NAME", Short: "Give a cluster new CAs and certificates, host by host, so that at no time one does not trust another", Args: needs("NAME"),
		Long: `Give a cluster new CAs and certificates, host by host, so that at no time one does not trust another. Of k3s and RKE2 one server
makes the new CAs, signed by those of now too, has etcd take them, and all servers and then the workers restart. All servers have to
work. The old CAs count until the next rotation, so that kubeconfigs that were copied off the hosts have to be renewed before it.`,
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			return a.ask(ctx, c, clusterPath(one), apitypes.Asked{Kind: apitypes.KindRotateCertificates, CA: true}, h)
		}),
	}
	ca.Flags().BoolVar(&h.noSnapshot, "no-snapshot", false, "begin without a snapshot of what the cluster is now, of k3s and RKE2")
	h.flags(ca)
	cmd.AddCommand(certificates, keys, token, ca)
	return cmd
}
