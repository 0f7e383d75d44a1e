// Package k8sobjects shows clusters, machines and settings as the Kubernetes objects that Rancher's
// clients know: the document as its owner wrote it, with a status computed from the record. All
// surfaces that show such objects show these.
//
// Wire source: rancher/rancher pkg/apis/provisioning.cattle.io/v1, pkg/apis/management.cattle.io/v3;
// kubernetes-sigs/cluster-api api/v1beta1.
package k8sobjects

import (
	"encoding/json"
	"maps"
	"strconv"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

// API groups with the versions that are served.
const (
	ManagementVersion = "management.cattle.io/v3"
	MachineVersion    = "cluster.x-k8s.io/v1beta1"
)

// IsProvisioned says that a cluster is an object of provisioning.cattle.io: those of Docker hosts are of the
// management API alone.
func IsProvisioned(cl records.Cluster) bool { return !cl.Spec.Docker() }

// IsMachine says that a machine is what clients know as one: Docker hosts are nodes of the management API alone,
// and of machines without a cluster neither knows anything.
func IsMachine(m records.Machine) bool { return m.Docker == nil && !m.InFleet() }

// Cluster is a provisioning.cattle.io/v1 Cluster; machines is how many the cluster has.
func Cluster(d store.Document[records.Cluster], machines int) map[string]any {
	cl := d.Value
	shown := append(ConditionsOf(cl, machines), health(cl)...)
	status := requested(cl)
	maps.Copy(status, map[string]any{
		"clusterName": cl.ID, "ready": cl.Status.Ready, "agentDeployed": cl.Status.Connected, "fleetWorkspaceName": cl.Namespace,
		"observedGeneration": cl.Status.ObservedGeneration,
	})
	created := Condition{Type: "Created", Status: "True", LastUpdateTime: stamp(cl.Created)}
	status["conditions"] = append([]Condition{created}, shown...)
	return Generic(map[string]any{
		"apiVersion": clusterspec.APIVersion, "kind": clusterspec.Kind,
		"metadata": metadata(cl.Object, d.Revision),
		"spec":     cl.Spec,
		"status":   status,
	})
}

// ManagementCluster is the management.cattle.io/v3 Cluster by which the management API knows a cluster; its name is
// the cluster's id.
func ManagementCluster(d store.Document[records.Cluster], machines int) map[string]any {
	cl := d.Value
	driver, provider := Driver(cl, machines)
	about := cl.Object
	about.Namespace, about.Name = "", cl.ID
	return Generic(map[string]any{
		"apiVersion": ManagementVersion, "kind": clusterspec.Kind,
		"metadata": metadata(about, d.Revision),
		"spec": map[string]any{
			"displayName": cl.Name, "description": cl.Annotations[DescriptionAnnotation], "fleetWorkspaceName": cl.Namespace, "internal": false,
		},
		"status": map[string]any{
			"driver": driver, "provider": provider, "nodeCount": machines, "apiEndpoint": cl.Status.APIEndpoint,
			"version": map[string]string{"gitVersion": cl.Status.Version}, "conditions": ConditionsOf(cl, machines),
		},
	})
}

// metadata is that of a Kubernetes object.
func metadata(o records.Object, revision int64) map[string]any {
	m := map[string]any{
		"name": o.Name, "uid": o.UID, "resourceVersion": strconv.FormatInt(revision, 10), "generation": max(1, o.Generation),
		"creationTimestamp": stamp(o.Created), "labels": norman.Map(o.Labels), "annotations": norman.Map(o.Annotations),
	}
	if o.Namespace != "" {
		m["namespace"] = o.Namespace
	}
	if !o.Deleting.IsZero() {
		m["deletionTimestamp"] = stamp(o.Deleting)
	}
	return m
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Generic is a value as its JSON: maps, lists and plain values, with whole numbers as int64.
func Generic(value any) map[string]any {
	data, err := json.Marshal(value)
	if err != nil {
		return map[string]any{} // nothing here holds what JSON cannot
	}
	var o map[string]any
	if err := utiljson.Unmarshal(data, &o); err != nil {
		return map[string]any{}
	}
	return o
}

// requested is what became of what the document asked for once, in the words of Rancher's RKEControlPlane, which drover has none of: the
// value that was taken and its phase, and for certificates the generation once they are renewed.
//
// Source: rancher/rancher pkg/apis/rke.cattle.io/v1, RKEControlPlaneStatus.
func requested(cl records.Cluster) map[string]any {
	status := map[string]any{}
	for kind, field := range map[operations.Kind]string{operations.KindSnapshot: "etcdSnapshotCreate", operations.KindRestore: "etcdSnapshotRestore", operations.KindRotateKeys: "rotateEncryptionKeys"} {
		is, ok := cl.Requests[kind]
		if !ok {
			continue
		}
		status[field], status[field+"Phase"] = json.RawMessage(is.Value), string(is.Phase)
		if kind == operations.KindRotateKeys && is.Phase == records.RequestFinished {
			status[field+"Phase"] = "Done"
		}
		if is.Message != "" {
			status[field+"Message"] = is.Message
		}
	}
	if is, ok := cl.Requests[operations.KindRotateCertificates]; ok {
		var value clusterspec.RotateCertificates
		switch err := json.Unmarshal([]byte(is.Value), &value); {
		case err != nil: // no client wrote it
		case is.Phase == records.RequestFinished:
			status["certificateRotationGeneration"] = value.Generation
		case is.Message != "":
			status["certificateRotationMessage"] = is.Message
		}
	}
	return status
}

// Setting is a management.cattle.io/v3 Setting. Its value is what was set, and empty for the default.
func Setting(s settings.Setting, revision int64) map[string]any {
	value := s.Value
	if s.Source == settings.SourceDefault {
		value = ""
	}
	return map[string]any{
		"apiVersion": ManagementVersion, "kind": "Setting",
		"metadata": map[string]any{"name": s.Name, "uid": "setting-" + s.Name, "resourceVersion": strconv.FormatInt(revision, 10)},
		"value":    value, "default": s.Default, "customized": s.Customized, "source": string(s.Source),
	}
}
