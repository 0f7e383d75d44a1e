package render_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

// The API server asks the webhook about each token anew, unless the document says otherwise.
func TestWhatTheAPIServerRemembersOfTheWebhook(t *testing.T) {
	const config, memory = "authentication-token-webhook-config-file=/var/lib/rancher/k3s/kube-api-authn-webhook.yaml", "authentication-token-webhook-cache-ttl="
	for user, want := range map[string][]string{
		"":                {config, memory + "0s"},
		"audit-log-x=y":   {"audit-log-x=y", config, memory + "0s"},
		memory + "30s":    {memory + "30s", config},
		"--" + memory:     {"--" + memory, config},
		"x=" + memory[1:]: {"x=" + memory[1:], config, memory + "0s"},
	} {
		text := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  localClusterAuthEndpoint: {enabled: true}\n  rkeConfig: {machineGlobalConfig: {kube-apiserver-arg: ["
		if user != "" {
			text += "\"" + user + "\""
		}
		p, err := render.Plan(input(t, text+"]}}\n", records.Roles{Etcd: true, ControlPlane: true}), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Files {
			if !strings.HasSuffix(f.Path, "50-rancher.yaml") {
				continue
			}
			content, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Args []string `json:"kube-apiserver-arg"`
			}
			if err := json.Unmarshal(content, &got); err != nil || !slices.Equal(got.Args, want) {
				t.Errorf("%q: %v %q, want %q", user, err, got.Args, want)
			}
		}
	}
}
