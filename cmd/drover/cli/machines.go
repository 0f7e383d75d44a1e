package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/server/records"
	"github.com/spf13/cobra"
)

// machine is what the commands use of a machine.
type machine struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	NodeName     string    `json:"nodeName"`
	ClusterID    string    `json:"clusterId"`
	Machine      string    `json:"droverMachine"` // <namespace>/<name>
	Etcd         bool      `json:"etcd"`
	ControlPlane bool      `json:"controlPlane"`
	Worker       bool      `json:"worker"`
	IPAddress    string    `json:"ipAddress"`
	DroverState  string    `json:"droverState"`
	Cause        string    `json:"cause"`
	WaitingFor   string    `json:"waitingFor"`
	NextStep     string    `json:"nextStep"`
	Since        time.Time `json:"since"`
	Created      time.Time `json:"created"`
	Refused      string    `json:"refused"`
	Docker       *struct {
		ServerVersion   string `json:"serverVersion"`
		OperatingSystem string `json:"operatingSystem"`
		KernelVersion   string `json:"kernelVersion"`
		CgroupDriver    string `json:"cgroupDriver"`
		Driver          string `json:"driver"`
	} `json:"dockerInfo"`
	History []struct {
		State string    `json:"state"`
		At    time.Time `json:"at"`
	} `json:"history"`
	LastFailure *struct {
		Checksum    string    `json:"checksum"`
		At          time.Time `json:"at"`
		Instruction string    `json:"instruction"`
		Output      string    `json:"output"`
	} `json:"lastFailure"`

	clusterName string
	retries     int
	onHost      []string // what the agent says that it waits for
	nextRetry   time.Time
}

// machines gets machines both as they are and as tables need them, with their clusters' names.
func machines(ctx context.Context, c *client.Client, query string) ([]json.RawMessage, []machine, error) {
	raw, list, err := collect[machine](ctx, c, "/v3/nodes?limit=-1"+query)
	if err != nil {
		return nil, nil, err
	}
	_, known, err := collect[cluster](ctx, c, "/v3/clusters?limit=-1")
	if err != nil {
		return nil, nil, err
	}
	names := map[string]string{}
	for _, one := range known {
		names[one.ID] = one.Name
	}
	for i := range list {
		list[i].clusterName = names[list[i].ClusterID]
	}
	return raw, list, nil
}

func (m machine) title() string {
	if _, name, ok := strings.Cut(m.Machine, "/"); ok {
		return name
	}
	return m.Name
}

// node is the name of the Kubernetes node, or of a host on which none is provisioned.
func (m machine) node() string {
	if m.NodeName == "" && m.Docker != nil {
		return m.Name
	}
	return m.NodeName
}

func (m machine) roles() string {
	var roles []string
	for _, r := range []struct {
		has  bool
		name string
	}{{m.Etcd, "etcd"}, {m.ControlPlane, "controlplane"}, {m.Worker, "worker"}} {
		if r.has {
			roles = append(roles, r.name)
		}
	}
	if len(roles) == 3 {
		return "all"
	}
	return orDash(strings.Join(roles, ","))
}

func (m machine) stateText() string {
	if m.Cause == "" {
		return m.DroverState
	}
	return m.DroverState + ": " + m.Cause
}

func (a *app) machinesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "machines", Aliases: []string{"machine", "nodes"}, Short: "The hosts that joined, and where each of them stands"}
	cmd.AddCommand(a.machinesList(), a.machinesShow(), a.machinesOutput(), a.machinesLogs(), a.machinesDocker(),
		a.machinesForward(), a.machinesRemove())
	return cmd
}

func (a *app) machinesList() *cobra.Command {
	var clusterName string
	var watch bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List machines with their registration states", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			query := ""
			if clusterName != "" {
				_, one, err := a.find(cmd.Context(), c, clusterName)
				if err != nil {
					return err
				}
				query = "&clusterId=" + url.QueryEscape(one.ID)
			}
			if watch {
				return a.follow(cmd.Context(), c, query)
			}
			raw, list, err := machines(cmd.Context(), c, query)
			if err != nil {
				return fmt.Errorf("list machines: %w", err)
			}
			now := time.Now()
			return a.show(raw, func(t *table) {
				t.row("NAME", "NODE", "CLUSTER", "ROLES", "STATE", "SINCE", "WAITING FOR")
				for _, m := range list {
					t.row(m.title(), orDash(m.node()), m.clusterName, m.roles(), m.DroverState, ago(now, m.Since), orDash(m.WaitingFor))
				}
			})
		},
	}
	cmd.Flags().StringVar(&clusterName, "cluster", "", "only machines of this cluster")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print each change of state until Ctrl-C")
	return cmd
}

// follow prints a line for each machine and for each change of its state.
func (a *app) follow(ctx context.Context, c *client.Client, query string) error {
	last := map[string]string{}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, list, err := machines(ctx, c, query)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch machines: %w", err)
		}
		for _, m := range list {
			line := m.stateText()
			if last[m.ID] == line {
				continue
			}
			last[m.ID] = line
			fmt.Fprintf(a.Out, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), m.title(), line)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (a *app) findMachine(ctx context.Context, c *client.Client, name string) (machine, error) {
	_, list, err := machines(ctx, c, "")
	if err != nil {
		return machine{}, fmt.Errorf("find machine %s: %w", name, err)
	}
	for _, m := range list {
		if name == m.title() || name == m.Name || name == m.NodeName || name == m.ID {
			return m, nil
		}
	}
	return machine{}, fmt.Errorf("there is no machine %q; `drover machines ls` shows those there are", name)
}

// onMachine is a command that does something with the machine of its one argument.
func (a *app) onMachine(do func(ctx context.Context, c *client.Client, m machine) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		m, err := a.findMachine(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, m)
	}
}

func (a *app) machinesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show one machine: its state, the cause, since when, and the last output of what failed", Args: cobra.ExactArgs(1),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m machine) error {
			// The list has what every client of a node reads; drover's own view has all of it.
			var raw json.RawMessage
			if err := c.Get(ctx, "/v1-drover/machines/"+m.Machine, &raw); err != nil {
				return fmt.Errorf("show machine %s: %w", m.title(), err)
			}
			var detail struct {
				Retries   int       `json:"retries"`
				NextRetry time.Time `json:"nextRetry"`
			}
			if err := json.Unmarshal(raw, &detail); err != nil {
				return fmt.Errorf("read machine %s: %w", m.title(), err)
			}
			m.retries, m.nextRetry = detail.Retries, detail.NextRetry
			if m.DroverState == string(records.ApplyingPlan) {
				m.onHost = hostWaits(ctx, c, m)
			}
			return a.show(raw, func(t *table) { m.describe(t, time.Now()) })
		}),
	}
}

// askLimit is how long the agent on a host may take to say what it waits for.
const askLimit = 10 * time.Second

// hostWaits is what the agent says that its plan waits for, which the plan's Secret has no
// place for: a full disk ends no plan. Of an agent that cannot be asked there is nothing to
// say here; that it is not connected is part of the machine's state.
func hostWaits(ctx context.Context, c *client.Client, m machine) []string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var s status.Status
	if err := c.Get(ctx, "/v1-drover/machines/"+m.Machine+"/status", &s); err != nil {
		return nil
	}
	return s.Waits()
}

func (m machine) describe(t *table, now time.Time) {
	t.row("name", m.title())
	t.row("node", orDash(m.node()))
	t.row("cluster", fmt.Sprintf("%s (%s)", m.clusterName, m.ClusterID))
	t.row("roles", m.roles())
	t.row("address", orDash(m.IPAddress))
	if d := m.Docker; d != nil {
		t.row("docker", fmt.Sprintf("%s, storage %s, cgroups by %s", orDash(d.ServerVersion), orDash(d.Driver), orDash(d.CgroupDriver)))
		t.row("system", fmt.Sprintf("%s, kernel %s", orDash(d.OperatingSystem), orDash(d.KernelVersion)))
	}
	t.row("registered", fmt.Sprintf("%s (%s ago)", m.Created.Format(time.RFC3339), ago(now, m.Created)))
	t.row("state", m.DroverState)
	t.row("since", fmt.Sprintf("%s (%s)", m.Since.Format(time.RFC3339), ago(now, m.Since)))
	t.row("cause", orDash(m.Cause))
	t.row("waiting for", orDash(m.WaitingFor))
	for _, line := range m.onHost {
		t.row("on the host", status.Printable(line))
	}
	if m.NextStep != "" {
		t.row("next step", m.NextStep)
	}
	if m.Refused != "" {
		t.row("refused", m.Refused)
	}
	for _, h := range m.History {
		t.row("history", h.At.Format(time.RFC3339)+"  "+h.State)
	}
	f := m.LastFailure
	if f == nil {
		return
	}
	what := "plan " + f.Checksum[:min(8, len(f.Checksum))]
	if f.Instruction != "" {
		what = "instruction " + f.Instruction + " of " + what
	}
	t.row("last failure", fmt.Sprintf("%s  %s", f.At.Format(time.RFC3339), what))
	if !m.nextRetry.IsZero() {
		t.row("next try", fmt.Sprintf("%s (number %d)", m.nextRetry.Format(time.RFC3339), m.retries+1))
	}
	lines := strings.Split(strings.TrimRight(f.Output, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-20):] {
		t.row("output", strings.ReplaceAll(line, "\t", "    "))
	}
}

func (a *app) machinesRemove() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm NAME --yes", Short: "Remove a machine from the server; what runs on the host stays", Args: cobra.ExactArgs(1),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m machine) error {
			if !yes {
				return fmt.Errorf("machine %s of cluster %s is %s; the server forgets it and its token; say --yes to do it", m.title(), m.clusterName, m.DroverState)
			}
			if err := c.Send(ctx, "DELETE", "/v3/nodes/"+url.PathEscape(m.ID), nil, nil); err != nil {
				return fmt.Errorf("remove machine %s: %w", m.title(), err)
			}
			left := "system-agent-uninstall.sh, k3s-uninstall.sh"
			if m.Docker != nil {
				left = "docker rm -f the container of the node agent"
			}
			fmt.Fprintf(a.Out, "machine %s is removed; on the host: %s\n", m.title(), left)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
