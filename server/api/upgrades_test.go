package api

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
)

// TestUpgrade: what is in the way is refused with everything that was found, a dry run shows it and what would change, and
// nothing changes by either.
func TestUpgrade(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-00000001", func(c *records.Cluster) {
		c.Spec.KubernetesVersion, c.Status.Initialized, c.Status.Version = "v1.34.3+k3s1", true, "v1.34.3+k3s1"
	})
	path := "/v1-drover/clusters/fleet-default/harbour/upgrade"
	r := b.want(http.StatusUnprocessableEntity, "POST", path, `{"version": "v1.33.1+k3s1"}`)
	var refused struct {
		Findings []upgrades.Finding `json:"findings"`
	}
	if err := json.Unmarshal(r.raw, &refused); err != nil {
		t.Fatal(err)
	}
	if len(refused.Findings) < 2 || refused.Findings[0].Level != upgrades.Refused || !strings.Contains(r.text("message"), "cannot go back from v1.34.3+k3s1") {
		t.Errorf("%s", r.raw)
	}
	for _, bad := range []string{`{"version": "v1.34.4+k3s1", "accept": ["everything"]}`, `{"version": "v1.34.4+k3s1", "by": "x"}`, `[]`} {
		b.want(http.StatusUnprocessableEntity, "POST", path, bad)
	}
	r = b.want(http.StatusOK, "POST", path+"?dryRun=true", `{"version": "v1.34.4+k3s1"}`)
	var answer apitypes.Upgrade
	if err := json.Unmarshal(r.raw, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.From != "v1.34.3+k3s1" || answer.Result == nil || answer.Result.Action != "configured" || len(answer.Findings) == 0 {
		t.Errorf("%s", r.raw)
	}
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); d.Value.Spec.KubernetesVersion != "v1.34.3+k3s1" {
		t.Error("a dry run has changed the cluster")
	}
	b.want(http.StatusOK, "POST", path, `{"version": "v1.34.4+k3s1"}`)
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); d.Value.Spec.KubernetesVersion != "v1.34.4+k3s1" {
		t.Error("the cluster has not changed")
	}
}

// TestWindow is set, shown with when it opens, refused with a sentence, and taken off.
func TestWindow(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-00000001", nil)
	path := "/v1-drover/clusters/fleet-default/harbour/window"
	if r := b.get(path); r.body["open"] != true || r.body["window"] != "" {
		t.Errorf("without one: %s", r.raw)
	}
	r := b.want(http.StatusOK, "POST", path+"/set", `{"window": "Sat  22:00-04:00 Europe/Berlin"}`)
	var w apitypes.Window
	if err := json.Unmarshal(r.raw, &w); err != nil {
		t.Fatal(err)
	}
	if w.Window != "Sat 22:00-04:00 Europe/Berlin" || w.Open || !w.Change.Equal(time.Date(2026, 9, 5, 20, 0, 0, 0, time.UTC)) {
		t.Errorf("it is %+v", w)
	}
	if r := b.want(http.StatusUnprocessableEntity, "POST", path+"/set", `{"window": "Sat 22:00-04:00 Berlin"}`); !strings.Contains(r.text("message"), `"Berlin" is not a zone`) {
		t.Errorf("%s", r.raw)
	}
	b.want(http.StatusOK, "POST", path+"/set", `{"window": ""}`)
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); len(d.Value.Annotations) > 0 {
		t.Errorf("the annotations are %v", d.Value.Annotations)
	}
}

// TestHurry is taken once, and is in the operation's log.
func TestHurry(t *testing.T) {
	b := newBench(t)
	b.addOperation("op-1", func(o *operations.Operation) { o.State = operations.Running })
	r := b.want(http.StatusOK, "POST", "/v1-drover/operations/op-1/hurry", "")
	if !strings.Contains(string(r.raw), "not to wait for the maintenance window was asked for by") {
		t.Errorf("%s", r.raw)
	}
	b.want(http.StatusConflict, "POST", "/v1-drover/operations/op-1/hurry", "")
}

// TestAWindowOfRKE1 is set as that of others is; where there is no Kubernetes there is none. The operation of its upgrade begins by itself, so
// that it is the operation that is hurried.
func TestAWindowOfRKE1(t *testing.T) {
	b := newBench(t)
	text := clusterspec.RancherKubernetesEngineConfig(`{"kubernetesVersion":"v1.30.5-rancher1-1"}`)
	b.addCluster("yard", "c-yard1", func(c *records.Cluster) { c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &text} })
	b.addCluster("dock", "c-dock1", func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
	})
	if r := b.want(http.StatusOK, "POST", "/v1-drover/clusters/fleet-default/yard/window/set", `{"window": "Sat 22:00-04:00 UTC"}`); r.text("window") != "Sat 22:00-04:00 UTC" {
		t.Errorf("%s", r.raw)
	}
	if r := b.want(http.StatusUnprocessableEntity, "POST", "/v1-drover/clusters/fleet-default/dock/window/set", `{"window": "Sat 22:00-04:00 UTC"}`); !strings.Contains(r.text("message"), "cluster dock has no Kubernetes") {
		t.Errorf("%s", r.raw)
	}
	if r := b.want(http.StatusUnprocessableEntity, "POST", "/v1-drover/clusters/fleet-default/yard/upgrade?now=true", `{"version": "v1.31.2-rancher1-1"}`); !strings.Contains(r.text("message"), "drover operations hurry ID has it not wait") {
		t.Errorf("%s", r.raw)
	}
}
