// The authorized cluster endpoint: the API server asks a webhook on its own host who a token is.

package render

import (
	"path"

	"github.com/drover-project/drover/installers"
)

// authEndpoint says that the machine has the files of the endpoint.
func (r render) authEndpoint() bool {
	e := r.Cluster.Spec.LocalClusterAuthEndpoint
	return e != nil && e.Enabled && r.server()
}

func (r render) webhookFile() string { return path.Join(r.dataDir, "kube-api-authn-webhook.yaml") }

// webhook is the kubeconfig by which the API server finds the webhook.
//
// Source: rancher/rancher pkg/capr/planner, file kube-api-authn-webhook.yaml.
func (r render) webhook() string {
	return `apiVersion: v1
kind: Config
clusters:
- name: Default
  cluster:
    insecure-skip-tls-verify: true
    server: ` + installers.WebhookURL(r.loopback()) + `
users:
- name: Default
  user:
    insecure-skip-tls-verify: true
current-context: webhook
contexts:
- name: webhook
  context:
    user: Default
    cluster: Default
`
}
