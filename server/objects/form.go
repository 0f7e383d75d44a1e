// An object as Kubernetes shows it.

package objects

import (
	"maps"
	"strconv"
)

// Form is a Secret in the form of Kubernetes, with its values: for those who may read it. The revision is that of its document.
func (o Object) Form(revision int64) map[string]any {
	data := o.Data // in base64 once it is written as JSON, by those who may read it alone
	if data == nil {
		data = map[string][]byte{}
	}
	metadata := map[string]any{"name": o.Name, "namespace": o.Namespace, "uid": o.UID, "resourceVersion": strconv.FormatInt(revision, 10)}
	for field, values := range map[string]map[string]string{"labels": o.Labels, "annotations": o.Annotations} {
		if len(values) > 0 {
			metadata[field] = maps.Clone(values)
		}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": o.Kind, "metadata": metadata, "type": o.Type, "data": data}
}
