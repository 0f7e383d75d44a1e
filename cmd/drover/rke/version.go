// drover rke version

package rke

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
)

func (a *App) versionCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of drover, and that of the cluster's API server", Args: cobra.NoArgs,
		Long: `Print the version of drover, and behind "Server Version:" that of the cluster's API server, which is asked with the administrator's
kubeconfig beside --config. Where that file is not there and --config is not given, drover's version is all.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := state.FilesOf(f.config).Kubeconfig
			if !cmd.Flags().Changed("config") && !exists(path) {
				fmt.Fprintln(a.Out, drover.Version)
				return nil
			}
			text, err := durable.ReadFile(path, maxConfig)
			if err != nil {
				return fmt.Errorf("read the administrator's kubeconfig, which opens the cluster: %w", err)
			}
			k, err := kubeconfig.Read(text)
			if err != nil {
				return fmt.Errorf("read the kubeconfig %s: %w", path, err)
			}
			client, err := kube.Reach(k)
			if err != nil {
				return fmt.Errorf("use the kubeconfig %s: %w", path, err)
			}
			fmt.Fprintln(a.Out, drover.Version)
			answer, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(cmd.Context())
			if err != nil {
				return fmt.Errorf("ask the API server at %s for its version: %w", k.Server, err)
			}
			var server version.Info
			if err := json.Unmarshal(answer, &server); err != nil || !config.ReadVersion(server.GitVersion).Known() {
				return fmt.Errorf("ask the API server at %s for its version: the answer has none", k.Server)
			}
			fmt.Fprintf(a.Out, "Server Version: %s\n", server.GitVersion)
			return nil
		},
	}
	a.configFlag(cmd, &f)
	return cmd
}
