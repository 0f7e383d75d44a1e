// Buckets of S3: which one a cluster has, whose snapshots are in it, and who may have them.

package etcdops

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/snapshotbucket"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// stall is how long a bucket may say nothing while it is asked.
const stall = 8 * time.Second

// PlaceOf is the bucket of a cluster's snapshots, as snapshotbucket.Of says it by what is stored. The errors are those of snapshotbucket.Of.
func PlaceOf(s *state.State, c records.Cluster) (p snapshotbucket.Place, on bool, err error) {
	return snapshotbucket.Of(c, references.Of(c, references.Stored(s)))
}

// Foreign says that a snapshot in a cluster's bucket may be another cluster's: it is in a folder that is not the cluster's alone, and
// was taken with no server token of the cluster. Those are for people who may read the keys of the bucket (OpensBucket).
func Foreign(s *state.State, c records.Cluster, one records.Snapshot) bool {
	return foreignTo(s, c)(one)
}

func foreignTo(s *state.State, c records.Cluster) func(records.Snapshot) bool {
	tokens := sync.OnceValue(func() []string {
		secrets, _ := s.ClusterSecrets.Get(c.Key())
		return secrets.Value.TokenHashes()
	})
	shared := sync.OnceValue(func() bool {
		place, on, err := PlaceOf(s, c)
		return err != nil || !on || !place.Own
	})
	return func(one records.Snapshot) bool {
		return one.Machine == records.SnapshotInS3 && !slices.Contains(tokens(), one.TokenHash) && shared()
	}
}

// OpensBucket says whether a person may read the keys of a cluster's bucket, and so all that is in it.
func OpensBucket(s *state.State, who auth.Identity, c records.Cluster) bool {
	o, ok := references.Stored(s)(references.CredentialOf(c))
	return ok && auth.May(who, auth.Get, auth.OfShared(o)) || who.Admin && who.ClusterID == ""
}

// Known are the snapshots of a cluster as they are stored; foreign has those with it that are Foreign.
func Known(s *state.State, c records.Cluster, foreign bool) []store.Document[records.Snapshot] {
	all := s.Snapshots.ListIn(c.Key() + "/")
	if foreign {
		return all
	}
	is := foreignTo(s, c)
	return slices.DeleteFunc(all, func(d store.Document[records.Snapshot]) bool { return is(d.Value) })
}

// OpenBucket opens a place. Way is that of bucket.Config. The errors are those of bucket.Open.
func OpenBucket(p snapshotbucket.Place, way func(*http.Transport)) (*bucket.Bucket, error) {
	return bucket.Open(bucket.Config{
		Endpoint: p.Endpoint, Bucket: p.Bucket, Region: p.Region, Folder: p.Folder, AccessKey: p.AccessKey, SecretKey: p.SecretKey, CA: p.EndpointCA,
		Lookup: map[string]bucket.Lookup{"dns": bucket.DNS, "path": bucket.Path}[p.BucketLookupType], SkipVerify: p.SkipSSLVerify, Stall: stall,
		Way: way,
	})
}

// reachable says whether what is in a cluster's bucket can be had from there.
func (a *Service) reachable(key records.ClusterKey) error {
	d, ok := a.State.Clusters.Get(string(key))
	if !ok {
		return &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	place, on, err := PlaceOf(a.State, d.Value)
	switch {
	case err != nil:
		return err
	case !on:
		return errors.New("the cluster has no bucket any more: give it etcd.s3 again, or copy the file to a host and restore it by its path")
	case place.AccessKey == "":
		return errors.New("the server has no keys of the bucket: give the cluster a cloudCredentialName, or copy the file to a host and restore it by its path")
	}
	if a.Fault != nil {
		if why := a.Fault(key); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// unknown says of a snapshot that the server does not know what the cluster was when it was taken.
func unknown(s records.Snapshot) bool { return clusterspec.Equal(s.Spec, clusterspec.Spec{}) }

// pick is the one of several snapshots of a name that is restored, and the machine that begins the cluster anew with it. One on the
// host of a machine that is there comes before the same one in S3.
func (a *Service) pick(c records.Cluster, r steps.Request, known []records.Snapshot) (records.Snapshot, string, error) {
	var local []records.Snapshot
	inS3 := -1
	for i, s := range known {
		ok, _ := a.Restorable(s)
		switch {
		case s.Machine == records.SnapshotInS3:
			inS3 = i
		case (r.Target == "" || s.Machine == r.Target) && (ok || len(known) == 1):
			local = append(local, s)
		}
	}
	switch {
	case len(local) > 1:
		return records.Snapshot{}, "", admission.Invalid("%d machines have a snapshot %s; say which one with --machine", len(local), r.Snapshot)
	case len(local) == 1:
		return local[0], local[0].Machine, nil
	case inS3 >= 0:
		target, err := a.target(c, r.Target, known[inS3])
		return known[inS3], target, err
	}
	for _, s := range known {
		if r.Target == "" || s.Machine == r.Target {
			return s, s.Machine, nil // which cannot be restored, and says why
		}
	}
	return records.Snapshot{}, "", admission.Invalid("machine %s has no snapshot %s, but others have; leave out --machine, or name one of those", r.Target, r.Snapshot)
}

// target is the machine that begins the cluster anew with a snapshot from S3: the one that is named, the one that took it, or else the
// first by name that has etcd, with a control plane if there is such.
func (a *Service) target(c records.Cluster, named string, s records.Snapshot) (string, error) {
	best, rank := "", 0
	for _, d := range a.State.MachinesByCluster.Find(records.NewClusterKey(c.Namespace, c.Name)) {
		m := d.Value
		if !m.Roles.Etcd || !m.Deleting.IsZero() {
			continue
		}
		is := 1
		if m.Roles.ControlPlane {
			is = 2
		}
		if m.NodeName != "" && m.NodeName == s.Node {
			is = 3
		}
		if m.Name == named {
			is = 4
		}
		if is > rank || is == rank && m.Name < best {
			best, rank = m.Name, is
		}
	}
	switch {
	case named != "" && rank < 4:
		return "", admission.Invalid("cluster %s has no machine %s with etcd", c.Name, named)
	case best == "":
		return "", admission.Invalid("cluster %s has no machine with etcd: register a host with drover clusters join-command %s --etcd --controlplane, and restore again", c.Name, c.Name)
	}
	return best, nil
}
