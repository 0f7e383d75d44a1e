// Upgrades of clusters, and the times at which they may be disturbed.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

func (a *app) clustersUpgrade() *cobra.Command {
	o := applyOptions{timeout: 30 * time.Minute, maxMachines: -1}
	var asked apitypes.AskedUpgrade
	cmd := &cobra.Command{
		Use: "upgrade NAME --to VERSION", Short: "Take a cluster to another Kubernetes version, after a look at all that may be in the way", Args: needs("NAME"),
		Long: `Take a cluster to another Kubernetes version. Before anything changes the server looks at versions, machines, etcd, disks,
snapshots, and APIs in use that the version does not serve any more; each finding is a line: what is refused keeps the upgrade
from beginning, what is warned of does not. With --dry-run that is all, with what would change.

An upgrade of k3s and RKE2 begins with a snapshot of etcd, whose name is the way back, and keeps to the maintenance window of
the cluster. ` + "`drover versions ls --cluster NAME`" + ` lists the versions.`,
		Example: "  drover clusters upgrade harbour --to v1.34.4+k3s1 --dry-run\n  drover clusters upgrade harbour --to v1.34.4+k3s1 --wait",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			if asked.Version == "" {
				return usage("to which version? --to VERSION; `drover versions ls --cluster %s` lists them", one.Name)
			}
			return a.upgrade(ctx, c, one, asked, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&asked.Version, "to", "", "the version, such as v1.34.4+k3s1")
	f.StringArrayVar(&asked.Accept, "accept", nil, "go on though this was found: disk-space, removed-apis (repeat)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what is found and what would change, and change nothing")
	f.BoolVar(&o.noSnapshot, "no-snapshot", false, "begin without a snapshot of etcd")
	f.BoolVar(&o.now, "now", false, "do not wait for the maintenance window")
	f.BoolVar(&o.wait, "wait", false, "wait until the cluster has the version")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "how long --wait waits")
	f.BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the cluster is under way")
	f.BoolVar(&o.replace, "replace", false, "end the change that is under way in favour of this one")
	cmd.MarkFlagsMutuallyExclusive("queue", "replace")
	return cmd
}

func (a *app) upgrade(ctx context.Context, c *client.Client, one apitypes.Cluster, asked apitypes.AskedUpgrade, o applyOptions) error {
	var answer apitypes.Upgrade
	if err := c.Send(ctx, "POST", clusterPath(one)+"/upgrade"+o.query(), asked, &answer); err != nil {
		if found := findings(err); len(found) > 0 {
			for _, f := range found {
				fmt.Fprintln(a.Err, findingText(f))
			}
			return fmt.Errorf("cluster %s is not upgraded, and nothing was changed", one.Name)
		}
		return fmt.Errorf("upgrade: %w", err) // the server names the cluster
	}
	r := answer.Result
	if r != nil {
		for _, warning := range r.Warnings {
			fmt.Fprintf(a.Err, "warning: cluster %s: %s\n", one.Name, warning)
		}
	}
	err := a.show(answer, func(t *table) {
		for _, f := range answer.Findings {
			t.Row(findingText(f))
		}
		switch {
		case r == nil:
		case o.dryRun:
			t.Row(fmt.Sprintf("cluster %s would go from %s to %s", one.Name, answer.From, answer.To))
			for _, line := range r.Hosts {
				t.Row("  " + line)
			}
			if r.Preview != nil {
				preview(t, *r.Preview)
			}
		case r.Operation != "":
			t.Row(fmt.Sprintf("operation %s: upgrade cluster %s from %s to %s; `drover operations show %s -w` follows it", r.Operation, one.Name, answer.From, answer.To, r.Operation))
		default:
			t.Row(fmt.Sprintf("cluster %s: %s, from %s to %s; `drover clusters show %s -w` follows it", one.Name, r.Action, answer.From, answer.To, one.Name))
		}
	})
	switch {
	case err != nil || o.dryRun || !o.wait || r == nil:
		return err
	case r.Operation != "":
		_, err := a.awaitOperation(ctx, c, r.Operation, o.timeout, func(apitypes.Operation) {})
		return err
	}
	return a.followUntil(ctx, c, clusterPath(one), o.timeout, active)
}

// findingText is a finding as a line for people.
func findingText(f apitypes.UpgradeFinding) string {
	text := fmt.Sprintf("%s: %s (%s)", f.Level, f.Text, f.Code)
	if f.WayOut != "" {
		text += ": " + f.WayOut
	}
	return text
}

// findings are those that a refusal has with it.
func findings(err error) []apitypes.UpgradeFinding {
	var refused *client.Error
	var found []apitypes.UpgradeFinding
	if !errors.As(err, &refused) || json.Unmarshal(refused.Findings, &found) != nil {
		return nil
	}
	return found
}

func (a *app) clustersWindow() *cobra.Command {
	var set string
	var off bool
	cmd := &cobra.Command{
		Use: "window NAME", Short: "Show or set when a cluster's machines may be restarted", Args: needs("NAME"),
		Long: `Show or set when a cluster's machines may be restarted: days, from-until, and the zone of that clock; several windows with
semicolons between them. Days are those on which the window opens: "Sat", "Mon-Fri", "Mon,Wed" or "daily".

Upgrades and other changes that restart machines begin within a window, stop at its end when the machines that have begun
are through, and go on in the next one. What restarts nothing, machines that join, and what people ask for by name (snapshots,
restores, rotations, removals) do not wait. ` + "`drover operations hurry ID`" + ` has one operation not wait, and is in its log.`,
		Example: "  drover clusters window harbour --set \"Sat 22:00-04:00 Europe/Berlin\"\n  drover clusters window harbour --set \"Mon-Fri 01:00-03:00 UTC; Sun 10:00-18:00 UTC\"\n  drover clusters window harbour --clear",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
				given := cmd.Flags().Changed("set")
				if given && set == "" {
					return usage("--set needs a window; --clear takes it off")
				}
				var w apitypes.Window
				var err error
				if given || off {
					err = c.Send(ctx, "POST", clusterPath(one)+"/window/set", apitypes.AskedWindow{Window: set}, &w)
				} else {
					err = c.Get(ctx, clusterPath(one)+"/window", &w)
				}
				if err != nil {
					return fmt.Errorf("maintenance window of cluster %s: %w", one.Name, err)
				}
				return a.show(w, func(t *table) { t.Row(windowText(one.Name, w, time.Now())) })
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&set, "set", "", "the window, such as \"Sat 22:00-04:00 Europe/Berlin\"")
	cmd.Flags().BoolVar(&off, "clear", false, "take the window off: machines may restart at any time")
	cmd.MarkFlagsMutuallyExclusive("set", "clear")
	return cmd
}

func windowText(cluster string, w apitypes.Window, now time.Time) string {
	switch {
	case w.Window == "":
		return "cluster " + cluster + " has no maintenance window: its machines may restart at any time"
	case w.Change.IsZero() && w.Open:
		return w.Window + ": always open"
	case w.Change.IsZero():
		return w.Window + ": does not open within two weeks"
	case w.Open:
		return fmt.Sprintf("%s: open, closes in %s", w.Window, in(now, w.Change))
	}
	return fmt.Sprintf("%s: opens in %s", w.Window, in(now, w.Change))
}

// in is how long it is to a time, in minutes.
func in(now, then time.Time) string {
	left := max(0, then.Sub(now)).Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", left/time.Hour, left%time.Hour/time.Minute)
}
