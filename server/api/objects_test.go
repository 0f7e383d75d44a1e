package api

import (
	"net/http"
	"strings"
	"testing"
)

// TestObjects: a Secret comes in beside its cluster, is listed without what is in it, and stays while it is in use.
func TestObjects(t *testing.T) {
	b := newBench(t)
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
	r := b.want(http.StatusOK, "POST", "/v1-drover/apply", stream)
	results, _ := r.body["results"].([]any)
	if len(results) != 2 || !strings.Contains(string(r.raw), `{"kind":"Secret","namespace":"fleet-default","name":"mirror","action":"created"}`) {
		t.Errorf("apply: %s", r.raw)
	}
	list := b.want(http.StatusOK, "GET", "/v1-drover/objects", "")
	if got := string(list.raw); !strings.Contains(got, `{"kind":"Secret","namespace":"fleet-default","name":"mirror","type":"kubernetes.io/basic-auth"}`) {
		t.Errorf("list: %s", got)
	}
	const one = "/v1-drover/objects/Secret/fleet-default/mirror"
	if r := b.want(http.StatusConflict, "DELETE", one, ""); !strings.Contains(r.text("message"), "cluster fleet-default/quay refers to it") {
		t.Errorf("removal: %s", r.raw)
	}
	b.want(http.StatusOK, "POST", "/v1-drover/apply", strings.Replace(stream[strings.Index(stream, "---"):], "authConfigSecretName: mirror", "", 1))
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		b.want(status, "DELETE", one, "")
	}
	// A refusal, too, repeats nothing.
	bad := b.want(http.StatusUnprocessableEntity, "POST", "/v1-drover/apply", strings.Replace(stream, "username: mark-value", "user: [mark-value]", 1))
	for _, answer := range []result{r, list, bad} {
		if strings.Contains(string(answer.raw), "mark-value") {
			t.Errorf("a value is shown: %s", answer.raw)
		}
	}
}
