package selfupdate

import (
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	const oldSum, newSum = "old", "new"
	intent := Intent{Old: oldSum, New: newSum, Program: "/p", Within: 120, Boots: 1, Connect: true}
	up := unit{active: "active", sub: "running", pid: 7}
	starting := unit{active: "activating", sub: "start", pid: 7}
	down := unit{active: "activating", sub: "auto-restart", ended: "exit code 3"}
	well := Health{PID: 7, Remote: true, Connected: true}
	for _, tc := range []struct {
		name   string
		intent func(*Intent)
		facts  facts
		want   action
		reason string
	}{
		{"nothing happened yet", nil, facts{installed: oldSum, staged: newSum, unit: up}, swap, ""},
		{"a part of the new one, written in place", func(in *Intent) { in.InPlace = true }, facts{installed: "part", staged: newSum}, swap, ""},
		{"a part of the new one, which is gone", func(in *Intent) { in.InPlace = true }, facts{installed: "part"}, goBack, "not where it was put"},
		{"all of the new one, written in place", func(in *Intent) { in.InPlace = true }, facts{installed: newSum, staged: newSum, unit: up, current: true, health: well}, end, ""},
		{"the new program is gone", nil, facts{installed: oldSum, unit: up}, goBack, "not where it was put"},
		{"the old one still runs", nil, facts{installed: newSum, unit: up}, restart, ""},
		{"nothing runs and nobody started it", nil, facts{installed: newSum, unit: down}, restart, ""},
		{"restarted already", nil, facts{installed: newSum, unit: down, restarted: true}, wait, ""},
		{"the new one starts", nil, facts{installed: newSum, unit: starting, current: true}, wait, ""},
		{"ready but silent", nil, facts{installed: newSum, unit: up, current: true}, wait, ""},
		{"ready but not connected", nil, facts{installed: newSum, unit: up, current: true, health: Health{PID: 7, Remote: true}}, wait, ""},
		{"ready, and the old one was not connected either", func(in *Intent) { in.Connect = false }, facts{installed: newSum, unit: up, current: true, health: Health{PID: 7, Remote: true}}, end, ""},
		{"ready without a server", nil, facts{installed: newSum, unit: up, current: true, health: Health{PID: 7}}, end, ""},
		{"well", nil, facts{installed: newSum, unit: up, current: true, health: well}, end, ""},
		{"well just in time", nil, facts{installed: newSum, unit: up, current: true, health: well, late: true}, end, ""},
		{"the health of another life", nil, facts{installed: newSum, unit: up, current: true, health: Health{PID: 6, Connected: true}}, wait, ""},
		{"healthy before it is ready", nil, facts{installed: newSum, unit: starting, current: true, health: well}, wait, ""},
		{"it crashes", nil, facts{installed: newSum, unit: unit{active: "activating", restarts: maxRestarts, ended: "exit code 3"}, restarted: true}, goBack, "4 times in a row: exit code 3"},
		{"it crashed and is started once more", nil, facts{installed: newSum, unit: unit{active: "activating", restarts: maxRestarts, pid: 9}, restarted: true}, wait, ""},
		{"it crashes slowly", nil, facts{installed: newSum, unit: down, restarted: true, late: true}, goBack, "after 120 s it does not run: exit code 3"},
		{"it hangs", nil, facts{installed: newSum, unit: starting, current: true, late: true}, goBack, "ready"},
		{"it does not connect", nil, facts{installed: newSum, unit: up, current: true, health: Health{PID: 7, Remote: true}, late: true}, goBack, "reached its server"},
		{"it says nothing", nil, facts{installed: newSum, unit: up, current: true, late: true}, goBack, "healthy"},
		{"it takes the host down", func(in *Intent) { in.Boots = maxBoots + 1 }, facts{installed: newSum, unit: up, current: true}, goBack, "started 4 times"},
		{"somebody else replaced it", nil, facts{installed: "another", unit: up, current: true, health: well}, end, "replaced by something else"},
		{"goes back", func(in *Intent) { in.Back = "why" }, facts{installed: newSum, unit: up, current: true, health: well}, restore, ""},
		{"goes back from half a file", func(in *Intent) { in.Back = "why" }, facts{installed: "", unit: down}, restore, ""},
		{"the new one still runs", func(in *Intent) { in.Back = "why" }, facts{installed: oldSum, unit: starting}, restart, ""},
		{"the old one starts", func(in *Intent) { in.Back = "why" }, facts{installed: oldSum, unit: starting, current: true, restarted: true}, wait, ""},
		{"it is back", func(in *Intent) { in.Back = "why" }, facts{installed: oldSum, unit: up, current: true}, end, "why"},
		{"the old one was never left", func(in *Intent) { in.Back = "why" }, facts{installed: oldSum, unit: up, current: true, late: true}, end, "why"},
		{"the old one does not start either", func(in *Intent) { in.Back = "why" }, facts{installed: oldSum, unit: down, restarted: true, late: true}, end, "either"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := intent
			if tc.intent != nil {
				tc.intent(&in)
			}
			got := decide(in, tc.facts)
			if got.action != tc.want || !strings.Contains(got.reason, tc.reason) || (tc.reason == "") != (got.reason == "") {
				t.Errorf("%+v, want %q with the reason %q", got, tc.want, tc.reason)
			}
		})
	}
}
