package cli

// imports.go is about clusters that were made elsewhere: how they are brought, and what stays in them.

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// importedCleanup is what removes from a cluster what the server had put there, where its agent cannot.
const importedCleanup = `kubectl delete --ignore-not-found namespace/cattle-system namespace/cattle-impersonation-system clusterrolebinding/cattle-admin-binding clusterrole/cattle-admin clusterrolebinding/proxy-role-binding-kubernetes-master clusterrole/proxy-clusterrole-kubeapiserver
kubectl delete clusterrolebindings,clusterroles -l app.kubernetes.io/managed-by=drover
kubectl delete clusterrolebindings,clusterroles -l authz.cluster.cattle.io/impersonator=true
kubectl delete rolebindings -A -l app.kubernetes.io/managed-by=drover
kubectl delete secrets -A -l app.kubernetes.io/managed-by=drover,management.cattle.io/project-scoped-secret
kubectl annotate namespaces --all field.cattle.io/projectId-
kubectl label namespaces --all field.cattle.io/projectId-`

func (a *app) clustersBring() *cobra.Command {
	var replace, insecure, plain bool
	cmd := &cobra.Command{
		Use: "import NAME", Short: "Print the line by which a running Kubernetes becomes a cluster of the server; nothing is changed there but what is the server's own", Args: needs("NAME"),
		Long: `Print the line by which a running Kubernetes becomes a cluster of the server, which is made if there is none of the name.
Run it where kubectl is the cluster's administrator: it applies the manifest of an agent, which opens a tunnel to the server. The line has
the registration token of the cluster, and trusts the server's own authority alone.

A manifest is for one Kubernetes. Applied again, it changes nothing; an agent of another Kubernetes is refused.`,
		Example: "  drover clusters import office\n  drover clusters import office | sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			one, err := a.bringing(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			var join apitypes.Join
			if replace {
				err = c.Send(cmd.Context(), http.MethodPost, clusterPath(one)+"/agent/forget", nil, &join)
			} else {
				err = c.Get(cmd.Context(), clusterPath(one)+"/join", &join)
			}
			if err != nil {
				return fmt.Errorf("get the manifest of cluster %s: %w", one.Name, err)
			}
			if join.Import == nil {
				return fmt.Errorf("cluster %s has no manifest: %s", one.Name, join.Problem)
			}
			a.hint(one.Connected && !replace, "the agent of cluster "+one.Name+" is connected; applying the manifest again changes nothing")
			a.hint(!join.Import.Spent.IsZero(), "the registration token was spent on "+join.Import.Spent.UTC().Format(time.DateOnly)+", when the first agent was let in: it lets in none but agents of the same Kubernetes; --replace ends that")
			line := join.Command
			switch {
			case insecure:
				line = join.Import.InsecureCommand
			case plain:
				line = join.Import.Command
			}
			return a.show(map[string]string{
				"command": join.Import.Command, "insecureCommand": join.Import.InsecureCommand, "pinnedCommand": join.Command, "manifestUrl": join.Import.ManifestURL,
				"spent": spentAt(join.Import.Spent),
			}, func(t *table) { t.Row(line) })
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "believe the next agent, from any Kubernetes: the cluster was made anew, or has another authority")
	cmd.Flags().BoolVar(&plain, "plain", false, "kubectl fetches the manifest itself, which has to trust the server's certificate")
	cmd.Flags().BoolVar(&insecure, "insecure", false, "the manifest is fetched from any server that answers, unverified")
	cmd.MarkFlagsMutuallyExclusive("plain", "insecure")
	return cmd
}

// spentAt is when a token was spent; empty for one that is not.
func spentAt(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// bringing is the cluster of a name, made if there is none.
func (a *app) bringing(ctx context.Context, c *client.Client, name string) (apitypes.Cluster, error) {
	find := func() (apitypes.Cluster, bool, error) {
		list, err := client.List[apitypes.Cluster](ctx, c, clustersPath)
		if err != nil {
			return apitypes.Cluster{}, false, fmt.Errorf("find cluster %s: %w", name, err)
		}
		for _, one := range list {
			if one.Name == name || one.ID == name || one.Namespace+"/"+one.Name == name {
				return one, true, nil
			}
		}
		return apitypes.Cluster{}, false, nil
	}
	one, ok, err := find()
	switch {
	case err != nil:
		return one, err
	case ok && one.Distribution != apitypes.ImportedCluster:
		return one, fmt.Errorf("cluster %s is provisioned by the server, so that there is nothing to import; `drover clusters join-command %s` is for its hosts", one.Name, one.Name)
	case ok && !one.Deleting.IsZero():
		return one, fmt.Errorf("cluster %s is being removed; wait until it is gone", one.Name)
	case ok:
		return one, nil
	}
	if err := c.Send(ctx, http.MethodPost, "/v3/clusters", map[string]string{"name": name}, nil); err != nil {
		return one, fmt.Errorf("make cluster %s: %w", name, err)
	}
	if one, ok, err = find(); err == nil && !ok {
		err = absent("cluster %s was made, and is not there any more", name)
	}
	return one, err
}

// left says what becomes of what the server had put into an imported cluster.
func left(one apitypes.Cluster, force bool) string {
	if one.Connected && !force {
		return fmt.Sprintf("cluster %s is being removed, and its agent takes out what the server had put there: the namespaces cattle-system and cattle-impersonation-system, and the rights of people", one.Name)
	}
	return fmt.Sprintf("cluster %s is removed from the server; what the server had put there, if anything, stays until you run in the cluster:\n%s", one.Name, importedCleanup)
}
