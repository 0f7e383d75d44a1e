// How what was sent is taken in: a cluster's document as drover apply takes it, a setting's value, and a
// removal as drover clusters rm asks for it.

package kube

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

func (a *API) createCluster(q *Request, content map[string]any) (object, error) {
	return a.take(q, content)
}

func (a *API) updateCluster(q *Request, _ object, content map[string]any) (object, error) {
	return a.take(q, content)
}

// take takes a cluster's document in: the one way that all documents take.
func (a *API) take(q *Request, content map[string]any) (object, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return object{}, fmt.Errorf("read the body: %w", err)
	}
	doc, err := clusterspec.ParseSpec(text, a.o.Versions())
	if err != nil {
		return object{}, err
	}
	results, err := a.o.Clusters.Apply(q.Ctx(), []clusterspec.Document{doc}, clusters.Request{
		Who: q.Who, DryRun: q.dryRun, Turn: admission.Replace, Whole: true, Seen: &q.seen, Owners: q.owners, Allow: q.MayApply,
	})
	if err != nil {
		return object{}, err
	}
	result := results[0]
	for _, warning := range result.Warnings {
		q.warn(warning)
	}
	if p := result.Preview; p != nil && p.Restarts > 0 {
		q.warn(fmt.Sprintf("this would restart %d of the cluster's machines", p.Restarts))
	}
	if result.Action == clusters.Queued {
		q.warn("the change is taken in when the operations before it have ended: operation " + result.Operation)
	}
	key := doc.Metadata.Namespace + "/" + doc.Metadata.Name
	if q.dryRun {
		return a.cluster(store.Document[records.Cluster]{Key: key, Revision: q.seen, Value: result.Cluster}, a.o.State.MachineCount(result.Cluster.ID)), nil
	}
	o, ok := q.res.get(key)
	if !ok {
		return o, q.missing(key) // it is gone again
	}
	return o, nil
}

func (a *API) removeCluster(q *Request, o object) error { return a.leave(q, records.ClusterKey(o.key)) }

func (a *API) leave(q *Request, key records.ClusterKey) error {
	return a.o.Clusters.Remove(q.Ctx(), key, q.Leave())
}

func (a *API) updateSetting(q *Request, o object, content map[string]any) (object, error) {
	value, ok := content["value"].(string)
	if content["value"] != nil && !ok {
		return o, q.invalid(o.key, "value", "is not text")
	}
	if was, _ := o.content["value"].(string); was == value {
		return o, nil
	}
	if q.dryRun {
		if err := a.o.Settings.CheckValue(o.key, value); err != nil {
			return o, err
		}
		o.content["value"] = value // made for this request
		return o, nil
	}
	if err := a.o.Settings.Set(q.Ctx(), o.key, value); err != nil {
		return o, err
	}
	now, _ := q.res.get(o.key)
	return now, nil
}

// documentError is what is wrong with a document, a cause for each field.
func (q *Request) documentError(err error, name string) error {
	if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
		causes := make([]metav1.StatusCause, len(bad))
		for i, one := range bad {
			causes[i] = metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: one.Path, Message: one.Reason}
		}
		return q.invalidFields(name, causes)
	}
	if bad, ok := errors.AsType[*settings.InvalidError](err); ok {
		return q.invalid(name, "value", bad.Error())
	}
	return err
}
