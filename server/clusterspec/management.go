// Clusters of the management API as Rancher keeps them.

package clusterspec

import "github.com/drover-project/drover/plans/strictyaml"

const (
	elsewhereAgents = "the agents are always of this server's release; their registry is the setting system-default-registry"
	templates       = "cluster templates are not part of drover: give the fields themselves"
	monitoring      = "monitoring and alerts of Rancher are not part of drover"
	clouds          = "clusters of cloud providers are not made here: make it there, and import it with its name alone"
)

// ofManagement are fields of Rancher's clusters of the management API that drover does not act on; see notYet.
var ofManagement = map[string]string{
	"spec.displayName":                         "the name of a cluster is metadata.name; write it there",
	"spec.description":                         "write it as the annotation field.cattle.io/description",
	"spec.dockerRootDir":                       "hosts say themselves where their Docker keeps its data; take it out",
	"spec.fleetWorkspaceName":                  "clusters of Docker hosts are in " + DefaultNamespace + "; take it out",
	"spec.internal":                            "the server is in no cluster of its own; take it out",
	"spec.windowsPreferedCluster":              "drover looks after hosts with Linux only",
	"spec.clusterSecrets":                      "Secrets of a cluster's document are in the document itself, and encrypted where they are kept",
	"spec.agentImageOverride":                  elsewhereAgents,
	"spec.desiredAgentImage":                   elsewhereAgents,
	"spec.desiredAuthImage":                    elsewhereAgents,
	"spec.answers":                             templates,
	"spec.questions":                           templates,
	"spec.clusterTemplateName":                 templates,
	"spec.clusterTemplateRevisionName":         templates,
	"spec.clusterTemplateAnswers":              templates,
	"spec.clusterTemplateQuestions":            templates,
	"spec.enableClusterAlerting":               monitoring,
	"spec.enableClusterMonitoring":             monitoring,
	"spec.scheduledClusterScan":                "scans of clusters are not part of drover",
	"spec.k3sConfig":                           "a cluster of k3s has a document of apiVersion " + APIVersion,
	"spec.rke2Config":                          "a cluster of RKE2 has a document of apiVersion " + APIVersion,
	"spec.importedConfig":                      "an imported cluster has a document of apiVersion " + APIVersion + " with its name alone",
	"spec.aksConfig":                           clouds,
	"spec.aliConfig":                           clouds,
	"spec.eksConfig":                           clouds,
	"spec.gkeConfig":                           clouds,
	"spec.genericEngineConfig":                 clouds,
	"spec.amazonElasticContainerServiceConfig": clouds,
	"spec.azureKubernetesServiceConfig":        clouds,
	"spec.googleKubernetesEngineConfig":        clouds,
}

// usual are those of them, as complaints, whose value says what is so anyhow.
func usual(text *strictyaml.Document, meta Metadata) (all strictyaml.Errors) {
	for path, value := range map[string]string{"spec.displayName": meta.Name, "spec.dockerRootDir": "/var/lib/docker", "spec.fleetWorkspaceName": DefaultNamespace} {
		var given any
		if at, ok := text.At(path); ok && at.Decode(&given, strictyaml.Options{}) == nil && given == value {
			all = append(all, strictyaml.Error{Path: path})
		}
	}
	return all
}
