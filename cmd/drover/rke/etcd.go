// drover rke etcd

package rke

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/snapshots"
)

// bucket is what the flags say of S3.
type bucket struct {
	use    bool
	s3     config.S3Backup
	caFile string
}

func (b *bucket) flags(a *App, cmd *cobra.Command) {
	s := cmd.Flags()
	s.BoolVar(&b.use, "s3", false, "the bucket, too: that of the flags, or of backup_config in the config")
	s.StringVar(&b.s3.Endpoint, "s3-endpoint", "s3.amazonaws.com", "address of S3")
	s.StringVar(&b.caFile, "s3-endpoint-ca", "", "file of the CA of --s3-endpoint")
	s.StringVar(&b.s3.AccessKey, "access-key", a.Environ("S3_ACCESS_KEY"), "access key; other users of this machine see flags, so better set S3_ACCESS_KEY")
	s.StringVar(&b.s3.SecretKey, "secret-key", a.Environ("S3_SECRET_KEY"), "secret key; better set S3_SECRET_KEY")
	for _, name := range []string{"access-key", "secret-key"} {
		s.Lookup(name).DefValue = "" // what the environment has is not for a help text
	}
	s.StringVar(&b.s3.BucketName, "bucket-name", "", "bucket")
	s.StringVar(&b.s3.Region, "region", "", "region of the bucket")
	s.StringVar(&b.s3.Folder, "folder", "", "folder in the bucket")
}

// of is the bucket for a config: that of the flags, or else the config's own. nil is none.
func (b *bucket) of(c *config.Cluster) (*config.S3Backup, error) {
	var own *config.S3Backup
	if backup := c.Services.Etcd.BackupConfig; backup != nil {
		own = backup.S3
	}
	switch {
	case b.use && b.s3.BucketName != "":
		s3 := b.s3
		if b.caFile != "" {
			text, err := durable.ReadFile(b.caFile, maxConfig)
			if err != nil {
				return nil, fmt.Errorf("read --s3-endpoint-ca: %w", err)
			}
			s3.CustomCA = string(text)
		}
		return &s3, nil
	case b.use && own == nil:
		return nil, errors.New("--s3 needs a bucket: give --bucket-name, or services.etcd.backup_config.s3backupconfig in the config")
	}
	return own, nil
}

func (a *App) etcdCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "etcd", Short: "Save and restore the cluster's data"}
	cmd.AddCommand(a.saveCommand(), a.restoreCommand(), a.listCommand())
	return cmd
}

func (a *App) saveCommand() *cobra.Command {
	var f flags
	var b bucket
	var name string
	cmd := &cobra.Command{
		Use: "snapshot-save", Short: "Take a snapshot of etcd on every host that has it, with the cluster's state in it", Args: cobra.NoArgs,
		Long: `Take a snapshot of etcd on every host that has it, with the cluster's state in it. With a bucket, this machine gets one of them from
its host, opens it, puts it into the bucket and reads it back; the keys come to no host. It needs room for it in $TMPDIR, packed and not.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request := func(c *cluster) (w engine.SnapshotRequest, err error) {
				if backup := c.config.Services.Etcd.BackupConfig; name == "" {
					name = snapshots.Name(time.Now(), backup != nil && backup.SafeTimestamp)
				}
				w.Name = name
				w.S3, err = b.of(c.config)
				return w, err
			}
			return a.dayTwo(cmd, f, func(c *cluster, o engine.Options) ([]string, error) {
				w, err := request(c)
				if err != nil {
					return nil, err
				}
				return engine.PreviewSnapshot(cmd.Context(), o, c.work(), w)
			}, func(c *cluster, o engine.Options) error {
				w, err := request(c)
				if err != nil {
					return err
				}
				all, err := engine.SaveSnapshot(cmd.Context(), o, c.work(), w)
				for _, s := range all {
					fmt.Fprintf(a.Out, "%s /opt/rke/etcd-snapshots/%s.zip %d bytes\n", s.Host, w.Name, s.Size)
				}
				return err
			})
		},
	}
	a.hostFlags(cmd, &f)
	b.flags(a, cmd)
	cmd.Flags().StringVar(&name, "name", "", "name of the snapshot (default rke_etcd_snapshot_ and the time)")
	return cmd
}

func (a *App) restoreCommand() *cobra.Command {
	var f flags
	var b bucket
	var request engine.RestoreRequest
	cmd := &cobra.Command{
		Use: "snapshot-restore", Short: "Bring a cluster back to a snapshot, on the hosts of its cluster.yml", Args: cobra.NoArgs,
		Long: `Bring a cluster back to a snapshot. Everything is looked at before anything is changed. The data of now stay beside
the restored ones until the cluster works; a restore that was interrupted is begun again by the same command. Certificates and keys
are those of the state in the snapshot, hosts and settings those of cluster.yml: take hosts that are lost out of it first.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd.Context(), f)
			if err != nil {
				return err
			}
			if request.S3, err = b.of(c.config); err != nil {
				return err
			}
			o, done, err := c.options()
			if err != nil {
				return err
			}
			defer done()
			if f.dryRun {
				lines, err := engine.PreviewRestore(cmd.Context(), o, c.work(), request)
				c.print(lines)
				return err
			}
			o.Save = c.replace
			_, err = engine.Restore(cmd.Context(), o, c.work(), request)
			if c.state != nil {
				err = errors.Join(err, c.writeKubeconfig(""))
			}
			return err
		},
	}
	a.hostFlags(cmd, &f)
	certificateFlags(cmd, &f)
	b.flags(a, cmd)
	cmd.Flags().StringVar(&request.Name, "name", "", "name of the snapshot")
	cmd.Flags().BoolVar(&request.LocalState, "use-local-state", false, "keep the state beside the config, and do not take the one in the snapshot")
	return cmd
}

func (a *App) listCommand() *cobra.Command {
	var f flags
	var b bucket
	cmd := &cobra.Command{
		Use: "snapshot-ls", Short: "List the snapshots on the hosts of etcd, and in the bucket if there is one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd.Context(), f)
			if err != nil {
				return err
			}
			s3, err := b.of(c.config)
			if err != nil {
				return err
			}
			o, done, err := c.options()
			if err != nil {
				return err
			}
			defer done()
			all, err := engine.ListSnapshots(cmd.Context(), o, c.work(), s3)
			table := tabwriter.NewWriter(a.Out, 0, 0, 3, ' ', 0)
			fmt.Fprintln(table, "NAME\tPLACE\tSIZE\tWRITTEN")
			for _, s := range all {
				fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", s.Name, s.Place, s.Size, s.Changed.UTC().Format(time.RFC3339))
			}
			return errors.Join(err, table.Flush())
		},
	}
	a.hostFlags(cmd, &f)
	b.flags(a, cmd)
	return cmd
}
