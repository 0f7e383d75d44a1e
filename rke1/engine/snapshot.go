// Snapshots of etcd: taken on every host that has a member, and believed only after the archive
// was opened there.

package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/state"
)

// snapshotDir is where a host keeps snapshots.
const snapshotDir = "/opt/rke/etcd-snapshots"

var snapshotNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,199}$`)

// SnapshotName is the name of a snapshot that is taken at a time, as the rke CLI gives it; safe leaves out ":", which
// some file systems cannot have.
func SnapshotName(now time.Time, safe bool) string {
	name := "rke_etcd_snapshot_" + now.UTC().Format(time.RFC3339)
	if safe {
		name = strings.ReplaceAll(name, ":", "-")
	}
	return name
}

// CheckSnapshotName refuses a name that cannot be a file's or would be read as something else.
func CheckSnapshotName(name string) error {
	if !snapshotNames.MatchString(name) {
		return fmt.Errorf("snapshot %q is not a valid name: it begins with a letter or a digit, and has letters, digits and _.:@+- after it, at most 200", name)
	}
	return nil
}

// Snapshot is what a host has of a snapshot.
type Snapshot struct {
	Host string
	// Size is the archive's, in bytes; Sum is the SHA-256 of etcd's data in it, which differs among members that were
	// asked at different times.
	Size int64
	Sum  string
	// State says that the cluster's state is in it.
	State bool
	// Broken says that there is an archive that cannot be opened.
	Broken bool
	// Others are the names of the other snapshots on the host.
	Others []string
}

// inspect looks at an archive; its output is for readSnapshot.
const inspect = `cd "$2" 2>/dev/null || exit 0
f="$1"
for other in *.zip; do [ -e "$other" ] && [ "$other" != "$f.zip" ] && echo "other ${other%.zip}"; done
if [ -e "$f.zip" ]; then
	if ! unzip -p "$f.zip" >/dev/null 2>&1; then echo broken; exit 0; fi
	echo "size $(wc -c <"$f.zip")"
	[ "$(unzip -p "$f.zip" "*backup/$f" 2>/dev/null | head -c 1 | wc -c)" -eq 0 ] || echo "sum $(unzip -p "$f.zip" "*backup/$f" | sha256sum | cut -d ' ' -f 1)"
	[ "$(unzip -p "$f.zip" "*kubernetes/$f.rkestate" 2>/dev/null | head -c 1 | wc -c)" -eq 0 ] || echo state
elif [ -s "$f" ]; then
	echo "size $(wc -c <"$f")"
	echo "sum $(sha256sum "$f" | cut -d ' ' -f 1)"
fi`

// readSnapshot reads what inspect found; nil is no snapshot of that name, and others are those of other names.
func readSnapshot(address string, output []string) (found *Snapshot, others []string) {
	s := Snapshot{Host: address}
	for _, line := range output {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "other":
			others = append(others, value)
		case "broken":
			s.Broken = true
		case "size":
			s.Size, _ = strconv.ParseInt(value, 10, 64) // the shell counted
		case "sum":
			s.Sum = value
		case "state":
			s.State = true
		}
	}
	if s.Size == 0 && !s.Broken {
		return nil, others
	}
	s.Broken = s.Broken || s.Sum == ""
	return &s, others
}

// inspectSnapshot looks for a snapshot on a host.
func (r *run) inspectSnapshot(ctx context.Context, h *host, name string) (*Snapshot, []string, error) {
	once := r.shell("etcd-checksum-checker", h, []string{snapshotDir + ":" + snapshotDir}, inspect, "inspect", name, snapshotDir)
	once.Limit = snapshotLimit
	output, err := h.Run(ctx, once)
	if err != nil {
		return nil, nil, fmt.Errorf("look for snapshot %s: %w", name, err)
	}
	found, others := readSnapshot(h.node.Address, output)
	return found, others, nil
}

// snapshotLimit bounds one command with a snapshot.
const snapshotLimit = 30 * time.Minute

// SnapshotWish is a snapshot to take.
type SnapshotWish struct {
	Name string
	// S3 is the bucket that it goes to besides; nil is none.
	S3 *config.S3Backup
}

// withBucket is a config whose snapshots go to a bucket, or come from there; nil is none. It is for a run alone and
// never saved: the keys of a bucket need not be the cluster's.
func withBucket(c *config.Cluster, s3 *config.S3Backup) *config.Cluster {
	with, backup := *c, config.BackupConfig{}
	switch {
	case c.Services.Etcd.BackupConfig != nil:
		backup = *c.Services.Etcd.BackupConfig
	case s3 == nil:
		return &with
	default:
		backup = config.BackupConfig{IntervalHours: 12, Retention: 6, Timeout: 300}
	}
	backup.S3 = s3
	with.Services.Etcd.BackupConfig = &backup
	return &with
}

// SaveSnapshot takes a snapshot of etcd on every host that has a member, with the state of the cluster in it, and into a
// bucket if there is one. One host with a good archive is success; what went wrong on others is warned of.
// It returns what each host has.
func SaveSnapshot(ctx context.Context, o Options, w Work, wish SnapshotWish) ([]Snapshot, error) {
	r, err := snapshotRun(o, &w, wish)
	if err != nil {
		return nil, err
	}
	defer r.close()
	var all []Snapshot
	err = r.perform(ctx, []phase{
		{"hosts", "Reach the hosts", (*run).reach},
		{"compare", "Compare with what runs", (*run).compare},
		{"snapshot", "Take the snapshot", func(r *run, ctx context.Context) (err error) {
			all, err = r.saveSnapshot(ctx, wish.Name)
			return err
		}},
	})
	return all, err
}

// PreviewSnapshot says what SaveSnapshot would do, a line each, and does nothing.
func PreviewSnapshot(ctx context.Context, o Options, w Work, wish SnapshotWish) ([]string, error) {
	r, err := snapshotRun(o, &w, wish)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	var lines []string
	for _, h := range r.with(config.RoleEtcd) {
		line := h.node.Address + " snapshot: " + path.Join(snapshotDir, wish.Name) + ".zip"
		if wish.S3 != nil {
			line += ", and in bucket " + wish.S3.BucketName
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// snapshotRun prepares a run on what is deployed, with the bucket of the config of now.
func snapshotRun(o Options, w *Work, wish SnapshotWish) (*run, error) {
	if err := CheckSnapshotName(wish.Name); err != nil {
		return nil, err
	}
	cfg, err := asDeployed(*w)
	if err != nil {
		return nil, err
	}
	if err := unfinished(w.Before); err != nil && w.Before.Desired.Config.Restore.Restore {
		return nil, err
	}
	if len(cfg.Services.Etcd.ExternalURLs) > 0 {
		return nil, errors.New("the etcd of this cluster is somebody else's: snapshots are taken there")
	}
	cfg.Services.Etcd.BackupConfig = w.Config.Services.Etcd.BackupConfig
	w.Config = withBucket(cfg, wish.S3)
	r := newRun(o, *w)
	r.state, r.encryption = w.Before, &w.Before.Current.Encryption
	r.certificates = w.Before.Current.Certificates
	return r, nil
}

// saveSnapshot takes it on all members at the same time.
func (r *run) saveSnapshot(ctx context.Context, name string) ([]Snapshot, error) {
	text, err := state.Compact(r.work.Before)
	if err != nil {
		return nil, err
	}
	hosts := r.with(config.RoleEtcd)
	found := make(map[string]*Snapshot, len(hosts))
	failed := each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
		s, err := r.saveOn(ctx, h, name, text)
		if err != nil {
			err = fmt.Errorf("snapshot %s on host %s: %w", name, h.node.Address, masked(err, secretsOf(r.work.Config)))
			r.Report.Warn(err.Error())
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		found[h.node.Address] = s
		return nil
	})
	if len(found) == 0 {
		return nil, failed
	}
	var all []Snapshot
	for _, h := range hosts {
		if s := found[h.node.Address]; s != nil {
			all = append(all, *s)
		}
	}
	r.line("etcd", "Finished saving snapshot [%s] on %d of %d etcd hosts", name, len(all), len(hosts))
	return all, nil
}

// saveOn takes it on one host: with the state beside it, which goes into the archive and not anywhere else.
func (r *run) saveOn(ctx context.Context, h *host, name string, text []byte) (*Snapshot, error) {
	was, _, err := r.inspectSnapshot(ctx, h, name)
	if err != nil {
		return nil, err
	}
	if was != nil {
		return nil, errors.New("there is one of this name already: give another --name")
	}
	beside := path.Join(h.prefix, kubernetesDir, name+".rkestate")
	if _, _, err := h.Put(ctx, r.directory(h), []onhost.File{{Path: beside, Contents: text, Mode: 0o400}}); err != nil {
		return nil, err
	}
	once, err := r.plan.Once(h.node.Address)
	if err != nil {
		return nil, err
	}
	r.line("etcd", "Running snapshot save once on host [%s]", h.node.Address)
	_, err = h.Run(ctx, onhost.Once{Process: once.SnapshotOnce(name), Limit: r.backupLimit()})
	if gone := r.removeFiles(context.WithoutCancel(ctx), h, []string{beside}); err == nil {
		err = gone
	}
	if err != nil {
		return nil, err
	}
	s, _, err := r.inspectSnapshot(ctx, h, name)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, errors.New("the command ended well, but there is no archive")
	case s.Broken:
		return nil, errors.New("the archive that was written cannot be opened: see whether the disk is full")
	case !s.State:
		r.Report.Warn(fmt.Sprintf("host [%s]: snapshot %s is without the cluster's state; keep %s beside it", h.node.Address, name, "cluster.rkestate"))
	}
	r.line("etcd", "Snapshot [%s] on host [%s] has %d bytes and can be read", name, h.node.Address, s.Size)
	return s, nil
}

// backupLimit is how long one snapshot may take.
func (r *run) backupLimit() time.Duration {
	if b := r.work.Config.Services.Etcd.BackupConfig; b != nil && b.Timeout > 0 {
		return time.Duration(b.Timeout) * time.Second
	}
	return snapshotLimit
}
