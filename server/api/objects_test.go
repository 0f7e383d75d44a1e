package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestObjects: a Secret comes in beside its cluster, is listed without what is in it, and stays while it is in use.
func TestObjects(t *testing.T) {
	b := apibed.New(t)
	const stream = `
apiVersion: v1
kind: Secret
metadata: {name: mirror}
type: kubernetes.io/basic-auth
stringData: {username: mark-value, password: mark-value}
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: quay}
spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {registries: {configs: {mirror.lan: {authConfigSecretName: mirror}}}}}
`
	r := b.Want(http.StatusOK, "POST", "/v1-drover/apply", stream)
	results, _ := r.Body["results"].([]any)
	if len(results) != 2 || !strings.Contains(string(r.Raw), `{"kind":"Secret","namespace":"fleet-default","name":"mirror","action":"created"}`) {
		t.Errorf("apply: %s", r.Raw)
	}
	list := b.Want(http.StatusOK, "GET", "/v1-drover/objects", "")
	if got := string(list.Raw); !strings.Contains(got, `{"kind":"Secret","namespace":"fleet-default","name":"mirror","type":"kubernetes.io/basic-auth"}`) {
		t.Errorf("list: %s", got)
	}
	const one = "/v1-drover/objects/Secret/fleet-default/mirror"
	if r := b.Want(http.StatusConflict, "DELETE", one, ""); !strings.Contains(r.Text("message"), "cluster fleet-default/quay refers to it") {
		t.Errorf("removal: %s", r.Raw)
	}
	b.Want(http.StatusOK, "POST", "/v1-drover/apply", strings.Replace(stream[strings.Index(stream, "---"):], "authConfigSecretName: mirror", "", 1))
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		b.Want(status, "DELETE", one, "")
	}
	// A refusal, too, repeats nothing.
	bad := b.Want(http.StatusUnprocessableEntity, "POST", "/v1-drover/apply", strings.Replace(stream, "username: mark-value", "user: [mark-value]", 1))
	for _, answer := range []apibed.Result{r, list, bad} {
		if strings.Contains(string(answer.Raw), "mark-value") {
			t.Errorf("a value is shown: %s", answer.Raw)
		}
	}
}
