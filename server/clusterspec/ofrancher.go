// The fields of Rancher's clusters that drover does not act on, with the reason for each and what to use.

package clusterspec

import (
	"cmp"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
)

// errorsIgnored is why a drain cannot ignore errors.
const errorsIgnored = "cannot be true: Rancher accepts it and does nothing with it, and drover drains a node whole or names what holds it; " +
	"use force, deleteEmptyDirData or disableEviction for what may be lost"

// notYet are fields of Rancher's clusters that drover does not act on. They are
// refused, since a field that is taken and does nothing is worse than none.
var notYet = map[string]string{
	"spec.rkeConfig.machinePools":                               "node drivers are not part of drover; hosts register themselves",
	"spec.rkeConfig.machinePoolDefaults":                        "node drivers are not part of drover; hosts register themselves",
	"spec.rkeConfig.infrastructureRef":                          "node drivers are not part of drover; hosts register themselves",
	"spec.cloudCredentialSecretName":                            "node drivers are not part of drover; hosts register themselves",
	"spec.clusterAgentDeploymentCustomization":                  "the deployment of the cluster agent cannot be changed",
	"spec.fleetAgentDeploymentCustomization":                    "fleet is not part of drover",
	"spec.enableNetworkPolicy":                                  "project network policies are not supported by this version of drover",
	"spec.defaultPodSecurityAdmissionConfigurationTemplateName": "pod security templates are not supported by this version of drover",
	"spec.defaultClusterRoleForProjectMembers":                  "members of projects get no role of the cluster itself: give them one with a clusterRoleTemplateBinding",
	"spec.defaultPodSecurityPolicyTemplateName":                 "pod security policies ended with Kubernetes 1.25",
	"spec.webhookDeploymentCustomization":                       "the webhook of Rancher is not part of drover",
	"spec.clusterAPIConfig":                                     "clusters of Cluster API are not part of drover",
	"spec.machineSelectorConfig":                                "belongs below spec.rkeConfig",
	"spec.redeploySystemAgentGeneration":                        "redeploying the agent is not supported by this version of drover",
	// As Terraform's provider spells ignoreErrors.
	"spec.rkeConfig.upgradeStrategy.controlPlaneDrainOptions.IgnoreErrors": errorsIgnored,
	"spec.rkeConfig.upgradeStrategy.workerDrainOptions.IgnoreErrors":       errorsIgnored,
}

// ofRegistries are fields of registries.yaml on a host, by the ends of their paths.
var ofRegistries = map[string]string{
	".auth": "the login is in a Secret that authConfigSecretName names",
	".tls":  "certificates are in caBundle and in a Secret that tlsSecretName names; insecureSkipVerify stands beside them",
}

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
	"spec.fleetWorkspaceName":                  "clusters of Docker hosts are in fleet-default; take it out",
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
	"spec.k3sConfig":                           "a cluster of k3s has a document of apiVersion provisioning.cattle.io/v1",
	"spec.rke2Config":                          "a cluster of RKE2 has a document of apiVersion provisioning.cattle.io/v1",
	"spec.importedConfig":                      "an imported cluster has a document of apiVersion provisioning.cattle.io/v1 with its name alone",
	"spec.aksConfig":                           clouds,
	"spec.aliConfig":                           clouds,
	"spec.eksConfig":                           clouds,
	"spec.gkeConfig":                           clouds,
	"spec.genericEngineConfig":                 clouds,
	"spec.amazonElasticContainerServiceConfig": clouds,
	"spec.azureKubernetesServiceConfig":        clouds,
	"spec.googleKubernetesEngineConfig":        clouds,
}

// reasonOf is why a field with that path is refused; empty for other fields.
func reasonOf(path string) string {
	if registry, ok := strings.CutPrefix(path, "spec.rkeConfig.registries.configs."); ok {
		for end, reason := range ofRegistries {
			if strings.HasSuffix(registry, end) {
				return reason
			}
		}
	}
	return cmp.Or(notYet[path], ofManagement[path])
}

// usual are complaints about fields of package ofrancher whose value says what is so anyhow.
func usual(text *strictyaml.Document, meta Metadata) (all strictyaml.Errors) {
	for path, value := range map[string]string{"spec.displayName": meta.Name, "spec.dockerRootDir": "/var/lib/docker", "spec.fleetWorkspaceName": DefaultNamespace} {
		var given any
		if at, ok := text.At(path); ok && at.Decode(&given, strictyaml.Options{}) == nil && given == value {
			all = append(all, strictyaml.Error{Path: path})
		}
	}
	return all
}
