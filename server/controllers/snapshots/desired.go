// What is to be known of a cluster's snapshots, by what the cluster lists, what is in its bucket, and what was known before.

package snapshots

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

const (
	// forgetAfter is for how long a snapshot is kept that the cluster does not list any more: after a restore it lists those
	// of then, until it has looked at its directories.
	forgetAfter = time.Hour
	// fresh is how old a snapshot may be for the cluster to be now what it was then, as far as the server knows.
	fresh = time.Hour
	// maxSnapshots bounds what is kept of a cluster.
	maxSnapshots = 500
	// maxPath is how long the name of a file may be, as on Linux, or that of a node.
	maxPath = 4096
	// inS3 is the node that the distribution lists of snapshots in S3.
	inS3 = "s3"
)

// tokenHash is the form of installers.HashServerToken.
var tokenHash = regexp.MustCompile(`^[0-9a-f]{12}$`)

// taken matches the end of a snapshot's name, which is when it was taken, in seconds since 1970.
var taken = regexp.MustCompile(`-([0-9]{10})(\.zip)?$`)

// listed is what the distribution lists of a snapshot. Source: k3s-io/api k3s.cattle.io/v1, ETCDSnapshotFile.
type listed struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		SnapshotName string `json:"snapshotName"`
		NodeName     string `json:"nodeName"`
		Location     string `json:"location"`
	} `json:"spec"`
	Status struct {
		Size         *resource.Quantity `json:"size"`
		CreationTime time.Time          `json:"creationTime"`
		Error        *struct {
			Message string `json:"message"`
		} `json:"error"`
	} `json:"status"`
}

// found is what was found of a cluster's snapshots: by the cluster, if it answered, and in its bucket, if that could be opened.
type found struct {
	cluster          records.Cluster
	secrets          records.ClusterSecrets
	machines         map[string]string // the names of the cluster's machines by those of their nodes
	kept             []store.Document[records.Snapshot]
	answered, opened bool
	items            []listed
	objects          []records.Snapshot
}

// change is one write: of a new record, of another value, or, where gone is set, the removal of a record.
type change struct {
	store.Document[records.Snapshot]
	gone bool
}

// desired are the writes by which the records become what was found. The error says that a cluster has too many to keep track of.
func desired(f found, now time.Time) (changes []change, full error) {
	known := make(map[string]store.Document[records.Snapshot], len(f.kept))
	for _, d := range f.kept {
		known[d.Key] = d
	}
	there, room := map[string]bool{}, maxSnapshots-len(f.kept)
	for _, next := range f.snapshots() {
		d, is := known[next.Key()]
		switch {
		case there[next.Key()]: // listed twice
		case is:
			if d.Value = updated(d.Value, next); !same(d.Value, known[d.Key].Value) {
				changes = append(changes, change{Document: d})
			}
		case room <= 0:
			full = fmt.Errorf("cluster %s has more than %d snapshots, and no more are kept track of", f.cluster.Key(), maxSnapshots)
		default:
			room--
			changes = append(changes, change{Document: store.Document[records.Snapshot]{Key: next.Key(), Value: next}})
		}
		there[next.Key()] = true
	}
	for _, d := range f.kept {
		withContent := f.answered || f.opened && d.Value.Machine == records.SnapshotInS3
		switch missing := d.Value.Missing; {
		case there[d.Key] || !withContent:
		case missing.IsZero() && now.Sub(d.Value.Created) > time.Minute:
			d.Value.Missing = now
			changes = append(changes, change{Document: d})
		case !missing.IsZero() && now.Sub(missing) > forgetAfter:
			changes = append(changes, change{Document: d, gone: true})
		}
	}
	return changes, full
}

// updated is a record with what is new of it. What is known of who took it, and of the cluster then, stays.
func updated(s, next records.Snapshot) records.Snapshot {
	s.Missing, s.Size, s.Fault, s.File = time.Time{}, next.Size, next.Fault, next.File
	return s
}

// same says that updated changed nothing.
func same(a, b records.Snapshot) bool {
	return a.Missing.Equal(b.Missing) && a.Size == b.Size && a.Fault == b.Fault && a.File == b.File
}

// snapshots are the records of what was found. A bucket knows better what is in it than the cluster does, but for what
// could not be brought there.
func (f found) snapshots() []records.Snapshot {
	all := f.objects
	for _, item := range f.items {
		next, ok := snapshot(records.ClusterKey(f.cluster.Key()), item, f.machines)
		if !ok || !next.Presentable() || f.opened && next.Machine == records.SnapshotInS3 && next.Fault == "" || slices.ContainsFunc(f.objects, func(s records.Snapshot) bool { return s.Key() == next.Key() }) {
			continue
		}
		next.Spec = f.cluster.Spec
		// Of an older one the host that restores it finds out which token it needs. What is in S3 may be another cluster's.
		if next.TokenHash == "" && next.Machine != records.SnapshotInS3 && !next.Created.Before(f.secrets.Made) {
			next.TokenHash = f.secrets.TokenHash()
		}
		all = append(all, next)
	}
	return all
}

// snapshot reads what is listed; false for what is of no machine of the cluster.
func snapshot(key records.ClusterKey, item listed, machines map[string]string) (records.Snapshot, bool) {
	s := records.Snapshot{Cluster: key, Node: item.Spec.NodeName, Machine: machines[item.Spec.NodeName], Created: item.Status.CreationTime.UTC()}
	switch file, local := strings.CutPrefix(item.Spec.Location, "file://"); {
	case local:
		s.File = file
	case strings.HasPrefix(item.Spec.Location, "s3://"):
		s.File, s.Machine = item.Spec.Location, records.SnapshotInS3
	default: // one that failed has no place
		s.File = item.Spec.SnapshotName
		if item.Spec.NodeName == inS3 {
			s.Machine = records.SnapshotInS3
		}
	}
	for _, program := range []string{"k3s", "rke2"} {
		if hash := item.Metadata.Annotations["etcd."+program+".cattle.io/snapshot-token-hash"]; tokenHash.MatchString(hash) {
			s.TokenHash = hash
		}
	}
	if item.Status.Size != nil {
		s.Size = max(item.Status.Size.Value(), 0)
	}
	if item.Status.Error != nil && item.Status.Error.Message != "" {
		s.Fault = fmt.Sprintf("%.300s", item.Status.Error.Message)
	}
	return s, len(s.File) <= maxPath && len(s.Node) <= maxPath && s.Machine != "" && s.Name() != "." && s.Name() != ".." && s.Name() != "/"
}

// withContent is the record of an object of a bucket with what its content says; false for an object that is not a snapshot.
func withContent(s records.Snapshot, o bucket.Object) (records.Snapshot, bool) {
	for name, value := range o.Meta {
		switch {
		case strings.HasSuffix(name, "-Token-Hash") && tokenHash.MatchString(value):
			s.TokenHash = value
		case strings.HasSuffix(name, "-Node-Name"):
			s.Node = fmt.Sprintf("%.253s", value)
		}
	}
	at := taken.FindStringSubmatch(o.Name)
	if at != nil {
		if seconds, err := strconv.ParseInt(at[1], 10, 64); err == nil {
			s.Created = time.Unix(seconds, 0).UTC()
		}
	}
	return s, (at != nil || s.TokenHash != "") && o.Size > 0
}

// descended completes the record of a snapshot in a bucket by that of the host that took it. What the cluster was when it was
// taken is not known of an old one that was never reported.
func (f found) descended(s records.Snapshot, now time.Time) records.Snapshot {
	for _, d := range f.kept {
		if local := d.Value; local.Machine != records.SnapshotInS3 && local.Name() == s.Name() && local.Size == s.Size {
			s.By, s.SHA256, s.Spec, s.Node = local.By, local.SHA256, local.Spec, local.Node
			return s
		}
	}
	if now.Sub(s.Created) < fresh {
		s.Spec = f.cluster.Spec
	}
	return s
}
