package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/execplugin"
	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/plans/forms"
)

// clustersPath is where the server lists clusters, and below it where each of them is.
const clustersPath = "/v1-drover/clusters"

func clusterPath(c apitypes.Cluster) string { return clustersPath + "/" + c.Namespace + "/" + c.Name }

func (a *app) clustersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "clusters", Aliases: []string{"cluster"}, Short: "The clusters of the server"}
	cmd.AddCommand(clustersList(a), a.clustersShow(), a.joinCommand(), a.tokenCommand(), a.kubeconfigCommand(), a.clustersRemove(),
		a.clustersDiff(), a.clustersResume(), a.clustersExport(), a.clustersBring(), a.clustersImport(), &cobra.Command{Use: "rotate", Short: "Give a cluster new certificates or CAs, another key for its Secrets, or another server token"}, a.clustersUpgrade(), a.clustersWindow(), a.clustersRehearsals())
	return cmd
}

func clustersList(a *app) *cobra.Command {
	return list(a, listing[apitypes.Cluster]{
		what: "clusters", short: "List clusters", path: clustersPath, none: "there is no cluster yet; make the first cluster by `drover apply -f cluster.yaml`", narrow: 6,
		heading: []string{"NAME", "ID", "STATE", "VERSION", "MACHINES", "MESSAGE", "NAMESPACE", "DISTRIBUTION", "WANTED", "AGE"},
		cells: func(one apitypes.Cluster, now time.Time) []string {
			return []string{one.Name, one.ID, one.State, orDash(one.Version), fmt.Sprint(one.Machines), one.Message,
				one.Namespace, orDash(one.Distribution), orDash(one.KubernetesVersion), ago(now, one.Created)}
		},
		id: func(one apitypes.Cluster) string { return one.ID }, name: func(one apitypes.Cluster) string { return one.Name }, text: clusterText,
	})
}

// clusterText is a cluster's state with the reason.
func clusterText(one apitypes.Cluster) string {
	if one.Message == "" {
		return one.State
	}
	return one.State + ": " + one.Message
}

// findCluster looks a cluster up by name, <namespace>/<name> or id.
func (a *app) findCluster(ctx context.Context, c *client.Client, name string) (apitypes.Cluster, error) {
	list, err := client.List[apitypes.Cluster](ctx, c, clustersPath)
	if err != nil {
		return apitypes.Cluster{}, fmt.Errorf("find cluster %s: %w", name, err)
	}
	var known []string
	for _, one := range list {
		if one.Name == name || one.ID == name || one.Namespace+"/"+one.Name == name {
			return one, nil
		}
		known = append(known, one.Name)
	}
	if len(known) == 0 {
		return apitypes.Cluster{}, absent("there is no cluster %q, and no other; `drover apply -f cluster.yaml` makes one", name)
	}
	return apitypes.Cluster{}, absent("there is no cluster %q; %s", name, usageerr.Hint(name, known, "drover clusters ls"))
}

// onCluster is a command that does something with the cluster of its one argument.
func (a *app) onCluster(do func(ctx context.Context, c *client.Client, one apitypes.Cluster) error) func(*cobra.Command, []string) error {
	return on(a, a.findCluster, do)
}

// on is a command that does something with what find finds by the name that is its first argument.
func on[T any](a *app, find func(context.Context, *client.Client, string) (T, error), do func(context.Context, *client.Client, T) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		one, err := find(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, one)
	}
}

func (a *app) clustersShow() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show one cluster, what is under way on it, and its machines tier by tier; with -o yaml in the form that apply takes", Args: needs("NAME"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			switch {
			case watch && !a.tabular():
				return usage("-w prints lines for people; leave -o out")
			case watch:
				return a.watchCluster(ctx, c, one)
			case a.printer().Format.YAML(): // what apply takes
				var document any
				if err := c.Get(ctx, clusterPath(one)+"/document", &document); err != nil {
					return fmt.Errorf("show cluster %s: %w", one.Name, err)
				}
				return a.show(document, nil)
			case !a.tabular():
				return a.show(one, nil)
			}
			t, err := readCluster(ctx, c, clusterPath(one))
			if err != nil {
				return fmt.Errorf("show cluster %s: %w", one.Name, err)
			}
			now := time.Now()
			return a.show(t, func(rows *table) { t.Rows(rows.Row, func(at time.Time) string { return ago(now, at) }) })
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with a line for each change, until Ctrl-C or until the cluster is removed")
	return cmd
}

// watchCluster shows what happens on a cluster until it is removed.
func (a *app) watchCluster(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
	f := follower{client: c, path: clusterPath(one), out: a.Out, errs: a.Err, table: func(fill func(*table)) error { return a.show(nil, fill) }}
	_, err := f.follow(ctx, removed)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("follow cluster %s: %w", one.Name, err)
	}
	fmt.Fprintf(a.Out, "cluster %s is removed, or no longer yours to see\n", one.Name)
	return nil
}

// hostCleanup are the scripts on a host that remove what drover put there, in the order in which they are run.
const hostCleanup = "rancher-system-agent-uninstall.sh, then k3s-uninstall.sh, k3s-agent-uninstall.sh or rke2-uninstall.sh"

// leaveOptions are how a machine or a cluster goes.
type leaveOptions struct{ force, agent, uninstall, queue, refuse bool }

func (o *leaveOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.force, "force", false, "forget it at once, with what runs on its host")
	cmd.Flags().BoolVar(&o.agent, "agent", false, "take drover's agent off the host too")
}

func (o leaveOptions) query() string {
	q := url.Values{}
	for name, is := range map[string]bool{"force": o.force, "agent": o.agent, "uninstall": o.uninstall} {
		if is {
			q.Set(name, "true")
		}
	}
	if o.refuse && !o.queue {
		q.Set("busy", "refuse")
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (a *app) clustersRemove() *cobra.Command {
	var yes, wait, uninstall bool
	var o leaveOptions
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use: "rm NAME --yes", Short: "Remove a cluster from the server; what runs on its hosts stays unless --uninstall", Args: needs("NAME"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			imported := one.Distribution == apitypes.ImportedCluster
			if !yes && imported {
				return usage("cluster %s (%s) is imported; it runs on without the server, and what the server had put there is taken out; say --yes to do it", one.Name, one.ID)
			}
			if !yes {
				return usage("cluster %s (%s) has %d machines; their records and tokens and the cluster's join tokens, which encrypt its snapshots, are deleted from the server; say --yes to do it", one.Name, one.ID, one.Machines)
			}
			o.uninstall = uninstall
			if err := c.Send(ctx, "DELETE", "/v3/clusters/"+url.PathEscape(one.ID)+o.query(), nil, nil); err != nil {
				return fmt.Errorf("remove cluster %s: %w", one.Name, err)
			}
			if imported {
				fmt.Fprintln(a.Out, left(one, o.force))
			} else if uninstall && !o.force {
				fmt.Fprintf(a.Out, "cluster %s is being removed, and its hosts are left clean, workers first\n", one.Name)
			} else {
				fmt.Fprintf(a.Out, "cluster %s is being removed; on its hosts: %s\n", one.Name, hostCleanup)
			}
			if !wait {
				return nil
			}
			if err := a.await(ctx, c, clusterPath(one), timeout, removed); err != nil {
				return fmt.Errorf("wait for the removal of cluster %s: %w", one.Name, err)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is gone")
	cmd.Flags().BoolVar(&uninstall, "uninstall", false, "leave its hosts clean first")
	o.flags(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long --wait waits")
	return cmd
}

func (a *app) joinCommand() *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use: "join-command NAME", Short: "Print the command that makes a host join", Args: needs("NAME"),
		Long: `Print the command that makes a host join. It has the registration token, which no
program on the host gets as an argument: install.sh reads it from its standard
input, the node agent from its environment.`,
		Example: "  drover clusters join-command harbour --all-roles\n  drover clusters join-command dockyard --docker --worker",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			if err := o.fits(one); err != nil {
				return err
			}
			flags, err := o.flags()
			if err != nil {
				return err
			}
			var join apitypes.Join
			if o.rotate {
				err = c.Send(ctx, http.MethodPost, clusterPath(one)+"/join/rotate", nil, &join)
			} else {
				err = c.Get(ctx, clusterPath(one)+"/join", &join)
			}
			if err != nil {
				return fmt.Errorf("get the join command of cluster %s: %w", one.Name, err)
			}
			if join.Command == "" {
				return fmt.Errorf("cluster %s has no join command: %s", one.Name, join.Problem)
			}
			line := join.Command + flags
			return a.show(map[string]string{"command": line}, func(t *table) { t.Row(line) })
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.rotate, "rotate", false, "make a new token in place of the one before, by which no host joins any more; those that have joined need neither")
	f.BoolVar(&o.docker, "docker", false, "the host runs Docker: print the docker run command of the node agent")
	f.BoolVar(&o.all, "all-roles", false, "etcd, control plane and worker")
	f.BoolVar(&o.etcd, "etcd", false, "etcd")
	f.BoolVar(&o.controlPlane, "controlplane", false, "control plane")
	f.BoolVar(&o.worker, "worker", false, "worker")
	f.StringVar(&o.nodeName, "node-name", "", "name of the node (default: the host's name)")
	f.StringVar(&o.address, "address", "", "external address")
	f.StringVar(&o.internalAddress, "internal-address", "", "internal address")
	f.StringArrayVar(&o.labels, "label", nil, "label of the node, k=v (repeat)")
	f.StringArrayVar(&o.taints, "taint", nil, "taint of the node, k=v:Effect (repeat)")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "taints" { // as install.sh and the node agent have it too
			name = "taint"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

type joinOptions struct {
	docker, rotate                     bool
	all, etcd, controlPlane, worker    bool
	nodeName, address, internalAddress string
	labels, taints                     []string
}

// fits refuses a command of the other kind of cluster.
func (o joinOptions) fits(one apitypes.Cluster) error {
	if one.Distribution == apitypes.ImportedCluster {
		return fmt.Errorf("cluster %s is imported, so that its hosts are not the server's: `drover clusters import %s` prints what is applied in it", one.Name, one.Name)
	}
	switch isDocker := one.Distribution == apitypes.Docker || one.Distribution == apitypes.RKE1; {
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
		return "", usage("which roles has the host? --all-roles, or some of --etcd --controlplane --worker")
	}
	about, err := o.about()
	return flags.String() + about, err
}

// about are the flags beside roles.
func (o joinOptions) about() (string, error) {
	var flags strings.Builder
	for _, pair := range []struct{ flag, value string }{{" --node-name ", o.nodeName}, {" --address ", o.address}, {" --internal-address ", o.internalAddress}} {
		if pair.value != "" {
			flags.WriteString(pair.flag + quote(pair.value))
		}
	}
	for _, label := range o.labels {
		if _, _, reason := forms.Label(label); reason != "" {
			return "", usage("--label %s %s; give one --label for each", label, reason)
		}
		flags.WriteString(" --label " + quote(label))
	}
	for _, taint := range o.taints {
		if _, _, _, reason := forms.Taint(taint); reason != "" {
			return "", usage("--taint %s %s; give one --taint for each", taint, reason)
		}
		flags.WriteString(" --taints " + quote(taint))
	}
	return flags.String(), nil
}

// quote makes one word for a shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (a *app) kubeconfigCommand() *cobra.Command {
	var exec bool
	cmd := &cobra.Command{
		Use: "kubeconfig NAME", Short: "Print a kubeconfig that reaches the cluster through the server", Args: needs("NAME"),
		Long: `Print a kubeconfig that reaches the cluster through the server. That of a cluster with an authorized endpoint has further
contexts, which lead straight to its control-plane hosts with the same token.

It holds a token of yours, which is good for this cluster alone, lives as long as the server's setting
kubeconfig-default-token-ttl-minutes says and works wherever the file is. A kubeconfig from the server that names a program, a file of this host or a proxy is refused. With --exec it holds none: kubectl runs ` + "`drover token`" + `, which gets one by your login on this host and
renews it, so the file may be shown to others and does not end.`,
		Example: "  drover clusters kubeconfig harbour > kc && kubectl --kubeconfig kc get nodes\n  drover clusters kubeconfig harbour --exec > ~/.kube/harbour",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			if one.Distribution == apitypes.Docker {
				return fmt.Errorf("cluster %s has no Kubernetes to reach: nothing is provisioned on its hosts yet", one.Name)
			}
			if exec {
				text, err := execplugin.Kubeconfig(c, one, execplugin.Program(), a.given.Context, a.environ("DROVER_CONFIG"))
				if err == nil {
					_, err = a.Out.Write(text)
				}
				return err
			}
			var answer struct {
				Config string `json:"config"`
			}
			if err := c.Send(ctx, "POST", "/v3/clusters/"+url.PathEscape(one.ID)+"?action=generateKubeconfig", nil, &answer); err != nil {
				return fmt.Errorf("make a kubeconfig of cluster %s: %w", one.Name, err)
			}
			k, err := kubeconfig.Read([]byte(answer.Config))
			if err != nil {
				return fmt.Errorf("read the kubeconfig of cluster %s that the server made: %w; one that asks this program for its tokens is made by --exec", one.Name, err)
			}
			fmt.Fprint(a.Out, answer.Config)
			if len(k.Others) > 0 {
				fmt.Fprintf(a.Err, "contexts that lead to %s without the server: %s\n", one.Name, strings.Join(k.Others, ", "))
			} else if one.AuthorizedEndpoint != nil {
				fmt.Fprintf(a.Err, "no context leads to %s without the server yet: its CA is known once the server has reached it, and its hosts once they have joined\n", one.Name)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&exec, "exec", false, "without a token: kubectl gets one of `drover token`, by your login on this host")
	return cmd
}
