// drover rke encrypt

package rke

import (
	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/engine"
)

func (a *App) encryptCommand() *cobra.Command {
	var f flags
	rotate := &cobra.Command{
		Use: "rotate-key", Short: "Encrypt every Secret with a new key", Args: cobra.NoArgs,
		Long: `Encrypt every Secret with a new key. The old one goes when etcd has nothing any more that was written with it; a
rotation that was interrupted is continued by the same command. Take a snapshot afterwards: one from before has the old key.

Encryption is turned on and off by services.kube-api.secrets_encryption_config.enabled and up.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.dayTwo(cmd, f, func(c *cluster, o engine.Options) ([]string, error) {
				return engine.PreviewRotateKey(cmd.Context(), o, c.work())
			}, func(c *cluster, o engine.Options) error {
				_, err := engine.RotateKey(cmd.Context(), o, c.work())
				return err
			})
		},
	}
	a.hostFlags(rotate, &f)
	cmd := &cobra.Command{Use: "encrypt", Short: "Look after the encryption of a cluster's Secrets"}
	cmd.AddCommand(rotate)
	return cmd
}
