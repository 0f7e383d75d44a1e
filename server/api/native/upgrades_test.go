package native_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/upgrades"
	"github.com/drover-project/drover/test/apibed"
)

// TestUpgrade: what is in the way is refused with everything that was found, a dry run shows it and what would change, and
// nothing changes by either.
func TestUpgrade(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-00000001", func(c *records.Cluster) {
		c.Spec.KubernetesVersion, c.Status.Initialized, c.Status.Version = "v1.34.3+k3s1", true, "v1.34.3+k3s1"
	})
	path := "/v1-drover/clusters/fleet-default/harbour/upgrade"
	r := b.Want(http.StatusUnprocessableEntity, "POST", path, `{"version": "v1.33.1+k3s1"}`)
	var refused struct {
		Findings []upgrades.Finding `json:"findings"`
	}
	if err := json.Unmarshal(r.Raw, &refused); err != nil {
		t.Fatal(err)
	}
	if len(refused.Findings) < 2 || refused.Findings[0].Level != upgrades.Refused || !strings.Contains(r.Text("message"), "cannot go back from v1.34.3+k3s1") {
		t.Errorf("%s", r.Raw)
	}
	for _, bad := range []string{`{"version": "v1.34.4+k3s1", "accept": ["everything"]}`, `{"version": "v1.34.4+k3s1", "by": "x"}`, `[]`} {
		b.Want(http.StatusUnprocessableEntity, "POST", path, bad)
	}
	r = b.Want(http.StatusOK, "POST", path+"?dryRun=true", `{"version": "v1.34.4+k3s1"}`)
	var answer apitypes.Upgrade
	if err := json.Unmarshal(r.Raw, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.From != "v1.34.3+k3s1" || answer.Result == nil || answer.Result.Action != "configured" || len(answer.Findings) == 0 {
		t.Errorf("%s", r.Raw)
	}
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); d.Value.Spec.KubernetesVersion != "v1.34.3+k3s1" {
		t.Error("a dry run has changed the cluster")
	}
	b.Want(http.StatusOK, "POST", path, `{"version": "v1.34.4+k3s1"}`)
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); d.Value.Spec.KubernetesVersion != "v1.34.4+k3s1" {
		t.Error("the cluster has not changed")
	}
}

// TestWindow is set, shown with when it opens, refused with a sentence, and taken off.
func TestWindow(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-00000001", nil)
	path := "/v1-drover/clusters/fleet-default/harbour/window"
	if r := b.Get(path); r.Body["open"] != true || r.Body["window"] != "" {
		t.Errorf("without one: %s", r.Raw)
	}
	r := b.Want(http.StatusOK, "POST", path+"/set", `{"window": "Sat  22:00-04:00 Europe/Berlin"}`)
	var w apitypes.Window
	if err := json.Unmarshal(r.Raw, &w); err != nil {
		t.Fatal(err)
	}
	if w.Window != "Sat 22:00-04:00 Europe/Berlin" || w.Open || !w.Change.Equal(time.Date(2026, 9, 5, 20, 0, 0, 0, time.UTC)) {
		t.Errorf("it is %+v", w)
	}
	if r := b.Want(http.StatusUnprocessableEntity, "POST", path+"/set", `{"window": "Sat 22:00-04:00 Berlin"}`); !strings.Contains(r.Text("message"), `"Berlin" is not a zone`) {
		t.Errorf("%s", r.Raw)
	}
	b.Want(http.StatusOK, "POST", path+"/set", `{"window": ""}`)
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); len(d.Value.Annotations) > 0 {
		t.Errorf("the annotations are %v", d.Value.Annotations)
	}
}

// TestHurry is taken once, and is in the operation's log.
func TestHurry(t *testing.T) {
	b := apibed.New(t)
	b.AddOperation("op-1", func(o *operations.Operation) { o.State = operations.Running })
	r := b.Want(http.StatusOK, "POST", "/v1-drover/operations/op-1/hurry", "")
	if !strings.Contains(string(r.Raw), "not to wait for the maintenance window was asked for by") {
		t.Errorf("%s", r.Raw)
	}
	b.Want(http.StatusConflict, "POST", "/v1-drover/operations/op-1/hurry", "")
}

// TestAWindowOfRKE1 is set as that of others is; where there is no Kubernetes there is none. The operation of its upgrade begins by itself, so
// that it is the operation that is hurried.
func TestAWindowOfRKE1(t *testing.T) {
	b := apibed.New(t)
	text := clusterspec.RancherKubernetesEngineConfig(`{"kubernetesVersion":"v1.30.5-rancher1-1"}`)
	b.AddCluster("yard", "c-yard1", func(c *records.Cluster) { c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &text} })
	b.AddCluster("dock", "c-dock1", func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
	})
	if r := b.Want(http.StatusOK, "POST", "/v1-drover/clusters/fleet-default/yard/window/set", `{"window": "Sat 22:00-04:00 UTC"}`); r.Text("window") != "Sat 22:00-04:00 UTC" {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Want(http.StatusUnprocessableEntity, "POST", "/v1-drover/clusters/fleet-default/dock/window/set", `{"window": "Sat 22:00-04:00 UTC"}`); !strings.Contains(r.Text("message"), "cluster dock has no Kubernetes") {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Want(http.StatusUnprocessableEntity, "POST", "/v1-drover/clusters/fleet-default/yard/upgrade?now=true", `{"version": "v1.31.2-rancher1-1"}`); !strings.Contains(r.Text("message"), "drover operations hurry ID has it not wait") {
		t.Errorf("%s", r.Raw)
	}
}
