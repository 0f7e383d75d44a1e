// What people ask of an RKE1 cluster that is there: snapshots and their restore, new certificates, another key for Secrets. They ask
// by the API, or by fields of the document, which have no generation of their own: each value of such a field is
// carried out once, and again only after the field was taken out.
//
// Wire source: rancher/rke types RancherKubernetesEngineConfig (rotateCertificates, rotateEncryptionKey, restore).

package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/server/operations"
)

// Request is one thing to do on a cluster.
type Request struct {
	// Kind is that of its operation.
	Kind operations.Kind `json:"kind"`
	// CA rotates the cluster's CAs, too; Services are those whose certificates are rotated, none being all.
	CA       bool     `json:"ca,omitempty"`
	Services []string `json:"services,omitempty"`
	// Snapshot is the name of the one to take, to remove or to restore.
	Snapshot string `json:"snapshot,omitempty"`
	// KeepState restores with the state that the server has, and not with the one in the snapshot.
	KeepState bool `json:"keepState,omitempty"`
	// ID is that of the snapshot that is taken or removed.
	ID string `json:"id,omitempty"`
	// Document says that the document has the request.
	Document bool `json:"document,omitempty"`
}

// Check says what is wrong with a request for any cluster. The error is for the person who asks.
func (w Request) Check() error {
	switch w.Kind {
	case operations.KindSnapshot, operations.KindRemoveSnapshot, operations.KindRestore:
		if err := snapshots.CheckName(w.Snapshot); err != nil {
			return err
		}
	}
	if !operations.RKE1(w.Kind) {
		return fmt.Errorf("%q is not a kind of operation that can be asked for; there are %s", w.Kind, operations.Names(operations.RKE1))
	}
	for _, s := range w.Services {
		if !slices.Contains(pki.Services(), s) {
			return fmt.Errorf("%.40q is not a service with certificates; there are %s", s, strings.Join(pki.Services(), ", "))
		}
	}
	if w.CA && len(w.Services) > 0 {
		return errors.New("with a new CA all services get new certificates: leave the services out")
	}
	return nil
}

// Title is a sentence about the request.
func (w Request) Title(cluster string) string {
	switch w.Kind {
	case operations.KindSnapshot:
		return fmt.Sprintf("take snapshot %s of the etcd of cluster %s", w.Snapshot, cluster)
	case operations.KindRemoveSnapshot:
		return fmt.Sprintf("remove snapshot %s of the etcd of cluster %s", w.Snapshot, cluster)
	case operations.KindRestore:
		return fmt.Sprintf("restore cluster %s from snapshot %s", cluster, w.Snapshot)
	case operations.KindRotateKeys:
		return fmt.Sprintf("encrypt the Secrets of cluster %s with a new key", cluster)
	}
	switch {
	case w.CA:
		return fmt.Sprintf("rotate the CAs and all certificates of cluster %s", cluster)
	case len(w.Services) > 0:
		return fmt.Sprintf("rotate certificates of cluster %s: %s", cluster, strings.Join(w.Services, ", "))
	}
	return fmt.Sprintf("rotate the certificates of cluster %s", cluster)
}

// Command is how a person asks for the request.
func (w Request) Command(cluster string) string {
	switch w.Kind {
	case operations.KindSnapshot:
		return "drover snapshots create " + cluster
	case operations.KindRemoveSnapshot: // for which there is a request, and no command
		return "DELETE /v3/etcdbackups/ID of snapshot " + w.Snapshot
	case operations.KindRestore:
		text := "drover snapshots restore " + cluster + " " + w.Snapshot
		if w.KeepState {
			text += " --keep-state"
		}
		return text
	case operations.KindRotateKeys:
		return "drover clusters rotate encryption-keys " + cluster
	}
	text := "drover clusters rotate certificates " + cluster
	if w.CA {
		text += " --ca"
	}
	for _, s := range w.Services {
		text += " --service " + s
	}
	return text
}

// documentRequests are those of a config, by their kinds, in the order in which they are carried out.
func documentRequests(c config.Cluster) []Request {
	var all []Request
	if c.Restore.Restore {
		all = append(all, Request{Kind: operations.KindRestore, Snapshot: c.Restore.SnapshotName, Document: true})
	}
	if r := c.RotateCertificates; r != nil {
		w := Request{Kind: operations.KindRotateCertificates, CA: r.CACertificates, Document: true}
		if !w.CA {
			// Management servers send one service without a name for none.
			w.Services = slices.DeleteFunc(slices.Clone(r.Services), func(s string) bool { return s == "" })
		}
		all = append(all, w)
	}
	if c.RotateEncryptionKey {
		all = append(all, Request{Kind: operations.KindRotateKeys, Document: true})
	}
	return all
}

// withoutRequests is a config as hosts are to have it. The engine takes a request in it for one that was begun.
func withoutRequests(c config.Cluster) config.Cluster {
	c.Restore, c.RotateCertificates, c.RotateEncryptionKey = config.Restore{}, nil, false
	return c
}

// mark is a text that is the same for the same request.
func (w Request) mark() string {
	text, err := json.Marshal(w)
	if err != nil {
		return string(w.Kind)
	}
	return string(text)
}

// With is what was carried out once a request was, too; requests of people leave it as it is.
func (w Request) With(done map[operations.Kind]string) map[operations.Kind]string {
	if !w.Document {
		return done
	}
	next := maps.Clone(done)
	if next == nil {
		next = map[operations.Kind]string{}
	}
	next[w.Kind] = w.mark()
	return next
}

// open are the requests of the document that were not carried out, and what was carried out without those that the document does not have any
// more; forget says that there are such.
func open(c config.Cluster, done map[operations.Kind]string) (requests []Request, left map[operations.Kind]string, forget bool) {
	all := documentRequests(c)
	left = maps.Clone(done)
	for kind := range done {
		if !slices.ContainsFunc(all, func(w Request) bool { return w.Kind == kind }) {
			delete(left, kind)
			forget = true
		}
	}
	for _, w := range all {
		if done[w.Kind] != w.mark() {
			requests = append(requests, w)
		}
	}
	return requests, left, forget
}

// Fresh is what counts as carried out of a document once its cluster has come about: all certificates and keys are new.
func Fresh(in Input, done map[operations.Kind]string) map[operations.Kind]string {
	c, err := in.Cluster.Spec.RKE1Config()
	if err != nil {
		return done
	}
	for _, w := range documentRequests(c) {
		if w.Kind != operations.KindRestore {
			done = w.With(done)
		}
	}
	return done
}

// next is the request of the document that is to be carried out now. A restore comes before everything else, since what is lost cannot
// be changed; other requests come after what the document changes, unless certificates have ended, without which nothing can be changed.
func (s Snapshot) next(c config.Cluster, pending, deployed bool) *Request {
	var done map[operations.Kind]string
	if s.Record != nil {
		done = s.Record.Carried
	}
	requests, _, _ := open(c, done)
	for _, w := range requests {
		switch {
		case w.Kind == operations.KindRestore, deployed && !pending, deployed && w.Kind == operations.KindRotateCertificates && s.Ended():
			return &w
		}
	}
	return nil
}

// Ended says that a certificate has ended by which the cluster's components know each other.
func (s Snapshot) Ended() bool {
	if s.Record == nil {
		return false
	}
	for name, end := range s.Record.Ends {
		if name != pki.ServiceAccount && name != pki.Admin && !s.Now.Before(end) {
			return true
		}
	}
	return false
}

// NameSnapshot is the ID and the name of a snapshot that is taken at a time, as management servers name them: scheduled is r, and
// one that goes to a bucket s. The random text is of five characters.
func NameSnapshot(in Input, scheduled bool, now time.Time, random string) (id, name string) {
	kind, where := "m", "l"
	if scheduled {
		kind = "r"
	}
	at := now.UTC().Format(time.RFC3339)
	if c, err := in.written(); err == nil && c.Services.Etcd.BackupConfig != nil {
		if c.Services.Etcd.BackupConfig.S3 != nil {
			where = "s"
		}
		if c.Services.Etcd.BackupConfig.SafeTimestamp {
			at = strings.ReplaceAll(at, ":", "-")
		}
	}
	id = fmt.Sprintf("%s-%s%s-%s", in.Cluster.ID, kind, where, random)
	return id, id + "_" + at
}
