// Fleets: machines without a cluster.

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

// fleetsPath is where the server lists fleets, and below it where each of them is.
const fleetsPath = "/v1-drover/fleets"

func fleetPath(name string) string { return fleetsPath + "/" + url.PathEscape(name) }

func (a *app) fleetsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "fleets", Aliases: []string{"fleet"}, Short: "Machines without a cluster, to which people give plans"}
	cmd.AddCommand(fleetsList(a), a.fleetsShow(), a.fleetsJoin())
	return cmd
}

func fleetsList(a *app) *cobra.Command {
	return list(a, listing[apitypes.Fleet]{
		what: "fleets", short: "List fleets", path: fleetsPath, heading: []string{"NAME", "ID", "MACHINES", "STATES", "OPERATION"},
		none: "there is no fleet yet; `drover fleets join-command NAME` makes the fleet, and prints the line by which a host joins",
		cells: func(f apitypes.Fleet, _ time.Time) []string {
			return []string{f.Name, f.ID, fmt.Sprint(f.Machines), orDash(statesText(f)), orDash(underWay(f))}
		},
		id: func(f apitypes.Fleet) string { return f.ID }, name: func(f apitypes.Fleet) string { return f.Name }, text: fleetText,
	})
}

// fleetText is where a fleet stands, in a line.
func fleetText(f apitypes.Fleet) string {
	text := fmt.Sprintf("%d machines", f.Machines)
	if states := statesText(f); states != "" {
		text += ": " + states
	}
	if operation := underWay(f); operation != "" {
		text += "; " + operation
	}
	return text
}

// statesText is how many machines of a fleet are in each state.
func statesText(f apitypes.Fleet) string {
	var all []string
	for _, state := range slices.Sorted(maps.Keys(f.States)) {
		all = append(all, fmt.Sprintf("%d %s", f.States[state], state))
	}
	return strings.Join(all, ", ")
}

func underWay(f apitypes.Fleet) string {
	switch {
	case !f.Deleting.IsZero():
		return "it is being removed"
	case f.Operation == nil:
		return ""
	}
	return fmt.Sprintf("%s (%s), %s machines done", f.Operation.ID, f.Operation.State, doneText(*f.Operation))
}

// onFleet is a command that does something with the fleet of its one argument.
func (a *app) onFleet(do func(ctx context.Context, c *client.Client, f apitypes.Fleet) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		var f apitypes.Fleet
		if err := c.Get(cmd.Context(), fleetPath(args[0]), &f); err != nil {
			return err // which names the fleet
		}
		return do(cmd.Context(), c, f)
	}
}

func (a *app) fleetsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show one fleet with its machines, and what is under way on it", Args: needs("NAME"),
		RunE: a.onFleet(func(ctx context.Context, c *client.Client, f apitypes.Fleet) error {
			list, err := client.List[apitypes.Machine](ctx, c, machinesPath+"?cluster="+url.QueryEscape(f.ID))
			if err != nil {
				return fmt.Errorf("list the machines of fleet %s: %w", f.Name, err)
			}
			now := time.Now()
			return a.show(f, func(t *table) {
				t.Row("name", f.Name)
				t.Row("id", f.ID)
				t.Row("made", fmt.Sprintf("%s (%s ago)", f.Created.Format(time.RFC3339), ago(now, f.Created)))
				t.Row("operation", orDash(underWay(f)))
				t.Row("machines", orDash(statesText(f)))
				if len(list) > 0 {
					t.Row()
					t.Row("MACHINE", "HOST", "LABELS", "STATE", "SINCE", "WAITING FOR")
				}
				for _, m := range list {
					t.Row(m.Name, orDash(node(m)), orDash(labelsText(m)), string(m.State), ago(now, m.Since), orDash(m.WaitingFor))
				}
			})
		}),
	}
}

// labelsText are the labels that a host was registered with.
func labelsText(m apitypes.Machine) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(m.NodeLabels)) {
		if key != "cattle.io/os" {
			all = append(all, key+"="+m.NodeLabels[key])
		}
	}
	return strings.Join(all, ",")
}

func (a *app) fleetsJoin() *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use: "join-command NAME", Short: "Print the command that makes a host join a fleet, which is made when there is none of that name", Args: needs("NAME"),
		Long: `Print the command that makes a host join a fleet; a fleet is made when there is none of that name. The
command has the registration token, which no program on the host gets as an argument. A host has no roles in
a fleet; its labels are what plans are given by.`,
		Example: "  drover fleets join-command edge --label site=north",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			flags, err := o.about()
			if err != nil {
				return err
			}
			var join apitypes.Join
			path := fleetPath(args[0]) + "/join"
			if o.rotate {
				path += "?rotate=true"
			}
			if err := c.Send(cmd.Context(), http.MethodPost, path, nil, &join); err != nil {
				return fmt.Errorf("get the join command of fleet %s: %w", args[0], err)
			}
			if join.Made {
				fmt.Fprintf(a.Err, "fleet %s is made\n", join.Cluster)
			}
			if join.Command == "" {
				return fmt.Errorf("fleet %s has no join command: %s", args[0], join.Problem)
			}
			line := join.Command + flags
			return a.show(map[string]string{"command": line}, func(t *table) { t.Row(line) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.rotate, "rotate", false, "make a new token in place of the one before, by which no host joins any more; those that have joined need neither")
	f.StringVar(&o.nodeName, "node-name", "", "what the host is called in lists (default: the machine's name)")
	f.StringVar(&o.address, "address", "", "external address")
	f.StringVar(&o.internalAddress, "internal-address", "", "internal address")
	f.StringArrayVar(&o.labels, "label", nil, "label of the machine, k=v (repeat)")
	return cmd
}

// removeFromFleet forgets a machine of a fleet.
func (a *app) removeFromFleet(ctx context.Context, c *client.Client, m apitypes.Machine, o leaveOptions, yes bool) error {
	if !yes {
		return usage("machine %s of fleet %s is %s; it is forgotten, and its host keeps what plans did there; say --yes to do it", m.Name, m.Cluster, m.State)
	}
	if err := c.Send(ctx, http.MethodPost, machinePath(m)+"/remove"+o.query(), nil, nil); err != nil {
		return fmt.Errorf("remove machine %s: %w", m.Name, err)
	}
	fmt.Fprintf(a.Out, "machine %s is being forgotten; its host keeps what plans did there; on it: rancher-system-agent-uninstall.sh\n", m.Name)
	return nil
}

// home is a cluster or a fleet.
type home struct {
	id, key string
	fleet   string // its name; empty for a cluster
}

// path is where the server has it.
func (h home) path() string {
	if h.fleet != "" {
		return fleetPath(h.fleet)
	}
	return clustersPath + "/" + h.key
}

// findHome looks a cluster up as findCluster does, or a fleet.
func (a *app) findHome(ctx context.Context, c *client.Client, name string) (home, error) {
	one, err := a.findCluster(ctx, c, name)
	if err == nil {
		return home{id: one.ID, key: one.Namespace + "/" + one.Name}, nil
	}
	if _, none := errors.AsType[*absentError](err); !none {
		return home{}, err
	}
	list, failed := client.List[apitypes.Fleet](ctx, c, fleetsPath)
	if failed != nil && !errors.Is(failed, client.ErrNotFound) { // as by a server that has no fleets
		return home{}, failed
	}
	var known []string
	for _, f := range list {
		if f.Name == name || f.ID == name || f.Namespace+"/"+f.Name == name {
			return home{f.ID, f.Namespace + "/" + f.Name, f.Name}, nil
		}
		known = append(known, f.Name)
	}
	if like := usageerr.Suggest(name, known); len(like) > 0 {
		return home{}, absent("there is no cluster and no fleet %q; did you mean fleet %s?", name, strings.Join(like, " or "))
	}
	return home{}, err
}
