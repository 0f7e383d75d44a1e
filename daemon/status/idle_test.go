package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIdle(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		is   Status
		want string
	}{
		{"an instruction runs", Status{Doing: &Work{Step: "instruction install"}}, ""},
		{"a full disk between two instructions", Status{Started: noon, Doing: &Work{Step: "instruction install"},
			Waiting: []Wait{{Source: "remote", For: "/var/lib/x", Cause: "no space left on device", Since: noon, Next: "tried again until it can be written"}}},
			`remote waits for /var/lib/x since 2026-11-21T12:00:00Z: no space left on device; tried again until it can be written
the agent, which started at 2026-11-21T12:00:00Z, knows of no plan that was applied before; more on the host: journalctl -u rancher-system-agent`},
		{"nothing is known", Status{Started: noon}, `no instruction runs: no plan is being applied
the agent, which started at 2026-11-21T12:00:00Z, knows of no plan that was applied before; more on the host: journalctl -u rancher-system-agent`},
		{"before this start", Status{Started: noon, Last: &Applied{Source: "remote", Plan: "7b1f90c2aaaabbbb", Ended: noon, Succeeded: true, BeforeStart: true}},
			`no instruction runs: no plan is being applied
last applied: plan 7b1f90c2aaaa of remote succeeded at 2026-11-21T12:00:00Z, before this start of the agent
more of it on the host: journalctl -u rancher-system-agent DROVER_PLAN=7b1f90c2aaaa`},
		{"a plan that waits", Status{
			Doing:   &Work{Source: "remote", Plan: "ab", Began: noon, Step: "files", Since: noon},
			Waiting: []Wait{{Source: "remote", For: "/etc/x", Cause: "no space left on device", Since: noon, Next: "tried again until it can be written"}},
			Last:    &Applied{Source: "x.plan", Plan: "cd", Ended: noon, Reason: "instruction i: exit code 3", ExitCode: 3},
		}, `no instruction runs yet: plan ab of remote is being applied since 2026-11-21T12:00:00Z, files since 2026-11-21T12:00:00Z
remote waits for /etc/x since 2026-11-21T12:00:00Z: no space left on device; tried again until it can be written
last applied: plan cd of x.plan FAILED at 2026-11-21T12:00:00Z: instruction i: exit code 3
more of it on the host: journalctl -u rancher-system-agent DROVER_PLAN=cd`},
		{"not connected", Status{Started: noon, Connections: []Connection{{Name: "plan Secret a/b", Server: "https://s", Error: "refused"}}}, `no instruction runs: no plan is being applied
plan Secret a/b at https://s is not connected: refused
the agent, which started at 2026-11-21T12:00:00Z, knows of no plan that was applied before; more on the host: journalctl -u rancher-system-agent`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, strings.Join(tc.is.Idle(), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
