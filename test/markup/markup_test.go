package markup

import (
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

// TestFill: every text is filled, whatever it is in, what is kept stays, and what others share is not touched.
func TestFill(t *testing.T) {
	now := time.Now()
	shared := []records.Transition{{State: "Registering", At: now}, {State: "Active", At: now}}
	m := records.Machine{Object: records.Object{Namespace: "ns", Created: now}, Status: records.MachineStatus{History: shared}}
	Fill(&m, "x")
	if m.Name != "x" || m.Labels["x"] != "x" || m.Docker == nil || m.Docker.EngineID != "x" || m.Status.Cause != "x" || m.Status.LastFailure.Output != "x" || m.NodeTaints[0].Key != "x" || m.Status.Node.Addresses[0] != "x" {
		t.Errorf("%+v", m)
	}
	if !m.Created.Equal(now) || len(m.Status.History) != 2 || m.Status.History[1].State != "x" || shared[1].State != "Active" {
		t.Errorf("%+v, %v", m.Status.History, shared)
	}
}
