package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/spf13/cobra"
)

// cluster is what the commands use of a cluster; raw is the whole answer.
type cluster struct {
	ID                   string `json:"id"`
	Name                 string `json:"name"`
	State                string `json:"state"`
	Transitioning        string `json:"transitioning"`
	TransitioningMessage string `json:"transitioningMessage"`
	NodeCount            int    `json:"nodeCount"`
	Driver               string `json:"driver"`
	Provider             string `json:"provider"`
	Version              struct {
		GitVersion string `json:"gitVersion"`
	} `json:"version"`
	Created time.Time `json:"created"`
}

type collection[T any] struct {
	Data []T `json:"data"`
}

func (a *app) clustersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "clusters", Aliases: []string{"cluster"}, Short: "The clusters of the server"}
	cmd.AddCommand(a.clustersList(), a.clustersShow(), a.joinCommand(), a.kubeconfigCommand(), a.clustersRemove())
	return cmd
}

func (a *app) clustersList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			raw, list, err := collect[cluster](cmd.Context(), c, "/v3/clusters?limit=-1")
			if err != nil {
				return fmt.Errorf("list clusters: %w", err)
			}
			return a.show(raw, func(t *table) {
				t.row("NAME", "ID", "STATE", "VERSION", "MACHINES", "MESSAGE")
				for _, one := range list {
					t.row(one.Name, one.ID, one.State, orDash(one.Version.GitVersion), fmt.Sprint(one.NodeCount), one.TransitioningMessage)
				}
			})
		},
	}
}

// collect gets a collection both as it is and as what a table needs of it.
func collect[T any](ctx context.Context, c *client.Client, path string) (raw []json.RawMessage, list []T, err error) {
	var answer collection[json.RawMessage]
	if err := c.Get(ctx, path, &answer); err != nil {
		return nil, nil, err
	}
	list = make([]T, len(answer.Data))
	for i, item := range answer.Data {
		if err := json.Unmarshal(item, &list[i]); err != nil {
			return nil, nil, fmt.Errorf("read the answer to %s: %w", path, err)
		}
	}
	if answer.Data == nil {
		answer.Data = []json.RawMessage{}
	}
	return answer.Data, list, nil
}

// find looks a cluster up by name or id.
func (a *app) find(ctx context.Context, c *client.Client, name string) (json.RawMessage, cluster, error) {
	raw, list, err := collect[cluster](ctx, c, "/v3/clusters?limit=-1")
	if err != nil {
		return nil, cluster{}, fmt.Errorf("find cluster %s: %w", name, err)
	}
	var known []string
	for i, one := range list {
		if one.Name == name || one.ID == name {
			return raw[i], one, nil
		}
		known = append(known, one.Name)
	}
	if len(known) == 0 {
		return nil, cluster{}, fmt.Errorf("there is no cluster %q, and no other; `drover apply -f cluster.yaml` makes one", name)
	}
	return nil, cluster{}, fmt.Errorf("there is no cluster %q; there are: %s", name, strings.Join(known, ", "))
}

// onCluster is a command that does something with the cluster of its one argument.
func (a *app) onCluster(do func(ctx context.Context, c *client.Client, raw json.RawMessage, one cluster) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		raw, one, err := a.find(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, raw, one)
	}
}

func (a *app) clustersShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show one cluster, what it waits for, and its machines", Args: cobra.ExactArgs(1),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, raw json.RawMessage, one cluster) error {
			_, list, err := machines(ctx, c, "&clusterId="+url.QueryEscape(one.ID))
			if err != nil {
				return fmt.Errorf("list the machines of cluster %s: %w", one.Name, err)
			}
			return a.show(raw, func(t *table) {
				t.row("name", one.Name)
				t.row("id", one.ID)
				t.row("state", one.State)
				t.row("message", orDash(one.TransitioningMessage))
				t.row("version", orDash(one.Version.GitVersion))
				t.row("machines", fmt.Sprint(len(list)))
				for _, m := range list {
					t.row("  "+m.title(), m.stateText())
				}
			})
		}),
	}
}

func (a *app) clustersRemove() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm NAME --yes", Short: "Remove a cluster from the server; what runs on its hosts stays", Args: cobra.ExactArgs(1),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, _ json.RawMessage, one cluster) error {
			if !yes {
				return fmt.Errorf("cluster %s (%s) has %d machines; the server forgets them, their tokens and the cluster's join tokens, which encrypt its snapshots; say --yes to do it", one.Name, one.ID, one.NodeCount)
			}
			if err := c.Send(ctx, "DELETE", "/v3/clusters/"+url.PathEscape(one.ID), nil, nil); err != nil {
				return fmt.Errorf("remove cluster %s: %w", one.Name, err)
			}
			fmt.Fprintf(a.Out, "cluster %s is being removed; on its hosts: system-agent-uninstall.sh, k3s-uninstall.sh\n", one.Name)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (a *app) joinCommand() *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use: "join-command NAME", Short: "Print the command that makes a host join", Args: cobra.ExactArgs(1),
		Example: "  drover clusters join-command harbour --all-roles\n  drover clusters join-command dockyard --docker --worker",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, _ json.RawMessage, one cluster) error {
			if err := o.fits(one); err != nil {
				return err
			}
			flags, err := o.flags()
			if err != nil {
				return err
			}
			var token struct {
				NodeCommand          string `json:"nodeCommand"`
				TransitioningMessage string `json:"transitioningMessage"`
			}
			if err := c.Get(ctx, "/v3/clusterRegistrationTokens/"+url.PathEscape(one.ID+":default-token"), &token); err != nil {
				return fmt.Errorf("get the registration token of cluster %s: %w", one.Name, err)
			}
			if token.NodeCommand == "" {
				return fmt.Errorf("cluster %s has no join command: %s", one.Name, token.TransitioningMessage)
			}
			var ca setting
			if err := c.Get(ctx, "/v3/settings/cacerts", &ca); err != nil {
				return fmt.Errorf("get the server's authority: %w", err)
			}
			line := token.NodeCommand + flags
			if !o.docker { // whose agent needs no more than the checksum
				line = trusting(token.NodeCommand, ca.Value) + flags
			}
			return a.show(map[string]string{"command": line}, func(t *table) { t.row(line) })
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.docker, "docker", false, "the host runs Docker: print the docker run command of the node agent")
	f.BoolVar(&o.all, "all-roles", false, "etcd, control plane and worker")
	f.BoolVar(&o.etcd, "etcd", false, "etcd")
	f.BoolVar(&o.controlPlane, "controlplane", false, "control plane")
	f.BoolVar(&o.worker, "worker", false, "worker")
	f.StringVar(&o.nodeName, "node-name", "", "name of the node (default: the host's name)")
	f.StringVar(&o.address, "address", "", "external address")
	f.StringVar(&o.internalAddress, "internal-address", "", "internal address")
	f.StringArrayVar(&o.labels, "label", nil, "label of the node, k=v (repeat)")
	f.StringArrayVar(&o.taints, "taints", nil, "taint of the node, k=v:Effect (repeat)")
	return cmd
}

// trusting lets the command's curl trust the server's own authority. The host has never seen
// that authority, so the line carries it: whoever pastes the line trusts where it came from.
func trusting(command, ca string) string {
	if ca == "" {
		return command
	}
	return "echo " + base64.StdEncoding.EncodeToString([]byte(ca)) + " | base64 -d | " +
		strings.Replace(command, "curl -fL ", "curl -fL --cacert /dev/stdin ", 1)
}

type joinOptions struct {
	docker                             bool
	all, etcd, controlPlane, worker    bool
	nodeName, address, internalAddress string
	labels, taints                     []string
}

// dockerDriver is that of clusters of Docker hosts.
const dockerDriver = "rancherKubernetesEngine"

// fits refuses a command of the other kind of cluster.
func (o joinOptions) fits(one cluster) error {
	switch isDocker := one.Driver == dockerDriver; {
	case isDocker && !o.docker:
		return fmt.Errorf("the hosts of cluster %s run Docker: say --docker, as in `drover clusters join-command %s --docker --all-roles`", one.Name, one.Name)
	case o.docker && !isDocker:
		return fmt.Errorf("the hosts of cluster %s get a system agent and need no Docker: leave --docker out", one.Name)
	}
	return nil
}

func (o joinOptions) flags() (string, error) {
	var flags strings.Builder
	for _, role := range []struct {
		on   bool
		flag string
	}{{o.etcd || o.all, " --etcd"}, {o.controlPlane || o.all, " --controlplane"}, {o.worker || o.all, " --worker"}} {
		if role.on {
			flags.WriteString(role.flag)
		}
	}
	if flags.Len() == 0 {
		return "", fmt.Errorf("which roles has the host? --all-roles, or some of --etcd --controlplane --worker")
	}
	for _, pair := range []struct{ flag, value string }{{" --node-name ", o.nodeName}, {" --address ", o.address}, {" --internal-address ", o.internalAddress}} {
		if pair.value != "" {
			flags.WriteString(pair.flag + quote(pair.value))
		}
	}
	for _, label := range o.labels {
		flags.WriteString(" --label " + quote(label))
	}
	for _, taint := range o.taints {
		flags.WriteString(" --taints " + quote(taint))
	}
	return flags.String(), nil
}

// quote makes one word for a shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (a *app) kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig NAME", Short: "Print a kubeconfig that reaches the cluster through the server", Args: cobra.ExactArgs(1),
		Example: "  drover clusters kubeconfig harbour > kc && kubectl --kubeconfig kc get nodes",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, _ json.RawMessage, one cluster) error {
			if one.Driver == dockerDriver {
				return fmt.Errorf("cluster %s has no Kubernetes to reach: nothing is provisioned on its hosts yet", one.Name)
			}
			var answer struct {
				Config string `json:"config"`
			}
			if err := c.Send(ctx, "POST", "/v3/clusters/"+url.PathEscape(one.ID)+"?action=generateKubeconfig", nil, &answer); err != nil {
				return fmt.Errorf("make a kubeconfig of cluster %s: %w", one.Name, err)
			}
			fmt.Fprint(a.Out, answer.Config)
			return nil
		}),
	}
}
