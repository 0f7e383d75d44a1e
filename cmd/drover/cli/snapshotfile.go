// The file of a snapshot on this machine: it comes through the server, whole or not at all, and is looked at before it counts.

package cli

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/download"
	"github.com/drover-project/drover/installers/snapshots/etcddata"
)

// downloaded is what is printed of a snapshot's file.
type downloaded struct {
	File     string `json:"file"` // empty when it went to standard output
	Snapshot string `json:"snapshot"`
	Cluster  string `json:"cluster"`
	// Machine is the one from whose host it is, or s3.
	Machine string `json:"machine"`
	Created string `json:"created"`           // RFC 3339
	Version string `json:"version,omitempty"` // of Kubernetes, at that time
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	// Revision is etcd's; 0 where the file was not looked at.
	Revision int64 `json:"revision,omitempty"`
}

// downloadOptions are where a file comes from and goes to.
type downloadOptions struct {
	to, machine string
	force       bool
}

func (a *app) snapshotsDownload() *cobra.Command {
	var o downloadOptions
	cmd := &cobra.Command{
		Use: "download CLUSTER SNAPSHOT", Short: "Copy the file of a snapshot of k3s or RKE2 to this machine, from its host or from S3", Args: needs("CLUSTER", "SNAPSHOT"),
		Long: `Copy the file of a snapshot of k3s or RKE2 to this machine, from the host that has it, through the host's tunnel, or from S3.
SNAPSHOT is a name that ` + "`drover snapshots ls`" + ` shows. If one host is away, another one that has it is asked, then S3.

The file appears whole or not at all, with mode 0600, and replaces nothing without --force. It is compared with the size that the
cluster lists and the checksum that the server knows, and opened as etcd opens it; of a compressed one that needs room for its
content. What was cut off stays beside its place, and the same command continues it. With --to - it is written to standard
output as it comes, and not opened.

It holds all Secrets of the cluster, and the server's log says who took it.`,
		Example: "  drover snapshots download harbour on-demand-pier-1-1763850000 --to /mnt/safe/\n  drover snapshots download harbour on-demand-pier-1-1763850000 --to - | age --encrypt -r age1… > snapshot.age",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
				return a.downloadSnapshot(ctx, c, one, args[1], o)
			})(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "file to write, a directory that exists, or - for standard output (default: the snapshot's name)")
	f.StringVar(&o.machine, "machine", "", "only from the host of this machine, or s3 (default: any that has it)")
	f.BoolVar(&o.force, "force", false, "replace a file that is there")
	return cmd
}

func (a *app) downloadSnapshot(ctx context.Context, c *client.Client, one apitypes.Cluster, name string, o downloadOptions) error {
	q := url.Values{}
	if o.machine != "" {
		q.Set("machine", o.machine)
		if o.machine != apitypes.SnapshotInS3 {
			names, err := a.machineNames(ctx, c, []string{o.machine})
			if err != nil {
				return err
			}
			q.Set("machine", names[0])
		}
	}
	at := clusterPath(one) + "/snapshots/" + url.PathEscape(name) + "/file?" + q.Encode()
	got := downloaded{Snapshot: name, Cluster: one.Name}
	if o.to == "-" {
		done, err := download.ToWriter(ctx, c, at, a.Out)
		if err != nil {
			return fmt.Errorf("download snapshot %s of cluster %s: %w", name, one.Name, err)
		}
		fmt.Fprintln(a.Err, got.with(done).sentence("standard output"))
		fmt.Fprintln(a.Err, got.warning())
		return nil
	}
	if path.Base(name) != name || name == "." || name == ".." {
		return usage("%q is not a name of a snapshot; `drover snapshots ls %s` shows them", name, one.Name)
	}
	if got.File = cmp.Or(o.to, name); isDir(got.File) {
		got.File = filepath.Join(got.File, name)
	}
	done, err := download.ToFile(ctx, c, download.Request{
		Path: at, To: got.File, Replace: o.force,
		Check: func(ctx context.Context, file *os.File, size int64) (err error) {
			got.Revision, err = snapshotRevision(ctx, file, size, name, filepath.Dir(got.File))
			return err
		},
		Say: func(text string) { fmt.Fprintln(a.Err, text) },
	})
	if err != nil {
		return fmt.Errorf("download snapshot %s of cluster %s: %w", name, one.Name, err)
	}
	got = got.with(done)
	return a.show(got, func(t *table) {
		t.Row(got.sentence(got.File))
		t.Row(got.warning())
	})
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// with is completed by what came.
func (d downloaded) with(done download.Done) downloaded {
	header := func(h http.Header, name string) string { return fmt.Sprintf("%.100s", h.Get(name)) }
	d.Bytes, d.SHA256 = done.Bytes, done.SHA256
	d.Machine, d.Created, d.Version = header(done.Header, apitypes.FileMachine), header(done.Header, apitypes.FileCreated), header(done.Header, apitypes.FileVersion)
	return d
}

// sentence says what is in the file.
func (d downloaded) sentence(file string) string {
	from := "the host of machine " + d.Machine
	if d.Machine == apitypes.SnapshotInS3 {
		from = "S3"
	}
	text := fmt.Sprintf("%s: snapshot %s of cluster %s, taken at %s", file, d.Snapshot, d.Cluster, d.Created)
	if d.Version != "" {
		text += " with Kubernetes " + d.Version
	}
	text += fmt.Sprintf(", from %s: %.1f MiB, sha256 %s", from, float64(d.Bytes)/(1<<20), d.SHA256)
	if d.Revision > 0 {
		text += fmt.Sprintf(", whole, etcd at revision %d", d.Revision)
	}
	return text
}

func (d downloaded) warning() string {
	return "it holds all Secrets of the cluster: keep it where no other user reads it; to restore it takes the cluster's server token too, which `drover clusters token " + d.Cluster + " --reveal` shows"
}

// snapshotRevision opens a snapshot as etcd does and returns etcd's revision in it. The error says why it cannot be restored. A
// compressed one is unpacked into a file of a directory, which has no name and is gone afterwards.
//
// Wire source: k3s-io/k3s pkg/etcd, compressSnapshot (a ZIP archive of one file, with its name before .zip).
func snapshotRevision(ctx context.Context, file *os.File, size int64, name, dir string) (int64, error) {
	inner, packed := strings.CutSuffix(name, ".zip")
	if !packed {
		revision, err := etcddata.CheckFile(ctx, file, size)
		if err != nil {
			return 0, fmt.Errorf("it is not a snapshot that can be restored: %w", err)
		}
		return revision, nil
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return 0, fmt.Errorf("it is not an archive that can be opened: %w", err)
	}
	for _, member := range archive.File {
		if path.Base(member.Name) != inner {
			continue
		}
		data, err := member.Open()
		if err != nil {
			return 0, fmt.Errorf("open %s in the archive: %w", inner, err)
		}
		info, err := etcddata.Check(ctx, data, dir)
		if err := errors.Join(err, data.Close()); err != nil {
			return 0, fmt.Errorf("what is in the archive is not a snapshot that can be restored: %w", err)
		}
		return info.Revision, nil
	}
	return 0, fmt.Errorf("the archive has no file %s in it", inner)
}
