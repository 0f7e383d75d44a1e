// drover token.

package execplugin

import "github.com/spf13/cobra"

// Command is drover token.
func (a *App) Command(args cobra.PositionalArgs) *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "token --cluster CLUSTER", Short: "Print a token of a cluster for kubectl, as kubeconfigs of `drover clusters kubeconfig --exec` ask for it", Args: args,
		Long: `Print a token that is good for the Kubernetes API of one cluster, in the form in which kubectl takes it from a
credential plug-in (client.authentication.k8s.io/v1). It is got by the login of this command line to the server,
lives as long as the server's setting kubeconfig-default-token-ttl-minutes says, is kept in a file that only its owner
reads, and is renewed shortly before its end. ` + "`drover logout`" + ` ends those of its login.

` + "`drover tokens`" + ` has the tokens of people.`,
		Example: "  drover clusters kubeconfig harbour --exec > kc && kubectl --kubeconfig kc get nodes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return a.Usage("for which cluster? --cluster NAME; `drover clusters ls` shows those there are")
			}
			return a.give(cmd.Context(), cluster)
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "cluster whose API the token is for, by its name or id")
	return cmd
}
