package native_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/test/apibed"
)

// storeQuarry puts an RKE1 cluster with a snapshot into the bench.
func storeQuarry(b *apibed.Bed) {
	b.T.Helper()
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
	if _, err := b.State.Store.Commit(b.T.Context(), b.State.Clusters.Creating("fleet-default/quarry", c), b.State.RKEStates.Creating("fleet-default/quarry", kept)); err != nil {
		b.T.Fatal(err)
	}
}

func TestRKE1ClustersOfTheManagementAPI(t *testing.T) {
	b := apibed.New(t)
	storeQuarry(b)
	r := b.Get("/v3/clusters/c-quarr")
	actions, _ := r.Body["actions"].(map[string]any)
	for _, name := range []string{"generateKubeconfig", "exportYaml", "rotateCertificates", "rotateEncryptionKey", "backupEtcd", "restoreFromEtcdBackup"} {
		if actions[name] == nil {
			t.Errorf("no action %s: %v", name, actions)
		}
	}
	text := string(r.Raw)
	for _, want := range []string{`"certificatesExpiration":{"kube-ca":{"expirationDate":"2036-09-01T10:00:00Z"}}`, `"failedSpec":null`, `"plugin":"canal"`, `"CertsGenerated"`} {
		if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, " ", ""), "\n", ""), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if strings.Contains(text, "hush") || r.Body["appliedSpec"] == nil {
		t.Errorf("appliedSpec: %v", r.Body["appliedSpec"])
	}
	if got := b.Get("/v3/etcdbackups?clusterId=c-quarr").Data(); len(got) != 2 {
		t.Errorf("%d backups", len(got))
	}
	one := b.Get("/v3/etcdbackups/c-quarr:c-quarr-rl-aaaaa")
	if one.Status != http.StatusOK || one.Text("state") != "active" || one.Text("filename") != "one.zip" || one.Body["manual"] != false {
		t.Errorf("%d: %s", one.Status, one.Raw)
	}
	if two := b.Get("/v3/etcdbackups/c-quarr:c-quarr-ml-bbbbb"); two.Text("state") != "failed" || two.Text("transitioningMessage") != "no space" {
		t.Errorf("%s", two.Raw)
	}
	if none := b.Get("/v3/etcdbackups/c-quarr:c-quarr-ml-ccccc"); none.Status != http.StatusNotFound {
		t.Errorf("%d: %s", none.Status, none.Raw)
	}
}

func TestRKE1Actions(t *testing.T) {
	b := apibed.New(t)
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
		r := b.Request("POST", "/v3/clusters/c-quarr?action="+c.action, b.Admin, c.body)
		if r.Status != c.status || !strings.Contains(string(r.Raw), c.says) || strings.Contains(string(r.Raw), "hush") {
			t.Errorf("%s %s: %d: %s", c.action, c.body, r.Status, r.Raw)
		}
	}
}

// TestRemovingBackups: a snapshot that a user deletes is there, being removed, until the operation has ended.
func TestRemovingBackups(t *testing.T) {
	b := apibed.New(t)
	storeQuarry(b)
	const at = "/v3/etcdbackups/c-quarr:c-quarr-rl-aaaaa"
	if r := b.Get(at); !r.Has("links", "remove") {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Request("DELETE", at, b.User, ""); r.Status != http.StatusNotFound {
		t.Errorf("by somebody who does not see it: %d: %s", r.Status, r.Raw)
	}
	if r := b.Request("DELETE", "/v3/etcdbackups/c-quarr:c-quarr-ml-ccccc", b.Admin, ""); r.Status != http.StatusNotFound {
		t.Errorf("one that is not there: %d: %s", r.Status, r.Raw)
	}
	if r := b.Request("DELETE", at, b.Admin, ""); r.Status < 409 || r.Status > 422 || !strings.Contains(string(r.Raw), "quarry") {
		t.Errorf("while nothing can be done on the cluster: %d: %s", r.Status, r.Raw)
	}
	for kind, c := range map[operations.Kind]struct {
		id, state string
		status    int
	}{
		operations.KindRemoveSnapshot: {"c-quarr-rl-aaaaa", "removing", http.StatusOK},
		operations.KindSnapshot:       {"c-quarr-ml-ddddd", "activating", http.StatusUnprocessableEntity},
	} {
		o, err := desired.Params{Request: &desired.Request{Kind: kind, ID: c.id, Snapshot: c.id}}.With(operations.Operation{
			ID: "op-" + c.id, Subject: "fleet-default/quarry", Kind: kind, State: operations.Running, Created: apibed.Start,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.State.Operations.Create(t.Context(), o.Key(), o); err != nil {
			t.Fatal(err)
		}
		target := "/v3/etcdbackups/c-quarr:" + c.id
		if r := b.Get(target); r.Text("state") != c.state || r.Has("links", "remove") {
			t.Errorf("%s: %s", kind, r.Raw)
		}
		if r := b.Request("DELETE", target, b.Admin, ""); r.Status != c.status || c.status == http.StatusOK && r.Text("state") != c.state {
			t.Errorf("%s: %d: %s", kind, r.Status, r.Raw)
		}
	}
}

func TestAskingForOperations(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
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
		if r := b.Request("POST", "/v1-drover/clusters/fleet-default/"+c.cluster+"/operations", b.Admin, c.body); r.Status != c.status || !strings.Contains(string(r.Raw), c.says) {
			t.Errorf("%s: %d: %s", c.body, r.Status, r.Raw)
		}
	}
	if got := b.Get("/v1-drover/clusters/fleet-default/quarry/snapshots").Data(); len(got) != 2 {
		t.Errorf("%d snapshots", len(got))
	}
}
