package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
)

// storeQuarry puts an RKE1 cluster with a snapshot into the bench.
func storeQuarry(b *bench) {
	b.t.Helper()
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"},"privateRegistries":[{"url":"r.example","password":"hush"}]}`)
	c := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "quarry", UID: "uid-quarry", Generation: 1, Created: time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)}, ID: "c-quarr",
		Spec:   clusterspec.Spec{RancherKubernetesEngineConfig: &spec},
		Status: records.ClusterStatus{State: "active", Initialized: true, Ready: true, Connected: true, ObservedGeneration: 1},
	}
	kept := records.RKEState{
		Applied: c.Spec.RKE1Text(), Ends: map[string]time.Time{"kube-ca": time.Date(2036, 9, 1, 10, 0, 0, 0, time.UTC)},
		Snapshots: []records.RKESnapshot{
			{ID: "c-quarr-rl-aaaaa", Name: "one", Scheduled: true, At: time.Date(2026, 9, 2, 10, 0, 0, 0, time.UTC)},
			{ID: "c-quarr-ml-bbbbb", Name: "two", By: "user-admin", At: time.Date(2026, 9, 3, 10, 0, 0, 0, time.UTC), Failure: "no space"},
		},
	}
	if _, err := b.st.Store.Commit(b.t.Context(), b.st.Clusters.Creating("fleet-default/quarry", c), b.st.RKEStates.Creating("fleet-default/quarry", kept)); err != nil {
		b.t.Fatal(err)
	}
}

func TestRKE1ClustersOfTheManagementAPI(t *testing.T) {
	b := newBench(t)
	storeQuarry(b)
	r := b.get("/v3/clusters/c-quarr")
	actions, _ := r.body["actions"].(map[string]any)
	for _, name := range []string{"generateKubeconfig", "exportYaml", "rotateCertificates", "rotateEncryptionKey", "backupEtcd", "restoreFromEtcdBackup"} {
		if actions[name] == nil {
			t.Errorf("no action %s: %v", name, actions)
		}
	}
	text := string(r.raw)
	for _, want := range []string{`"certificatesExpiration":{"kube-ca":{"expirationDate":"2036-09-01T10:00:00Z"}}`, `"failedSpec":null`, `"plugin":"canal"`, `"CertsGenerated"`} {
		if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, " ", ""), "\n", ""), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if strings.Contains(text, "hush") || r.body["appliedSpec"] == nil {
		t.Errorf("appliedSpec: %v", r.body["appliedSpec"])
	}
	if got := b.get("/v3/etcdbackups?clusterId=c-quarr").data(); len(got) != 2 {
		t.Errorf("%d backups", len(got))
	}
	one := b.get("/v3/etcdbackups/c-quarr:c-quarr-rl-aaaaa")
	if one.status != http.StatusOK || one.text("state") != "active" || one.text("filename") != "one.zip" || one.body["manual"] != false {
		t.Errorf("%d: %s", one.status, one.raw)
	}
	if two := b.get("/v3/etcdbackups/c-quarr:c-quarr-ml-bbbbb"); two.text("state") != "failed" || two.text("transitioningMessage") != "no space" {
		t.Errorf("%s", two.raw)
	}
	if none := b.get("/v3/etcdbackups/c-quarr:c-quarr-ml-ccccc"); none.status != http.StatusNotFound {
		t.Errorf("%d: %s", none.status, none.raw)
	}
}

func TestRKE1Actions(t *testing.T) {
	b := newBench(t)
	storeQuarry(b)
	for _, c := range []struct {
		action, body string
		status       int
		says         string
	}{
		{"exportYaml", "", http.StatusOK, "rancherKubernetesEngineConfig"},
		{"rotateCertificates", `{"services":"dns"}`, http.StatusUnprocessableEntity, "is not a service with certificates"},
		{"rotateCertificates", `{"caCertificates":7}`, http.StatusUnprocessableEntity, "true or false is expected"},
		{"restoreFromEtcdBackup", `{}`, http.StatusUnprocessableEntity, "required"},
		{"restoreFromEtcdBackup", `{"etcdBackupId":"c-quarr:c-quarr-ml-bbbbb"}`, http.StatusUnprocessableEntity, "could be restored"},
		{"restoreFromEtcdBackup", `{"etcdBackupId":"c-quarr:c-quarr-rl-aaaaa","restoreRkeConfig":"all"}`, http.StatusUnprocessableEntity, "apply the document as it was"},
	} {
		r := b.request("POST", "/v3/clusters/c-quarr?action="+c.action, b.admin, c.body)
		if r.status != c.status || !strings.Contains(string(r.raw), c.says) || strings.Contains(string(r.raw), "hush") {
			t.Errorf("%s %s: %d: %s", c.action, c.body, r.status, r.raw)
		}
	}
}

// TestRemovingBackups: a snapshot that a user deletes is there, being removed, until the operation has ended.
func TestRemovingBackups(t *testing.T) {
	b := newBench(t)
	storeQuarry(b)
	const at = "/v3/etcdbackups/c-quarr:c-quarr-rl-aaaaa"
	if r := b.get(at); !r.has("links", "remove") {
		t.Errorf("%s", r.raw)
	}
	if r := b.request("DELETE", at, b.user, ""); r.status != http.StatusNotFound {
		t.Errorf("by somebody who does not see it: %d: %s", r.status, r.raw)
	}
	if r := b.request("DELETE", "/v3/etcdbackups/c-quarr:c-quarr-ml-ccccc", b.admin, ""); r.status != http.StatusNotFound {
		t.Errorf("one that is not there: %d: %s", r.status, r.raw)
	}
	if r := b.request("DELETE", at, b.admin, ""); r.status < 409 || r.status > 422 || !strings.Contains(string(r.raw), "quarry") {
		t.Errorf("while nothing can be done on the cluster: %d: %s", r.status, r.raw)
	}
	for kind, c := range map[operations.Kind]struct {
		id, state string
		status    int
	}{
		operations.KindRemoveSnapshot: {"c-quarr-rl-aaaaa", "removing", http.StatusOK},
		operations.KindSnapshot:       {"c-quarr-ml-ddddd", "activating", http.StatusUnprocessableEntity},
	} {
		o, err := desired.Params{Request: &desired.Request{Kind: kind, ID: c.id, Snapshot: c.id}}.With(operations.Operation{
			ID: "op-" + c.id, Subject: "fleet-default/quarry", Kind: kind, State: operations.Running, Created: start,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.st.Operations.Create(t.Context(), o.Key(), o); err != nil {
			t.Fatal(err)
		}
		target := "/v3/etcdbackups/c-quarr:" + c.id
		if r := b.get(target); r.text("state") != c.state || r.has("links", "remove") {
			t.Errorf("%s: %s", kind, r.raw)
		}
		if r := b.request("DELETE", target, b.admin, ""); r.status != c.status || c.status == http.StatusOK && r.text("state") != c.state {
			t.Errorf("%s: %d: %s", kind, r.status, r.raw)
		}
	}
}

func TestAskingForOperations(t *testing.T) {
	b := newBench(t)
	harbour(b)
	storeQuarry(b)
	for _, c := range []struct {
		cluster, body string
		status        int
		says          string
	}{
		{"harbour", `{"kind":"snapshot","ca":true}`, http.StatusUnprocessableEntity, "RKE1"},
		{"harbour", `{"kind":"snapshot"}`, http.StatusOK, "take a snapshot of the etcd of cluster harbour"},
		{"harbour", `{"kind":"snapshot"}`, http.StatusConflict, "drover operations wait"},
		{"quarry", `{"kind":"snapshot","color":"red"}`, http.StatusUnprocessableEntity, "color"},
		{"quarry", `{`, http.StatusUnprocessableEntity, "the body is not what an operation is asked for by"},
		{"nothing", `{"kind":"snapshot"}`, http.StatusNotFound, ""},
	} {
		if r := b.request("POST", "/v1-drover/clusters/fleet-default/"+c.cluster+"/operations", b.admin, c.body); r.status != c.status || !strings.Contains(string(r.raw), c.says) {
			t.Errorf("%s: %d: %s", c.body, r.status, r.raw)
		}
	}
	if got := b.get("/v1-drover/clusters/fleet-default/quarry/snapshots").data(); len(got) != 2 {
		t.Errorf("%d snapshots", len(got))
	}
}
