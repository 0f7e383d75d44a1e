// Package references says which Secrets and ConfigMaps a cluster may use. A name in a
// cluster's document is no right: people choose names. A cluster may use an object that names the cluster's ID, and one that
// the person who applied the document might read at that moment, which is kept with the cluster (records.Granted).
package references

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// Lookup finds an object by its key.
type Lookup func(key string) (objects.Object, bool)

// Stored finds objects: of those that are given beside a document, or else of the stored ones.
func Stored(s *state.State, given ...objects.Object) Lookup {
	return func(key string) (objects.Object, bool) {
		if i := slices.IndexFunc(given, func(o objects.Object) bool { return o.Key() == key }); i >= 0 {
			return given[i], true
		}
		d, ok := s.Objects.Get(key)
		return d.Value, ok
	}
}

// Usable says whether a cluster may use an object.
func Usable(c records.Cluster, o objects.Object) bool {
	g, granted := c.Granted[o.Key()]
	return granted && g.UID != "" && g.UID == o.UID || o.Allows(c.ID)
}

// Of are the objects that the document of a cluster names and that the cluster may use, by their keys. Nil is that it names
// none at all.
func Of(c records.Cluster, find Lookup) map[string]objects.Object {
	var all map[string]objects.Object
	for _, key := range c.Spec.Objects(c.Namespace) {
		if all == nil {
			all = map[string]objects.Object{}
		}
		if o, ok := find(key); ok && Usable(c, o) {
			all[key] = o
		}
	}
	return all
}

// unusable are sentences about the objects that the document of a cluster names, and that it may not use or that do not exist: the
// sentence is the same for both.
func unusable(c records.Cluster, find Lookup) []string {
	var list []string
	usable := Of(c, find)
	for _, key := range c.Spec.Objects(c.Namespace) {
		if _, ok := usable[key]; !ok {
			list = append(list, fmt.Sprintf("there is no %s that you or cluster %s may use; its machines get no plan before there is: apply it and then the cluster again, or have its owner name the cluster's ID in its annotation %s",
				objects.Named(key), c.Name, objects.AuthorizedObject))
		}
	}
	return list
}

// Grant are the rights of a cluster whose document the user with an ID applies: those that it had, and those that the user gives, of what
// the document names. Users give what they made, and what they may read and themselves have put into the document: that an
// administrator changes something else in it gives no right to what stood there before.
func Grant(before, after records.Cluster, by string, reads func(objects.Object) bool, find Lookup) map[string]records.Granted {
	given := map[string]records.Granted{}
	named := before.Spec.Objects(before.Namespace)
	place := bucketOf(after)
	for _, key := range after.Spec.Objects(after.Namespace) {
		o, ok := find(key)
		if !ok || !reads(o) {
			continue
		}
		credential := key == CredentialOf(after)
		if o.CreatorID != "" && o.CreatorID == by || !slices.Contains(named, key) || credential && bucketOf(before) != place {
			g := records.Granted{UID: o.UID}
			if credential {
				g.Bucket = &place
			}
			given[key] = g
		}
	}
	return Keep(before.Granted, given, after)
}

// Keep are the rights of a cluster with others that were given to it, of what its document names.
func Keep(had, given map[string]records.Granted, c records.Cluster) map[string]records.Granted {
	var kept map[string]records.Granted
	for _, key := range c.Spec.Objects(c.Namespace) {
		g, ok := given[key]
		if !ok {
			g, ok = had[key]
		}
		if !ok {
			continue
		}
		if kept == nil {
			kept = map[string]records.Granted{}
		}
		kept[key] = g
	}
	return kept
}

// Same says whether two sets of rights are the same.
func Same(a, b map[string]records.Granted) bool {
	same := func(x, y records.Granted) bool {
		return x.UID == y.UID && (x.Bucket == nil) == (y.Bucket == nil) && (x.Bucket == nil || *x.Bucket == *y.Bucket)
	}
	if len(a) != len(b) {
		return false
	}
	for key, x := range a {
		if y, ok := b[key]; !ok || !same(x, y) {
			return false
		}
	}
	return true
}

// CredentialOf is the key of the Secret with the keys of a cluster's bucket; empty for none.
func CredentialOf(c records.Cluster) string {
	if s3 := settingsOf(c.Spec); s3 != nil {
		if namespace, name, ok := s3.Credential(); ok {
			return objects.KeyOf(objects.Secret, namespace, name)
		}
	}
	return ""
}

func bucketOf(c records.Cluster) clusterspec.S3 {
	if s3 := settingsOf(c.Spec); s3 != nil {
		return s3.Place()
	}
	return clusterspec.S3{}
}

func settingsOf(spec clusterspec.Spec) *clusterspec.S3 {
	if spec.RKEConfig == nil || spec.RKEConfig.ETCD == nil {
		return nil
	}
	return spec.RKEConfig.ETCD.S3
}
