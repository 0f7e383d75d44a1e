package desired

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// upgrading is a cluster that has been up, with an operation under way for another version, on a Sunday at noon.
func upgrading(t *testing.T, window string) Snapshot {
	t.Helper()
	s := deployed(t, off(""))
	s.Record.Applied = s.Cluster.Spec.RKE1Text()
	spec := clusterspec.RancherKubernetesEngineConfig(off(`,"kubernetesVersion":"v1.30.5-rancher1-1"`))
	s.Cluster.Spec.RancherKubernetesEngineConfig = &spec
	s.Cluster.Annotations = map[string]string{clusterspec.MaintenanceWindow: window}
	s.Operations = []operations.Operation{{ID: "op-1", Kind: operations.KindProvision, Subject: "fleet-default/yard", State: operations.Running, Created: now, Started: now}}
	return s
}

// TestOutsideOfTheWindow: what restarts containers of a cluster that has been up waits, whatever of it was begun; nothing else does.
func TestOutsideOfTheWindow(t *testing.T) {
	t.Parallel()
	same := func(s *Snapshot) { s.Record.Applied = s.Cluster.Spec.RKE1Text() }
	begun := func(p Params) func(*testing.T, *Snapshot) {
		return func(t *testing.T, s *Snapshot) {
			var err error
			if s.Operations[0], err = p.With(s.Operations[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		window string
		change func(*testing.T, *Snapshot)
		want   Do
		cause  string
	}{
		"an upgrade":                     {"Mon 03:00-04:00 UTC", nil, Hold, "nothing restarts now: it waits for the maintenance window Mon 03:00-04:00 UTC, which opens Mon 2026-11-23 03:00 UTC"},
		"an upgrade that has begun":      {"Mon 03:00-04:00 UTC", begun(Params{Stamp: "x", Guard: "g"}), Hold, "opens Mon"},
		"an upgrade that has failed":     {"Mon 03:00-04:00 UTC", begun(Params{Stamp: "x", Tries: 3}), Hold, "opens Mon"},
		"a window that is not read":      {"Monday", nil, Hold, `the maintenance window "Monday" of cluster yard cannot be read`},
		"within":                         {"Sun 11:00-13:00 UTC", nil, Run, ""},
		"no window":                      {"", nil, Run, ""},
		"somebody hurries":               {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) { s.Operations[0].Hurry = &operations.Request{} }, Run, ""},
		"a rotation":                     {"Mon 03:00-04:00 UTC", begun(Params{Request: &Request{Kind: operations.KindRotateKeys}}), Run, ""},
		"a cluster that has not been up": {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) { s.Record.Done = "" }, Run, ""},
		"nothing deployed":               {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) { s.Record = nil }, Run, ""},
		"a worker more": {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) {
			same(s)
			s.Machines = append(s.Machines, machine("c", "10.0.0.3", records.Roles{Worker: true}))
		}, Run, ""},
		"a worker less": {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) { same(s); s.Machines[0].Deleting = now }, Run, ""},
		"a member of etcd more": {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) {
			same(s)
			s.Machines = append(s.Machines, machine("c", "10.0.0.3", records.Roles{Etcd: true}))
		}, Hold, "opens Mon"},
		"a control plane less": {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) {
			same(s)
			s.Machines = append(s.Machines, machine("c", "10.0.0.3", allRoles))
			s.Machines[1].Roles.ControlPlane = false
		}, Hold, "opens Mon"},
		"it is to stop": {"Mon 03:00-04:00 UTC", func(_ *testing.T, s *Snapshot) { s.Operations[0].State = operations.Stopping }, End, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := upgrading(t, c.window)
			if c.change != nil {
				c.change(t, &s)
			}
			d := decided(t, s)
			if d.Do != c.want || d.Do == Hold && !strings.Contains(d.Wait.Cause, c.cause) {
				t.Fatalf("%+v, want %v", d, c.want)
			}
			if d.Do != Hold {
				return
			}
			if d.Wait.NextStep != "drover operations hurry op-1 does it now" || d.Operation.ID != "op-1" {
				t.Errorf("%+v", d.Wait)
			}
			// Once that is written it is looked at when the window opens.
			s.Operations[0] = s.Operations[0].WithWait(d.Wait, now)
			want := time.Duration(0)
			if !d.Wait.Until.IsZero() {
				want = 15 * time.Hour
			}
			if d = decided(t, s); d.Do != Nothing || d.Again != want {
				t.Errorf("then %+v", d)
			}
			s.Now = time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
			if d = decided(t, s); c.window != "Monday" && d.Do != Run {
				t.Errorf("when it opens: %+v", d)
			}
		})
	}
}
