// Package making turns what clients of /v3 send for a new cluster into the document that drover apply takes.
package making

import (
	"encoding/json"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clusterspec"
)

// Document is the document of a new cluster, of the fields of a body whose types are checked.
func Document(in norman.Input) ([]byte, error) {
	name, err := in.Required("name")
	if err != nil {
		return nil, err
	}
	description, err := in.String("description")
	if err == nil {
		err = norman.CheckDescription(description)
	}
	if err != nil {
		return nil, err
	}
	labels, _, err := in.Map("labels")
	if err != nil {
		return nil, err
	}
	annotations, _, err := in.Map("annotations")
	if err != nil {
		return nil, err
	}
	if description != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[conditions.DescriptionAnnotation] = description
	}
	if !in.Has("rancherKubernetesEngineConfig") {
		return nil, norman.Invalid(norman.MissingRequired, "rancherKubernetesEngineConfig", "a cluster that is made here is one of RKE1; clusters of k3s and RKE2 are made over /v1 or by drover apply")
	}
	spec := map[string]any{}
	for _, field := range []string{"rancherKubernetesEngineConfig", "agentEnvVars", "localClusterAuthEndpoint"} {
		var value any
		if err := in.Decode(field, &value); err != nil {
			return nil, err
		}
		if value != nil {
			spec[field] = value
		}
	}
	return json.Marshal(map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": clusterspec.Kind, "metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations}, "spec": spec,
	})
}
