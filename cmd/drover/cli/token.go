// The tokens by which the machines of a cluster join its Kubernetes, and by which its snapshots are read.

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// tokenCommand reveals the join tokens of a cluster, or adds a server token to them.
func (a *app) tokenCommand() *cobra.Command {
	var reveal bool
	var add string
	cmd := &cobra.Command{
		Use: "token NAME --reveal | --add FILE", Short: "Print the tokens by which the machines of a cluster join its Kubernetes, or bring one of before", Args: needs("NAME"),
		Long: `Print the tokens by which the machines of a cluster join its Kubernetes: that of servers and that of
agents. Snapshots of the cluster's etcd can be read with the server's, so keep them where snapshots are not. Hosts
that drover looks after need neither; they join by ` + "`drover clusters join-command`" + `. Each use is in the server's log.

With --add a server token that the cluster had under another drover, or before drover, is kept beside its own. Nothing restarts
for it; a restore of a snapshot that needs it takes it. The file has the token alone, as --reveal printed it, or as k3s and RKE2 keep
it on a server, in server/token of their data directory.`,
		Example: "  drover clusters token harbour --reveal\n  drover clusters token harbour --add harbour.token",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			switch {
			case add != "":
				return a.addToken(ctx, c, one, add)
			case !reveal:
				return usage("the server token and the agent token of cluster %s would be printed, which let any host join its Kubernetes and read its snapshots, and the server's log would have that you saw them; say --reveal to do it", one.Name)
			}
			var tokens apitypes.JoinTokens
			if err := c.Send(ctx, "POST", clusterPath(one)+"/token", nil, &tokens); err != nil {
				return fmt.Errorf("reveal the join tokens of cluster %s: %w", one.Name, err)
			}
			return a.show(tokens, func(t *table) {
				t.Row("server", tokens.Server)
				t.Row("agent", tokens.Agent)
				for _, one := range tokens.Earlier {
					t.Row("server, of snapshots with "+one.Hash, one.Token)
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "do it")
	cmd.Flags().StringVar(&add, "add", "", "file with a server token that the cluster had before (mode 0600), or - for standard input")
	cmd.MarkFlagsMutuallyExclusive("reveal", "add")
	return cmd
}

func (a *app) addToken(ctx context.Context, c *client.Client, one apitypes.Cluster, file string) error {
	token, err := readSecret(a.In, file)
	if err != nil {
		return fmt.Errorf("add a server token to cluster %s: %w", one.Name, err)
	}
	var added apitypes.BroughtToken
	if err := c.Send(ctx, "POST", clusterPath(one)+"/token/add", apitypes.AskedToken{Token: token}, &added); err != nil {
		return fmt.Errorf("add a server token to cluster %s: %w", one.Name, err)
	}
	return a.show(added, func(t *table) {
		if added.Known {
			t.Row(fmt.Sprintf("cluster %s has this token already; its snapshots have the hash %s", one.Name, added.Hash))
			return
		}
		t.Row(fmt.Sprintf("cluster %s has a server token more; its snapshots with the hash %s can be read now", one.Name, added.Hash))
	})
}
