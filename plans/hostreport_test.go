package plans_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/google/go-cmp/cmp"
)

func TestHostReport(t *testing.T) {
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	want := plans.HostReport{
		Plan: plans.Checksum([]byte("{}")), Instruction: "install", Since: since, Output: "[INFO]  systemd: Starting k3s",
		Units: []plans.UnitReport{{Name: "k3s", State: "activating (auto-restart)", Since: since, Restarts: 7, Lines: []string{"unknown flag: --x", "exited"}}},
	}
	wire, err := plans.EncodeHostReport(want)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := plans.ReadHostReport(data("plan", "{}", "host-report", string(wire)))
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if text := got.Units[0].String(); text != "k3s.service is activating (auto-restart) since 2026-11-21T12:00:00Z, was restarted 7 times: unknown flag: --x | exited" {
		t.Errorf("in words: %s", text)
	}
	for name, d := range map[string]map[string][]byte{
		"none":            data("plan", "{}"),
		"of another plan": data("plan", "{ }", "host-report", string(wire)),
		"damaged":         data("plan", "{}", "host-report", "{"),
		"too large":       data("plan", "{}", "host-report", string(wire)+strings.Repeat(" ", 64<<10)),
	} {
		if got, ok := plans.ReadHostReport(d); ok || got.Plan != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if d := plans.Deliver(data("plan", "{}", "host-report", string(wire)), []byte("{}")); d["host-report"] != nil {
		t.Error("a new delivery keeps the old report")
	}
}

// The agent of a host may have been taken over: what it reports is shown on people's terminals.
func TestHostReportsAreNotTrusted(t *testing.T) {
	read := func(r plans.HostReport) (plans.HostReport, bool) {
		r.Plan = plans.Checksum([]byte("{}"))
		wire, err := plans.EncodeHostReport(r)
		if err != nil {
			t.Fatal(err)
		}
		return plans.ReadHostReport(data("plan", "{}", "host-report", string(wire)))
	}
	for _, name := range []string{"", "--help", "k3s; reboot", "k3s\nx", "$(id)", strings.Repeat("k", 256)} {
		if _, ok := read(plans.HostReport{Units: []plans.UnitReport{{Name: name}}}); ok {
			t.Errorf("a unit %q is shown", name)
		}
		if _, ok := read(plans.HostReport{Pods: []plans.PodReport{{Name: name}}}); ok {
			t.Errorf("a pod %q is shown", name)
		}
	}
	many := make([]plans.UnitReport, 20)
	for i := range many {
		many[i] = plans.UnitReport{Name: "k3s", State: "a\x1b[2Jb", Lines: []string{strings.Repeat("ä", 1000), "a\nb", "c", "d", "e"}}
	}
	r, ok := read(plans.HostReport{Output: "\x1b]0;x\a", Units: many})
	if !ok || len(r.Units) != 8 || len(r.Units[0].Lines) != 4 {
		t.Fatalf("%t, %d units", ok, len(r.Units))
	}
	pods := make([]plans.PodReport, 20)
	for i := range pods {
		pods[i] = plans.PodReport{Name: "etcd", Restarts: 2, Lines: []string{strings.Repeat("ä", 1000), "a\x1b]0;x\ab", "c", "d", "e"}}
	}
	if p, ok := read(plans.HostReport{Pods: pods}); !ok || len(p.Pods) != 8 || len(p.Pods[0].Lines) != 4 || strings.ContainsAny(p.Pods[0].String(), "\x1b\a") || len(p.Pods[0].String()) > 1200 {
		t.Errorf("%t, %d pods: %s", ok, len(p.Pods), p.Pods[0])
	}
	text := r.Output + r.Units[0].String()
	if strings.ContainsAny(text, "\x1b\n\a") || len(text) > 1200 {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
