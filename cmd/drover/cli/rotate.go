// Rotations: other certificates, and another encryption key.

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/server/views"
)

func (a *app) rotateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rotate", Short: "Renew what a cluster's parts know each other by, and what its Secrets are encrypted with"}
	cmd.AddCommand(a.rotateCertificates(), a.rotateKeys())
	return cmd
}

func (a *app) rotateCertificates() *cobra.Command {
	var o askOptions
	var services []string
	var ca bool
	cmd := &cobra.Command{
		Use: "certificates NAME", Short: "Renew the certificates of a cluster, which restarts its machines one after the other", Args: needs("NAME"),
		Long: `Renew the certificates of a cluster: members of etcd first, then control planes, then workers. Each server restarts
when the one before works again and etcd bears it. The cluster's own CA stays, unless --ca is given for an RKE1
cluster.`,
		Example: "  drover clusters rotate certificates harbour --wait\n  drover clusters rotate certificates harbour --service controller-manager --service scheduler",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one views.Cluster) error {
			if one.Distribution == views.RKE1 {
				return a.askRKE(ctx, c, one, views.Asked{Kind: "rotate-certificates", CA: ca, Services: services}, o)
			}
			if err := onlyFor(one, map[string]bool{"ca": ca}); err != nil {
				return err
			}
			if err := a.ask(ctx, c, one, "/rotate", views.RotateRequest{What: "certificates", Services: services}, o); err != nil {
				return fmt.Errorf("renew the certificates of cluster %s: %w", one.Name, err)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&ca, "ca", false, "RKE1: the CAs, too, in three steps, so that at no time a component meets one that it does not trust")
	cmd.Flags().StringArrayVar(&services, "service", nil, "only the certificates of this service (repeat)")
	o.flags(cmd, 2*time.Hour)
	return cmd
}

func (a *app) rotateKeys() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use: "encryption-keys NAME", Short: "Encrypt a cluster's Secrets in etcd with another key, and restart its servers one after the other", Args: needs("NAME"),
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one views.Cluster) error {
			if one.Distribution == views.RKE1 {
				return a.askRKE(ctx, c, one, views.Asked{Kind: "rotate-encryption-keys"}, o)
			}
			if err := a.ask(ctx, c, one, "/rotate", views.RotateRequest{What: "encryption-keys"}, o); err != nil {
				return fmt.Errorf("rotate the encryption key of cluster %s: %w", one.Name, err)
			}
			return nil
		}),
	}
	o.flags(cmd, 2*time.Hour)
	return cmd
}
