// The type etcdBackup: snapshots of the etcd of RKE1 clusters as clients of /v3 know them.

package management

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/state"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
)

// Backups serves the type etcdBackup: snapshots of RKE1 clusters.
type Backups struct {
	State    *state.State
	Clusters Clusters
}

// maxAction bounds the body of an action, in bytes.
const maxAction = 64 << 10

func (a Backups) kind() *Kind {
	text := norman.Field{Type: "string"}
	return &Kind{
		Schema: norman.Schema{
			ID: "etcdBackup", Plural: "etcdBackups",
			Fields: norman.Fields(map[string]norman.Field{
				"labels": {Type: "map[string]"}, "annotations": {Type: "map[string]"}, // which are not kept
				"clusterId": {Type: "reference[cluster]", Create: true, Required: true}, "manual": {Type: "boolean", Default: false}, "name": text, "filename": text,
				"backupConfig": {Type: "json", Nullable: true}, "status": {Type: "json"},
			}),
		},
		List: a.list,
		Get:  a.get,
	}
}

func (a Backups) list(*route.Call) []norman.Object {
	objects := []norman.Object{}
	for _, d := range a.State.Clusters.List() {
		if d.Value.Spec.RKE1() {
			for _, s := range a.of(d.Value) {
				objects = append(objects, backupObject(d.Value, s))
			}
		}
	}
	return objects
}

func (a Backups) get(_ *route.Call, id string) (norman.Object, bool) {
	cl, s, ok := a.find(id)
	if !ok {
		return norman.Object{}, false
	}
	return backupObject(cl, s), true
}

// find is one snapshot as it is kept, or is being taken.
type backup struct {
	records.RKESnapshot
	underWay bool
	leaving  bool // it is being removed
}

// of are the snapshots of a cluster, those that are being taken, too.
func (a Backups) of(cl records.Cluster) []backup {
	var all []backup
	kept, _ := a.State.RKEStates.Get(cl.Key())
	known := map[string]bool{}
	for _, s := range kept.Value.Snapshots {
		all, known[s.ID] = append(all, backup{RKESnapshot: s}), true
	}
	for _, o := range a.State.OperationsOf(records.ClusterKey(cl.Key())) {
		w := desired.ReadParams(o).Request
		if w != nil && w.Kind == operations.KindRemoveSnapshot && !o.State.Ended() {
			for i := range all {
				all[i].leaving = all[i].leaving || all[i].ID == w.ID
			}
		}
		if w != nil && w.Kind == operations.KindSnapshot && !o.State.Ended() && !known[w.ID] {
			all = append(all, backup{RKESnapshot: records.RKESnapshot{ID: w.ID, Name: w.Snapshot, By: o.By, At: o.Created}, underWay: true})
		}
	}
	return all
}

func (a Backups) find(id string) (records.Cluster, backup, bool) {
	clusterID, name, _ := strings.Cut(id, ":")
	d, ok := a.State.ClustersByID.First(clusterID)
	if !ok || !d.Value.Spec.RKE1() {
		return records.Cluster{}, backup{}, false
	}
	for _, s := range a.of(d.Value) {
		if s.ID == name {
			return d.Value, s, true
		}
	}
	return records.Cluster{}, backup{}, false
}

func backupObject(cl records.Cluster, s backup) norman.Object {
	phase, transitioning, text, completed := k8sobjects.Active, "no", "", "True"
	switch {
	case s.leaving:
		phase, transitioning = k8sobjects.Removing, "yes"
	case s.underWay:
		phase, transitioning, completed = "activating", "yes", "Unknown"
	case s.Failure != "":
		phase, transitioning, text, completed = k8sobjects.Failed, "error", s.Failure, "False"
	}
	public := desired.Public(cl.Spec)
	var config any
	if c, err := (clusterspec.Spec{RancherKubernetesEngineConfig: public}).RKE1Config(); err == nil && c.Services.Etcd.BackupConfig != nil {
		config = c.Services.Etcd.BackupConfig
	}
	return norman.Object{
		ID: cl.ID + ":" + s.ID, Kept: s.underWay || s.leaving,
		Fields: map[string]any{
			"clusterId": cl.ID, "name": s.ID, "manual": !s.Scheduled, "filename": s.Name + ".zip", "backupConfig": config,
			"created": s.At, "creatorId": norman.Reference(s.By), "state": phase, "transitioning": transitioning, "transitioningMessage": text,
			"status": map[string]any{
				"kubernetesVersion": s.Version, "conditions": []map[string]string{{"type": "Completed", "status": completed, "message": text}},
			},
		},
	}
}

// Take is the action of a cluster that takes a snapshot; it answers with the etcdBackup.
func (a Backups) Take(c *Request) (route.Answer, error) {
	return a.take(c, c.id, http.StatusOK)
}

// Create is POST of the type, with {"clusterId": "c-abcde"}.
func (a Backups) Create(c *Request, in norman.Input) (route.Answer, error) {
	id, err := in.Required("clusterId")
	if err != nil {
		return route.Answer{}, err
	}
	if d, ok := visibleCluster(a.State, c.Call, id); !ok || !d.Value.Spec.RKE1() {
		return route.Answer{}, norman.Invalid(norman.InvalidReference, "clusterId", "there is no RKE1 cluster %q", id)
	}
	if !auth.May(c.Who, auth.Create, auth.In(id, auth.EtcdBackup)) {
		return route.Answer{}, c.Denied()
	}
	return a.take(c, id, http.StatusCreated)
}

func (a Backups) take(c *Request, cluster string, status int) (route.Answer, error) {
	on := c.of("etcdBackup", cluster)
	o, err := a.Clusters.ask(on, desired.Request{Kind: operations.KindSnapshot})
	if err != nil {
		return route.Answer{}, err
	}
	request := desired.ReadParams(o).Request
	object, ok := a.get(c.Call, cluster+":"+request.ID)
	if !ok {
		return route.Answer{}, norman.Missing("etcdBackup", cluster+":"+request.ID)
	}
	return on.Shown(status, object), nil
}

// Restore is the action of a cluster with {"etcdBackupId": "c-abcde:c-abcde-ml-x1y2z", "restoreRkeConfig": ""}.
func (a Backups) Restore(c *Request) (route.Answer, error) {
	in, err := norman.ReadInput(c.W, c.R, maxAction)
	if err != nil {
		return route.Answer{}, err
	}
	id, err := in.Required("etcdBackupId")
	if err != nil {
		return route.Answer{}, err
	}
	more, err := in.String("restoreRkeConfig")
	if err != nil {
		return route.Answer{}, err
	}
	cl, s, ok := a.find(id)
	switch {
	case !ok || cl.ID != c.id || s.underWay || s.Failure != "":
		return route.Answer{}, norman.Invalid(norman.InvalidReference, "etcdBackupId", "cluster %s has no snapshot %.80q that could be restored", c.id, id)
	case more != "":
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "restoreRkeConfig", "%.40q is not done here: apply the document as it was at that time first, then restore without it", more)
	}
	o, err := a.Clusters.ask(c, desired.Request{Kind: operations.KindRestore, Snapshot: s.Name})
	if err != nil {
		return route.Answer{}, err
	}
	answer := message("restoreFromEtcdBackupOutput", "operation %s: %s", o.ID, o.Title)
	answer.Status = http.StatusCreated
	return answer, nil
}

// Remove is DELETE of an etcdBackup: 200 with it while it is being removed.
func (a Backups) Remove(c *Request) (route.Answer, error) {
	clusterID, id, _ := strings.Cut(c.ID(), ":")
	cluster, ok := a.State.ClustersByID.First(clusterID)
	if !ok || a.Clusters.RKE == nil {
		return route.Answer{}, norman.Missing("etcdBackup", c.ID())
	}
	shown := c.Object()
	switch shown.Fields["state"] {
	case k8sobjects.Removing:
		return c.AfterRemoval()
	case "activating":
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidState, "snapshot %s is being taken: remove it when it is there", id)
	}
	file, _ := shown.Fields["filename"].(string)
	request := desired.Request{Kind: operations.KindRemoveSnapshot, ID: id, Snapshot: strings.TrimSuffix(file, ".zip")}
	if _, err := a.Clusters.RKE.Ask(c.Ctx(), records.ClusterKey(cluster.Key), request, c.Who.UserID, admission.Refuse); err != nil {
		return route.Answer{}, err
	}
	return c.AfterRemoval()
}
