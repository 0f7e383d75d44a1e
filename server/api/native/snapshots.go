// Snapshots of clusters: which there are, and their files.

package native

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Snapshots serves snapshots of etcd.
type Snapshots struct {
	*Common
	// DayTwo says which can be restored, Refresh asks a cluster for its snapshots, and Files opens them; nil answers with what is known, and
	// 503 for a file.
	DayTwo  *etcdops.Service
	Refresh func(ctx context.Context, key records.ClusterKey) error
	Files   *etcdops.Files
}

// List is GET /v1-drover/clusters/{namespace}/{name}/snapshots?follow=true: those that the server took or tried to, the oldest first.
func (a Snapshots) List(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	switch {
	case c.Query().Get("follow") == "true":
		return serveFollow(c, a.Changes, followedSnapshots(a, c.Who, d))
	case !d.Value.Spec.Docker():
		return a.files(c, d.Value)
	}
	kept, _ := a.State.RKEStates.Get(d.Key)
	return route.Page(c, kept.Value.Snapshots, func(s records.RKESnapshot) string { return s.At.UTC().Format("20060102T150405.000000000") + "/" + s.ID },
		func(s records.RKESnapshot) apitypes.Snapshot { return views.OfSnapshot(records.ClusterKey(d.Key), s) })
}

// followedSnapshots are those of one cluster; of RKE1 they are in one document with its state.
func followedSnapshots(a Snapshots, who auth.Identity, cluster store.Document[records.Cluster]) List {
	about := auth.In(cluster.Value.ID, auth.EtcdBackup)
	if !cluster.Value.Spec.Docker() {
		below := cluster.Key + "/"
		l := followDocuments(subscribe.Snapshots, func() []store.Document[records.Snapshot] { return a.State.Snapshots.ListIn(below) }, a.State.Snapshots.Get,
			func(s records.Snapshot) bool {
				return !etcdops.Foreign(a.State, cluster.Value, s) || etcdops.OpensBucket(a.State, who, cluster.Value)
			}, func(records.Snapshot) auth.Object { return about },
			func(d store.Document[records.Snapshot]) any {
				ok, why := a.DayTwo.Restorable(d.Value)
				return views.OfFile(d.Value, ok, why)
			})
		documents := l.Of
		l.Of = func(change subscribe.Change) []string {
			return slices.DeleteFunc(documents(change), func(key string) bool { return !strings.HasPrefix(key, below) })
		}
		return l
	}
	line := func(s records.RKESnapshot) Line {
		return Line{Key: s.ID, About: about, Show: func() any { return views.OfSnapshot(records.ClusterKey(cluster.Key), s) }}
	}
	kept := func() []records.RKESnapshot {
		d, _ := a.State.RKEStates.Get(cluster.Key)
		return d.Value.Snapshots
	}
	return List{
		All: func() []Line {
			var all []Line
			for _, s := range kept() {
				all = append(all, line(s))
			}
			return all
		},
		Of: func(change subscribe.Change) []string {
			var ids []string
			if change.Collection == subscribe.RKEStates && change.Key == cluster.Key {
				for _, s := range kept() {
					ids = append(ids, s.ID)
				}
			}
			return ids
		},
		Now: func(id string) (Line, bool) {
			all := kept()
			i := slices.IndexFunc(all, func(s records.RKESnapshot) bool { return s.ID == id })
			if i < 0 {
				return Line{}, false
			}
			return line(all[i]), true
		},
	}
}

// files answers with the snapshots of a cluster whose machines get plans, the oldest first. The cluster is asked
// for them; what was known before is shown when it does not answer.
func (a Snapshots) files(c *route.Call, cluster records.Cluster) (route.Answer, error) {
	if a.Refresh != nil {
		if err := a.Refresh(c.Ctx(), records.ClusterKey(cluster.Key())); err != nil {
			a.Logger.Debug("snapshots not listed", "cluster", cluster.Key(), "error", err)
		}
	}
	order := func(d store.Document[records.Snapshot]) string {
		return d.Value.Created.UTC().Format("20060102T150405.000000000") + "/" + d.Key
	}
	all := etcdops.Known(a.State, cluster, etcdops.OpensBucket(a.State, c.Who, cluster))
	slices.SortFunc(all, func(x, y store.Document[records.Snapshot]) int { return strings.Compare(order(x), order(y)) })
	return route.Page(c, all, order, func(d store.Document[records.Snapshot]) apitypes.Snapshot {
		ok, why := a.DayTwo.Restorable(d.Value)
		return views.OfFile(d.Value, ok, why)
	})
}

// Download is GET /v1-drover/clusters/{namespace}/{name}/snapshots/{snapshot}/file?machine=NAME. A file of which the way is lost is cut
// off; Range: bytes=N- with the ETag as If-Range asks for the rest, which another file answers as a whole. Other ranges are ignored.
func (a Snapshots) Download(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	request := etcdops.FileRequest{Snapshot: c.Param("snapshot"), Machine: c.Query().Get("machine"), Foreign: etcdops.OpensBucket(a.State, c.Who, d.Value)}
	request.Offset, request.Tag = continued(c.R.Header)
	if d.Value.Spec.Docker() {
		return route.Answer{}, a.onDocker(d, request.Snapshot)
	}
	if a.Files == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server has no way to the hosts")
	}
	defer c.Bind(auth.OfCluster(d.Value.ID))()
	log := a.Logger.With("cluster", d.Key, "snapshot", request.Snapshot, "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	f, err := a.Files.Open(c.Ctx(), d.Value, request)
	if none, ok := errors.AsType[*etcdops.NoFileError](err); ok {
		log.Info("snapshot not handed out", "reason", none.Reason)
		if none.Away {
			return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "%s", none.Reason)
		}
		return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "%s", none.Reason)
	}
	if err != nil {
		return route.Answer{}, err
	}
	defer f.Close()
	status := describe(c.W.Header(), f)
	if c.R.Method == http.MethodHead {
		c.W.WriteHeader(status)
		return route.Answer{}, nil
	}
	// Before the first byte is out: what it holds are all Secrets of the cluster.
	log.Info("snapshot handed out with all Secrets of the cluster", "machine", f.Snapshot.Machine, "bytes", f.Size-f.Offset, "offset", f.Offset)
	c.W.WriteHeader(status)
	if err := f.Send(c.Ctx(), &patient{w: c.W, control: http.NewResponseController(c.W)}); err != nil {
		log.Info("the snapshot did not reach its client whole; it can be asked for again", "error", err)
	}
	return route.Answer{}, nil
}

// rest is the only form of a range that is taken.
var rest = regexp.MustCompile(`^bytes=([0-9]{1,18})-$`)

// continued reads where the caller wants to go on, and with which file.
func continued(h http.Header) (offset int64, tag string) {
	from := rest.FindStringSubmatch(h.Get("Range"))
	tag, err := strconv.Unquote(h.Get("If-Range"))
	if from == nil || err != nil {
		return 0, ""
	}
	offset, _ = strconv.ParseInt(from[1], 10, 64) // as many digits as fit
	return offset, tag
}

// describe writes the header of a file and returns the status that goes with it.
func describe(h http.Header, f *etcdops.File) (status int) {
	norman.Uncached(h)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", f.Snapshot.Name()))
	h.Set("Content-Length", strconv.FormatInt(f.Size-f.Offset, 10))
	h.Set(apitypes.FileMachine, f.Snapshot.Machine)
	h.Set(apitypes.FileCreated, f.Snapshot.Created.UTC().Format(time.RFC3339))
	h.Set(apitypes.FileSum, f.SHA256) // empty where it is not known, as the version
	h.Set(apitypes.FileVersion, f.Snapshot.Spec.KubernetesVersion)
	if f.Tag != "" {
		h.Set("ETag", strconv.Quote(f.Tag))
		h.Set("Accept-Ranges", "bytes")
	}
	if f.Offset == 0 {
		return http.StatusOK
	}
	h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", f.Offset, f.Size-1, f.Size))
	return http.StatusPartialContent
}

// onDocker says where a snapshot of an RKE1 cluster is, and how it comes from there.
func (a Snapshots) onDocker(d store.Document[records.Cluster], name string) error {
	kept, _ := a.State.RKEStates.Get(d.Key)
	for _, s := range kept.Value.Snapshots {
		if s.Name != name || s.Failure != "" {
			continue
		}
		where := ""
		for _, h := range s.Hosts {
			where += fmt.Sprintf(", on host %s as %s/%s", h.Address, snapshots.Dir, snapshots.File(name))
		}
		if s.Bucket != "" {
			where += fmt.Sprintf(", in bucket %s as %s", s.Bucket, snapshots.File(name))
		}
		return norman.Errorf(http.StatusConflict, norman.Conflict, "snapshots of RKE1 clusters do not come through the server: copy it from where it is%s; without a way to the host, drover machines docker MACHINE -- run --rm -v %s:/s:ro IMAGE cat /s/%s > %s, with an image that the host has",
			where, snapshots.Dir, snapshots.File(name), snapshots.File(name))
	}
	return norman.Errorf(http.StatusNotFound, norman.NotFound, "cluster %s has no snapshot %.80q; drover snapshots ls %s shows those that there are", d.Value.Name, name, d.Value.Name)
}
