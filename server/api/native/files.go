// The files of snapshots of k3s and RKE2, handed out as they come from their hosts or from S3.

package native

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// SnapshotAPI is the part of the API that hands out files of snapshots.
type SnapshotAPI struct {
	*API
	// Files opens them; nil answers 503.
	Files *etcdops.Files
}

// Download is GET /v1-drover/clusters/{namespace}/{name}/snapshots/{snapshot}/file?machine=NAME. A file of which the way is lost is cut
// off; Range: bytes=N- with the ETag as If-Range asks for the rest, which another file answers as a whole. Other ranges are ignored.
func (a SnapshotAPI) Download(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
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
func (a SnapshotAPI) onDocker(d store.Document[records.Cluster], name string) error {
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
