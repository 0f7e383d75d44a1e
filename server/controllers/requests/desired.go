// What a cluster's document asks for, and what became of it.

package requests

import (
	"encoding/json"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// ready says whether anything can be begun on a cluster now.
func ready(c records.Cluster) bool {
	return c.Status.Initialized && c.Deleting.IsZero() && c.MayChange() == nil
}

// became is what is to be known of a request that was begun; keep is false where it is forgotten.
func became(c records.Cluster, kind operations.Kind, operation func(id string) (operations.Operation, bool)) (is records.Requested, keep bool) {
	is = c.Requests[kind]
	// A generation of certificates counts on: the next one has to be another.
	if asked(c)[kind].Requested == "" && kind != operations.KindRotateCertificates {
		return is, false
	}
	if is.Phase != records.RequestStarted {
		return is, true
	}
	switch o, known := operation(is.Operation); {
	case !known:
		is.Phase, is.Message = records.RequestFailed, "its operation is not known any more"
	case o.State == operations.Succeeded:
		is.Phase = records.RequestFinished
	case o.State.Ended():
		is.Phase, is.Message = records.RequestFailed, o.Reason
	}
	return is, true
}

// due is what a cluster's document asks for that was not begun yet.
func due(c records.Cluster) []etcdops.Request {
	var all []etcdops.Request
	requests := asked(c)
	for _, kind := range []operations.Kind{operations.KindSnapshot, operations.KindRestore, operations.KindRotateCertificates, operations.KindRotateKeys} {
		halfRestored := c.Status.Restoring != "" && kind != operations.KindRestore
		if ask, ok := requests[kind]; ok && !halfRestored && c.Requests[kind].Value != ask.Requested {
			all = append(all, ask)
		}
	}
	return all
}

// asked is what a cluster's document asks for, by kinds. A value without generation and name is what clients send of what they do
// not mean. Of certificates the generation alone makes another request, of all others every field.
func asked(c records.Cluster) map[operations.Kind]etcdops.Request {
	if c.Spec.RKEConfig == nil {
		return nil
	}
	all, r := map[operations.Kind]etcdops.Request{}, c.Spec.RKEConfig.Requests
	add := func(kind operations.Kind, value any, mode string, request steps.Request) {
		text, err := json.Marshal(value)
		if err == nil { // plain values can be written
			all[kind] = etcdops.Request{Kind: kind, Mode: mode, Request: request, Requested: string(text), Turn: admission.Queue}
		}
	}
	if one := r.ETCDSnapshotCreate; one != nil && one.Generation != 0 {
		add(operations.KindSnapshot, one, "", steps.Request{})
	}
	if one := r.ETCDSnapshotRestore; one != nil && *one != (clusterspec.ETCDSnapshotRestore{}) {
		add(operations.KindRestore, one, one.RestoreRKEConfig, steps.Request{Snapshot: one.Name})
	}
	if one := r.RotateCertificates; one != nil && one.Generation != 0 {
		add(operations.KindRotateCertificates, clusterspec.RotateCertificates{Generation: one.Generation}, "", steps.Request{Services: one.Services})
	}
	if one := r.RotateEncryptionKeys; one != nil && one.Generation != 0 {
		add(operations.KindRotateKeys, one, "", steps.Request{})
	}
	return all
}
