package desired

import (
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// TestGuard: an upgrade of what runs begins with a snapshot on the hosts that have been and stay, and nothing else does.
func TestGuard(t *testing.T) {
	t.Parallel()
	at := func(version string, addresses ...string) *config.Cluster {
		c := &config.Cluster{KubernetesVersion: version}
		for _, a := range addresses {
			c.Nodes = append(c.Nodes, config.Node{Address: a})
		}
		return c
	}
	run := func() Decision {
		return Decision{
			Do: Run, Operation: operations.Operation{Kind: operations.KindProvision}, Config: at("v2", "10.0.0.2", "10.0.0.3"),
			Before: &state.State{Current: state.Part{Config: at("v1", "10.0.0.1", "10.0.0.2")}},
		}
	}
	for name, c := range map[string]struct {
		change func(*Snapshot, *Decision)
		want   bool
	}{
		"an upgrade":       {func(*Snapshot, *Decision) {}, true},
		"the same version": {func(_ *Snapshot, d *Decision) { d.Config.KubernetesVersion = "v1" }, false},
		"nothing runs":     {func(_ *Snapshot, d *Decision) { d.Before.Current.Config = nil }, false},
		"a new cluster":    {func(_ *Snapshot, d *Decision) { d.Before = nil }, false},
		"a request":        {func(_ *Snapshot, d *Decision) { d.Request = &Request{Kind: operations.KindRotateKeys} }, false},
		"a removal":        {func(_ *Snapshot, d *Decision) { d.Operation.Kind = operations.KindUninstall }, false},
		"not to be run":    {func(_ *Snapshot, d *Decision) { d.Do = End }, false},
		"without, as asked": {func(s *Snapshot, _ *Decision) {
			s.Cluster.Annotations = map[string]string{clusterspec.NoSnapshot: "true"}
		}, false},
		"another annotation": {func(s *Snapshot, _ *Decision) {
			s.Cluster.Annotations = map[string]string{clusterspec.NoSnapshot: "no"}
		}, true},
		"a downgrade is asked": {func(_ *Snapshot, d *Decision) { d.Config.KubernetesVersion = "v0" }, true},
	} {
		s, d := Snapshot{}, run()
		c.change(&s, &d)
		if got := s.Guarded(d); got != c.want {
			t.Errorf("%s: a snapshot %v, want %v", name, got, c.want)
		}
	}
	d := run()
	if c := d.Deployed(); c.KubernetesVersion != "v1" || len(c.Nodes) != 1 || c.Nodes[0].Address != "10.0.0.2" {
		t.Errorf("deployed is %+v", c)
	}
	if len(d.Before.Current.Config.Nodes) != 2 {
		t.Error("the state was changed")
	}
	s := Snapshot{Record: &records.RKEState{Snapshots: []records.RKESnapshot{{Name: "good"}, {Name: "bad", Failure: "no room"}}}}
	if !s.Taken("good") || s.Taken("bad") || s.Taken("other") || s.Taken("") || (Snapshot{}).Taken("good") {
		t.Error("what was taken is not known")
	}
}
