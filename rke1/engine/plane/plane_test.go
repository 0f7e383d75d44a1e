package plane

import (
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/state"
)

// Later work starts containers again and makes none: what else cluster.yml asks for is up's.
func TestRestartsOnly(t *testing.T) {
	h := &run.Host{Desired: desired.Host{Address: "a", Containers: []desired.Container{
		{Process: nodeconfig.Process{Name: desired.Kubelet, Image: "new"}, Plane: config.RoleWorker},
		{Process: nodeconfig.Process{Name: desired.KubeProxy, Image: "old"}, Plane: config.RoleWorker},
	}}}
	labels := func(name string) map[string]string { return map[string]string{nodeconfig.Label: name} }
	h.Found.Images = map[string]nodeconfig.Base{"old": {}, "new": {}}
	h.Found.Containers = []nodeconfig.Container{
		{Name: desired.Kubelet, Image: "old", Running: true, Labels: labels(desired.Kubelet)}, {Name: desired.KubeProxy, Image: "old", Labels: labels(desired.KubeProxy)},
	}
	r := &run.Run{State: &state.State{}}
	if all := Differences(r, h, config.RoleWorker); len(all) != 2 {
		t.Fatalf("differences: %v", all)
	}
	r.RestartsOnly = true
	if all := Differences(r, h, config.RoleWorker); len(all) != 1 || all[0].Container != desired.KubeProxy || all[0].Kind != nodeconfig.Start {
		t.Errorf("differences that restart: %v", all)
	}
}
