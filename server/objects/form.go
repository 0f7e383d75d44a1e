// An object as Kubernetes shows it.

package objects

import (
	"encoding/base64"
	"maps"
	"strconv"
)

// Form is a Secret in the form of Kubernetes, with its values: for those who may read it. The revision is that of its document.
func (o Object) Form(revision int64) map[string]any {
	data := make(map[string]any, len(o.Data))
	for key, value := range o.Data {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	metadata := map[string]any{"name": o.Name, "namespace": o.Namespace, "uid": o.UID, "resourceVersion": strconv.FormatInt(revision, 10)}
	for field, values := range map[string]map[string]string{"labels": o.Labels, "annotations": o.Annotations} {
		if len(values) > 0 {
			metadata[field] = maps.Clone(values)
		}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": o.Kind, "metadata": metadata, "type": o.Type, "data": data}
}
