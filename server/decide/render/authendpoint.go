// The authorized cluster endpoint: the API server asks a webhook on its own host who a token is.

package render

import (
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers"
)

// authEndpoint says that the machine has the files of the endpoint.
func (r render) authEndpoint() bool {
	e := r.Cluster.Spec.LocalClusterAuthEndpoint
	return e != nil && e.Enabled && r.server()
}

func (r render) webhookFile() string { return path.Join(r.dataDir, "kube-api-authn-webhook.yaml") }

// webhookArgs are the arguments of the API server with those of a webhook's file. The API server remembers for ten
// seconds who a token was, even when it is told otherwise; what it remembers of the webhook's answers, two minutes
// by default, comes on top of that, so that a disabled token would count for longer. Who has said
// otherwise is heard.
func webhookArgs(user []string, file string) []string {
	const memory = "authentication-token-webhook-cache-ttl="
	args := append(slices.Clone(user), "authentication-token-webhook-config-file="+file)
	if slices.ContainsFunc(user, func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), memory) }) {
		return args
	}
	return append(args, memory+"0s")
}

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
