// The ways by which a machine gets a snapshot that is not on its host: a link into the cluster's bucket, or one to this server, which
// reads the file on the host that has it while it sends it. Either opens one snapshot for a while, to the holder of the link.

package rehearsals

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// LinkPath is where the snapshot of a rehearsal is fetched. A host asks with the secret of the link as its bearer token.
const LinkPath = "/v3/connect/rehearsal"

// LinkLimit is how long after the begin of a rehearsal its link opens the snapshot. It ends before that with the rehearsal.
const LinkLimit = time.Hour

// chunkLimit is how long the host may take to receive a part of the file.
const chunkLimit = time.Minute

// bucket is the way from the cluster's bucket, or why there is none.
func (a *Service) bucket(c chosen) (from *hostjob.Source, why string) {
	place, on, err := etcdops.PlaceOf(a.State, c.cluster)
	switch {
	case err != nil:
		return nil, err.Error()
	case !on:
		return nil, fmt.Sprintf("cluster %s has no bucket any more", c.cluster.Name)
	}
	link, err := place.Link(c.snapshot.Name(), a.Now())
	if err != nil {
		return nil, err.Error()
	}
	return &hostjob.Source{Link: link, CA: place.EndpointCA, Unverified: place.SkipSSLVerify, Size: c.snapshot.Size}, ""
}

// throughServer is the way from the host that has the snapshot. The file is opened there, and not read: a *etcdops.NoFileError says
// that it cannot be had.
func (a *Service) throughServer(ctx context.Context, c chosen) (*hostjob.Source, error) {
	url, ca := a.Server()
	if url == "" || a.Files == nil {
		return nil, &etcdops.NoFileError{Reason: "the server does not know the URL by which hosts reach it: set server-url"}
	}
	f, err := a.Files.Open(ctx, c.cluster, etcdops.FileRequest{Snapshot: c.snapshot.Name(), Machine: c.snapshot.Machine})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return &hostjob.Source{Link: strings.TrimSuffix(url, "/") + LinkPath, CA: ca, Size: f.Size, SHA256: f.SHA256, Opens: randomid.Secret()}, nil
}

// opened is the rehearsal whose link the secret opens now. The time that this takes depends on the hash of the secret alone.
func (a *Service) opened(secret string) (operations.Operation, steps.Rehearsal, bool) {
	hash := randomid.Hash(secret)
	for _, fleet := range a.State.Fleets.List() {
		for _, o := range a.State.OperationsOf(records.ClusterKey(fleet.Key)) {
			if !opens(o, a.Now()) {
				continue
			}
			if asked, err := steps.ReadRehearsal(o); err == nil && asked.Link == hash {
				return o, asked, true
			}
		}
	}
	return operations.Operation{}, steps.Rehearsal{}, false
}

// opens says whether the link of an operation opens at a time: while a host is at the rehearsal, and not for too long.
func opens(o operations.Operation, now time.Time) bool {
	work, _ := o.Task(steps.TaskRehearse)
	return o.Kind == operations.KindRehearse && o.State == operations.Running && !work.State.Ended() && now.Before(o.Started.Add(LinkLimit))
}

// Routes adds the path of links.
func (a *Service) Routes(mux *http.ServeMux) { mux.HandleFunc("GET "+LinkPath, a.send) }

// send answers a host with the snapshot of its rehearsal, as that comes from the host that has it. Nothing is kept on the way. A
// refusal is a line of text, which the host reports.
func (a *Service) send(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	secret, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	o, asked, open := operations.Operation{}, steps.Rehearsal{}, false
	if bearer {
		o, asked, open = a.opened(secret)
	}
	if !open {
		http.Error(w, "the link opens nothing: it ends with its rehearsal, and an hour after that began", http.StatusForbidden)
		return
	}
	log := a.Logger.With("cluster", asked.Cluster, "snapshot", path.Base(asked.Snapshot), "operation", o.ID, "to", asked.Machine)
	cluster, ok := a.State.Clusters.Get(string(asked.Cluster))
	s, listed := a.State.Snapshots.Get(asked.Snapshot)
	if !ok || !listed {
		http.Error(w, "the snapshot is gone: the cluster does not list it any more", http.StatusNotFound)
		return
	}
	f, err := a.Files.Open(r.Context(), cluster.Value, etcdops.FileRequest{Snapshot: s.Value.Name(), Machine: s.Value.Machine})
	if err != nil {
		log.Info("snapshot not sent to a rehearsal", "error", err)
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(f.Size, 10))
	log.Info("snapshot sent to a rehearsal with all Secrets of the cluster", "machine", f.Snapshot.Machine, "bytes", f.Size)
	if err := f.Send(r.Context(), &patient{w: w, control: http.NewResponseController(w)}); err != nil {
		log.Info("the snapshot did not reach the rehearsal whole", "error", err)
	}
}

// patient gives the host time for each part, as a snapshot may take longer than other answers.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(part []byte) (int, error) {
	// Where there are no deadlines no wait can be too long.
	_ = p.control.SetWriteDeadline(time.Now().Add(chunkLimit))
	return p.w.Write(part)
}
