package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/clustertree"
	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans"
)

// node is the name of the Kubernetes node, or what its host was named or calls itself, before there is one and where there is none.
func node(m apitypes.Machine) string {
	if m.Node != nil {
		return m.Node.Name
	}
	return firstOf(m.NodeName, m.Hostname)
}

// address is the one to show where there is room for one.
func address(m apitypes.Machine) string {
	for _, list := range [][]string{m.InternalAddress, m.Address} {
		if len(list) > 0 {
			return list[0]
		}
	}
	if m.Node != nil && len(m.Node.Addresses) > 0 {
		return m.Node.Addresses[0]
	}
	return ""
}

func roles(r apitypes.Roles) string {
	var names []string
	for _, role := range []struct {
		has  bool
		name string
	}{{r.Etcd, "etcd"}, {r.ControlPlane, "controlplane"}, {r.Worker, "worker"}} {
		if role.has {
			names = append(names, role.name)
		}
	}
	if len(names) == 3 {
		return "all"
	}
	return orDash(strings.Join(names, ","))
}

func stateText(m apitypes.Machine) string {
	if m.Cause == "" {
		return string(m.State)
	}
	return string(m.State) + ": " + m.Cause
}

func (a *app) machinesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "machines", Aliases: []string{"machine", "nodes"}, Short: "The hosts that joined, and where each of them stands"}
	cmd.AddCommand(machinesList(a), a.machinesShow(), a.machinesOutput(), a.machinesLogs(), a.machinesDocker(),
		a.machinesForward(), a.machinesPlan(), a.machinesRemove())
	return cmd
}

func machinesList(a *app) *cobra.Command {
	return list(a, listing[apitypes.Machine]{
		what: "machines", short: "List machines with their registration states", path: machinesPath, narrow: 8,
		none:    "no machine has joined yet; `drover clusters join-command NAME` prints what makes a host join",
		heading: []string{"NAME", "NODE", "ADDRESS", "CLUSTER", "ROLES", "STATE", "SINCE", "WAITING FOR", "CAUSE", "OS", "AGE"},
		cells: func(m apitypes.Machine, now time.Time) []string {
			return []string{m.Name, orDash(node(m)), orDash(address(m)), m.Cluster, roles(m.Roles), string(m.State), ago(now, m.Since), orDash(m.WaitingFor),
				orDash(m.Cause), orDash(m.OS), ago(now, m.Created)}
		},
		id: func(m apitypes.Machine) string { return m.ID }, name: func(m apitypes.Machine) string { return m.Name }, text: stateText,
		only: "only machines of this cluster or fleet", cluster: a.homeID,
	})
}

// machinesPath is where the server lists machines, and below it where each of them is.
const machinesPath = "/v1-drover/machines"

func machinePath(m apitypes.Machine) string { return machinesPath + "/" + m.ID }

// findMachine looks a machine up by its name, the host's name, that of its node, or an id.
func (a *app) findMachine(ctx context.Context, c *client.Client, name string) (apitypes.Machine, error) {
	list, err := client.List[apitypes.Machine](ctx, c, machinesPath)
	if err != nil {
		return apitypes.Machine{}, fmt.Errorf("find machine %s: %w", name, err)
	}
	var known []string
	for _, m := range list {
		if slices.Contains([]string{m.Name, m.ID, m.NodeID, m.NodeName, m.Hostname, node(m)}, name) {
			return m, nil
		}
		known = append(known, firstOf(m.NodeName, m.Hostname, m.Name))
	}
	if like := usageerr.Suggest(name, known); len(like) > 0 {
		return apitypes.Machine{}, absent("there is no machine %q; did you mean %s?", name, strings.Join(like, " or "))
	}
	return apitypes.Machine{}, absent("there is no machine %q; `drover machines ls` shows those there are", name)
}

// onMachine is a command that does something with the machine of its one argument.
func (a *app) onMachine(do func(ctx context.Context, c *client.Client, m apitypes.Machine) error) func(*cobra.Command, []string) error {
	return on(a, a.findMachine, do)
}

func (a *app) machinesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show one machine: its state, the cause, since when, and the last output of what failed", Args: needs("NAME"),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m apitypes.Machine) error {
			var onHost []string
			if m.State == apitypes.MachineApplyingPlan {
				onHost = hostWaits(ctx, c, m)
			}
			return a.show(m, func(t *table) {
				m.NextStep = clustertree.Documented(c.Server(), m.NextStep)
				describe(t, m, onHost, time.Now())
			})
		}),
	}
}

// askLimit is how long the agent on a host may take to say what it waits for.
const askLimit = 10 * time.Second

// hostWaits is what the agent says that its plan waits for, which the plan's Secret has no
// place for: a full disk ends no plan. Of an agent that cannot be asked there is nothing to
// say here; that it is not connected is part of the machine's state.
func hostWaits(ctx context.Context, c *client.Client, m apitypes.Machine) []string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var s status.Status
	if err := c.Get(ctx, machinePath(m)+"/status", &s); err != nil {
		return nil
	}
	return s.Waits()
}

// describe shows a machine; onHost is what its agent says that it waits for.
func describe(t *table, m apitypes.Machine, onHost []string, now time.Time) {
	t.Row("name", m.Name)
	t.Row("node", orDash(node(m)))
	if m.Fleet {
		t.Row("fleet", fmt.Sprintf("%s (%s)", m.Cluster, m.ClusterID))
		t.Row("labels", orDash(labelsText(m)))
	} else {
		t.Row("cluster", fmt.Sprintf("%s (%s)", m.Cluster, m.ClusterID))
		t.Row("roles", roles(m.Roles))
	}
	t.Row("address", orDash(address(m)))
	t.Row("agent", cmp.Or(m.Agent, "not known"))
	if d := m.Docker; d != nil {
		t.Row("docker", fmt.Sprintf("%s, storage %s, cgroups by %s", orDash(d.ServerVersion), orDash(d.StorageDriver), orDash(d.CgroupDriver)))
		t.Row("system", fmt.Sprintf("%s, kernel %s", orDash(d.OperatingSystem), orDash(d.KernelVersion)))
	}
	t.Row("registered", fmt.Sprintf("%s (%s ago)", m.Created.Format(time.RFC3339), ago(now, m.Created)))
	t.Row("state", string(m.State))
	t.Row("since", fmt.Sprintf("%s (%s)", m.Since.Format(time.RFC3339), ago(now, m.Since)))
	t.Row("cause", orDash(m.Cause))
	t.Row("waiting for", orDash(m.WaitingFor))
	for _, line := range onHost {
		t.Row("on the host", plans.SafeLine(line))
	}
	if m.NextStep != "" {
		t.Row("next step", m.NextStep)
	}
	if m.Refused != "" {
		t.Row("refused", m.Refused)
	}
	if now.Before(m.RejoinUntil) {
		t.Row("rejoin", "one registration without the machine's token is allowed until "+m.RejoinUntil.Format(time.RFC3339))
	}
	for _, h := range m.History {
		t.Row("history", h.At.Format(time.RFC3339)+"  "+string(h.State))
	}
	if m.LastFailure != nil {
		describeFailure(t, m)
	}
}

func describeFailure(t *table, m apitypes.Machine) {
	f := m.LastFailure
	what := "plan " + f.Checksum[:min(8, len(f.Checksum))]
	if f.Instruction != "" {
		what = "instruction " + f.Instruction + " of " + what
	}
	t.Row("last failure", fmt.Sprintf("%s  %s", f.At.Format(time.RFC3339), what))
	if !m.NextRetry.IsZero() {
		t.Row("next try", fmt.Sprintf("%s (number %d)", m.NextRetry.Format(time.RFC3339), m.Retries+1))
	}
	lines := strings.Split(strings.TrimRight(f.Output, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-20):] {
		t.Row("output", strings.ReplaceAll(line, "\t", "    "))
	}
}

func (a *app) machinesRemove() *cobra.Command {
	var yes bool
	o := leaveOptions{refuse: true}
	cmd := &cobra.Command{
		Use: "rm NAME --yes", Short: "Remove a machine from its cluster and leave its host clean", Args: needs("NAME"),
		Long: `Remove a machine from its cluster: its etcd member and its node go first, then its host is left
clean of the distribution, and only then is the machine forgotten. The host needs its agent for
that; with --force the machine is forgotten at once, and its host keeps what runs on it.

A machine of a fleet is forgotten, and its host keeps what plans did there.`,
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m apitypes.Machine) error {
			if m.Fleet {
				return a.removeFromFleet(ctx, c, m, o, yes)
			}
			if !yes {
				return usage("machine %s of cluster %s is %s; it leaves the cluster, and the distribution with all its data is taken off its host; say --yes to do it", m.Name, m.Cluster, m.State)
			}
			if err := c.Send(ctx, "DELETE", "/v3/nodes/"+url.PathEscape(m.NodeID)+o.query(), nil, nil); err != nil {
				return fmt.Errorf("remove machine %s: %w", m.Name, err)
			}
			switch {
			case m.Docker != nil:
				fmt.Fprintf(a.Out, "machine %s is removed; on the host: docker rm -f the container of the node agent\n", m.Name)
			case o.force:
				fmt.Fprintf(a.Out, "machine %s is forgotten; what runs on its host stays there until you run on it: %s\n", m.Name, hostCleanup)
			default:
				fmt.Fprintf(a.Out, "machine %s is being removed; drover machines show %s shows how far that is\n", m.Name, m.Name)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the cluster is under way")
	o.flags(cmd)
	return cmd
}
