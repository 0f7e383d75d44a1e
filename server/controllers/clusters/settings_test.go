package clusters

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// TestAChangedSettingReachesTheClusters: the settings that plans are made of wake the controller, which has nothing to do
// at that time.
func TestAChangedSettingReachesTheClusters(t *testing.T) {
	for name, want := range map[string]string{
		"system-default-registry":      "mirror.lan/rancher/system-agent-installer-k3s:",
		"system-agent-installer-image": "mirror.lank3s:",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			value := func(name string) func() string {
				return func() string { d, _ := b.state.Settings.Get(name); return d.Value.Value }
			}
			b.control.DefaultRegistry, b.control.InstallerImage = value("system-default-registry"), value("system-agent-installer-image")
			b.run()
			b.apply(harbour)
			b.register()
			b.finish()
			b.set(func() {
				b.here = true
				b.api = observed.API{Reachable: true, Version: "v1.34.4+k3s1", Nodes: map[string]records.NodeRef{
					"uid-1": {Name: "pier-1", ProviderID: "k3s://pier-1", KubeletVersion: "v1.34.4+k3s1", Ready: true},
				}}
			})
			b.wait("active", b.inState(records.Active))
			if !b.eventually(func() bool { return b.cluster().Status.Ready && b.workers.Status()[0].Queued == 0 }) {
				t.Fatal("the cluster is not ready")
			}
			if _, err := b.state.Settings.Create(t.Context(), name, records.Setting{Name: name, Value: "mirror.lan"}); err != nil {
				t.Fatal(err)
			}
			b.wait("a plan with the setting", func(records.Machine) bool {
				d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
				p, err := plans.Parse(d.Value.Data[plans.KeyPlan])
				return err == nil && strings.HasPrefix(p.Instructions[0].Image, want)
			})
		})
	}
}
