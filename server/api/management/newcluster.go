// What clients of /v3 send for a new cluster becomes the document that drover apply takes; what Rancher would act on and this
// server does not is refused.

package management

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clusterspec"
)

// newClusterSettings are the fields of a cluster of /v3 that are in the spec of its document, too. The parser of documents refuses those
// that nothing here acts on, so that they are refused in the same words as in documents.
func newClusterSettings() []string {
	return []string{
		"agentEnvVars", "localClusterAuthEndpoint", "rancherKubernetesEngineConfig",
		"clusterAgentDeploymentCustomization", "defaultClusterRoleForProjectMembers", "defaultPodSecurityAdmissionConfigurationTemplateName",
		"enableNetworkPolicy", "fleetAgentDeploymentCustomization", "redeploySystemAgentGeneration",
	}
}

const (
	elsewhere = "asks for a cluster that the server provisions, which is not made here: apply its document (drover apply -f, or POST /v1/provisioning.cattle.io.clusters); a cluster that is imported comes without it"
	clouds    = "asks for a cluster of a cloud provider, which are not made here: make it there, and import it with its name alone"
	image     = "the cluster agent is always of this server's release; its registry is the setting system-default-registry"
	template  = "cluster templates are not part of drover: give the fields themselves"
)

// refused are the fields of a cluster of /v3 alone that Rancher acts on and this server does not, with the reason.
func refused() map[string]string {
	return map[string]string{
		"k3sConfig": elsewhere, "rke2Config": elsewhere,
		"importedConfig": "the server takes no kubeconfig, and no registry for one imported cluster: leave it out and apply the manifest of the cluster's registration token in the cluster; images come from the setting system-default-registry",
		"aksConfig":      clouds, "aliConfig": clouds, "eksConfig": clouds, "gkeConfig": clouds, "genericEngineConfig": clouds,
		"desiredAgentImage": image, "desiredAuthImage": image, "agentImageOverride": image,
		"answers": template, "clusterTemplateId": template, "clusterTemplateRevisionId": template,
	}
}

// refuseNewCluster is the error for a body that asks for what is not done here; zero values ask for nothing.
func refuseNewCluster(in norman.Input) error {
	reasons := refused()
	fields := make([]string, 0, len(reasons))
	for field := range reasons {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	for _, field := range fields {
		if in.Asks(field) || in.Has(field) && reasons[field] == elsewhere {
			return norman.Invalid(norman.InvalidOption, field, "%s %s", field, reasons[field])
		}
	}
	return nil
}

// newClusterDocument is the document of a new cluster, of the fields of a body whose types are checked: with rancherKubernetesEngineConfig one of RKE1, else
// one that exists and is imported. The errors are *norman.Error with the field.
func newClusterDocument(in norman.Input) ([]byte, error) {
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
		annotations[k8sobjects.DescriptionAnnotation] = description
	}
	version := clusterspec.APIVersion
	if in.Has("rancherKubernetesEngineConfig") {
		version = clusterspec.DockerAPIVersion
	}
	spec, err := newClusterSpec(in, newClusterSettings())
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"apiVersion": version, "kind": clusterspec.Kind, "metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations}, "spec": spec,
	})
}

// newClusterSpec is the spec of those fields of a body. The errors are *norman.Error with the field.
func newClusterSpec(in norman.Input, fields []string) (map[string]any, error) {
	spec := map[string]any{}
	for _, field := range fields {
		var value any
		if err := in.Decode(field, &value); err != nil {
			return nil, err
		}
		if value != nil {
			spec[field] = value
		}
	}
	return spec, nil
}

// plainError is an error about a document in the terms of the body of which it was made: fields without spec and metadata, and no lines.
func plainError(err error) error {
	bad, ok := errors.AsType[strictyaml.Errors](err)
	if !ok {
		return err
	}
	plain := slices.Clone(bad)
	for i := range plain {
		plain[i].Line = 0
		plain[i].Path = strings.TrimPrefix(strings.TrimPrefix(plain[i].Path, "spec."), "metadata.")
	}
	return plain
}
