package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// reported puts a host report into the plan Secret.
func reported(r plans.HostReport) stage {
	return func(t *testing.T, s *pass.Snapshot) {
		t.Helper()
		r.Plan = plans.Checksum(s.Machines[0].Plan())
		value, err := plans.EncodeHostReport(r)
		if err != nil {
			t.Fatal(err)
		}
		s.Machines[0].Secret.Data[plans.KeyHostReport] = value
	}
}

func TestTheCauseHasWhatTheHostReports(t *testing.T) {
	looping := plans.UnitReport{Name: "k3s", State: "activating (auto-restart)", Restarts: 7, Lines: []string{"unknown flag: --x"}}
	for name, tc := range map[string]struct {
		stages []stage
		state  records.MachineState
		cause  []string
		next   string
	}{
		"a unit that never ends its start": {
			[]stage{delivered(plans.StateInProgress), reported(plans.HostReport{
				Instruction: "install", Since: noon.Add(-time.Minute), Output: "[INFO]  systemd: Starting k3s",
				Units: []plans.UnitReport{{Name: "k3s", State: "activating (start)", Since: noon.Add(-time.Minute), Lines: []string{"Waiting for CRI startup"}}},
			})},
			records.ApplyingPlan,
			[]string{`instruction "install" runs since 2026-11-21T11:59:00Z and printed last: "[INFO]  systemd: Starting k3s"`, "k3s.service is activating (start) since 2026-11-21T11:59:00Z: Waiting for CRI startup"},
			"journalctl -u k3s; correct the cluster",
		},
		"a unit that crashes": {
			[]stage{delivered(plans.StateSucceeded), outcome(healthy), sickened("kubelet"), reported(plans.HostReport{Units: []plans.UnitReport{looping}})},
			records.WaitingForProbes,
			[]string{"not healthy on custom-0a1b2c3d4e5f: kubelet", "k3s.service is activating (auto-restart), was restarted 7 times: unknown flag: --x"},
			"journalctl -u k3s",
		},
		"a static pod that crashes": {
			[]stage{delivered(plans.StateSucceeded), outcome(healthy), sickened("kube-apiserver"), reported(plans.HostReport{
				Units: []plans.UnitReport{{Name: "k3s", State: "activating (start)", Lines: []string{"Waiting for API server"}}},
				Pods:  []plans.PodReport{{Name: "kube-apiserver", Restarts: 3, Lines: []string{"Error: unknown flag: --no-such-flag"}}},
			})},
			records.WaitingForProbes,
			[]string{"not healthy on custom-0a1b2c3d4e5f: kube-apiserver", "the static pod kube-apiserver was started again 3 times: Error: unknown flag: --no-such-flag; k3s.service is activating"},
			"drover machines logs custom-0a1b2c3d4e5f --pod kube-apiserver",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, minimal, nil)
			for _, stage := range tc.stages {
				stage(t, &s)
			}
			got := Decide(s).statusOfMachine(t)
			if got.State != tc.state || !strings.Contains(got.NextStep, tc.next) {
				t.Errorf("it is %+v", got.Condition)
			}
			for _, want := range tc.cause {
				if !strings.Contains(got.Cause, want) {
					t.Errorf("the cause is\n%s\nwant in it\n%s", got.Cause, want)
				}
			}
		})
	}
}

// TestAClockThatIsOff: the host says when it began, which was before it was asked, or is still to come.
func TestAClockThatIsOff(t *testing.T) {
	for name, tc := range map[string]struct {
		off  time.Duration
		want string
	}{
		"an hour ahead":  {time.Hour, "clock of the host is at least 1h0m0s ahead"},
		"an hour behind": {-time.Hour, "clock of the host is at least 1h0m0s behind"},
		"a minute":       {time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, minimal, nil)
			delivered(plans.StateInProgress)(t, &s)
			s.Machines[0].Secret.Annotations = map[string]string{pass.AnnotationPlanUpdated: noon.Format(time.RFC3339)}
			reported(plans.HostReport{Instruction: "install", Since: noon.Add(tc.off)})(t, &s)
			cause := Decide(s).statusOfMachine(t).Cause
			if tc.want == "" && strings.Contains(cause, "clock") || !strings.Contains(cause, tc.want) {
				t.Errorf("the cause is %q", cause)
			}
		})
	}
}
