// Where the objects are in the Kubernetes API.

package clusteragents

import "fmt"

// kinds are the collections of the objects' kinds.
var kinds = map[string]string{
	"Namespace": "/api/v1/namespaces", "ServiceAccount": "serviceaccounts", "Secret": "secrets", "Service": "services", "Deployment": "deployments",
	"ClusterRole": "/apis/" + rbac + "/v1/clusterroles", "ClusterRoleBinding": "/apis/" + rbac + "/v1/clusterrolebindings",
}

// PathOf is where an object of a manifest is. It returns an error for a kind that manifests do not have.
func PathOf(o map[string]any) (string, error) {
	metadata, _ := o["metadata"].(object)
	kind, name := kinds[fmt.Sprint(o["kind"])], fmt.Sprint(metadata["name"])
	namespace, in := metadata["namespace"]
	switch {
	case kind == "" || metadata["name"] == nil:
		return "", fmt.Errorf("the manifest of the cluster agent has an object of kind %v, which has no place", o["kind"])
	case !in:
		return kind + "/" + name, nil
	case o["apiVersion"] == "v1":
		return fmt.Sprintf("/api/v1/namespaces/%v/%s/%s", namespace, kind, name), nil
	}
	return fmt.Sprintf("/apis/%v/namespaces/%v/%s/%s", o["apiVersion"], namespace, kind, name), nil
}

// ClusterWide are the paths of what is in no namespace, the rights of the agent, which end last.
func ClusterWide() []string {
	roles, bindings := kinds["ClusterRole"]+"/", kinds["ClusterRoleBinding"]+"/"
	return []string{bindings + proxyBind, roles + proxyRole, bindings + binding, roles + role}
}
