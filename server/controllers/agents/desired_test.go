package agents

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/operations"
)

func TestDecide(t *testing.T) {
	update := func(subject string, state operations.State, at int) operations.Operation {
		return operations.Operation{ID: "op-" + subject, Subject: "fleet-default/" + subject, Kind: operations.KindUpdateAgents, State: state, Created: time.Unix(int64(at), 0)}
	}
	one := []string{"v0.3.0"}
	for _, c := range []struct {
		name string
		s    situation
		now  bool
		why  string
	}{
		{"nothing is behind", situation{To: "v0.3.0", Servers: one}, false, ""},
		{"some are", situation{To: "v0.3.0", Servers: one, Behind: true}, true, ""},
		{"another server is of another release", situation{To: "v0.3.0", Servers: []string{"v0.3.0", "v0.2.0"}, Behind: true}, false, "a server of v0.2.0 runs beside"},
		{"the window is shut", situation{To: "v0.3.0", Servers: one, Behind: true, Held: "the maintenance window Sat is not open"}, false, "window Sat"},
		{"another cluster is under way", situation{To: "v0.3.0", Servers: one, Behind: true, Updates: []operations.Operation{update("harbour", operations.Running, 1)}}, false, "op-harbour updates those of fleet-default/harbour first"},
		{"another cluster has failed", situation{To: "v0.3.0", Servers: one, Behind: true, Updates: latest([]operations.Operation{update("harbour", operations.Failed, 1)})}, false, "has ended as failed"},
		{"it was tried again since", situation{To: "v0.3.0", Servers: one, Behind: true, Updates: latest([]operations.Operation{
			update("harbour", operations.Failed, 1), update("harbour", operations.Succeeded, 2), update("pier", operations.Succeeded, 1),
		})}, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			why, now := decide(c.s)
			if now != c.now || c.why == "" && why != "" || !strings.Contains(why, c.why) {
				t.Errorf("it begins: %v, and says %q; want %v and %q", now, why, c.now, c.why)
			}
		})
	}
}
