package views

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/records"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

var (
	allRoles = records.Roles{Etcd: true, ControlPlane: true, Worker: true}
	worker   = records.Roles{Worker: true}
)

// host is a machine in a state, for so many minutes.
func host(name string, roles records.Roles, state records.MachineState, code catalogue.Code, minutes int, shape ...func(*records.Machine)) records.Machine {
	m := records.Machine{Object: records.Object{Namespace: "fleet-default", Name: name}, Roles: roles, NodeName: "host-" + name}
	m.Status.Condition = records.Condition{State: state, Code: string(code)}
	if code != "" {
		m.Status.Cause = string(code) + " of " + name
	}
	m.Status.Since = noon.Add(-time.Duration(minutes) * time.Minute)
	for _, s := range shape {
		s(&m)
	}
	return m
}

func begins(m *records.Machine) { m.Status.Init = true }

func harbour(state, message string) records.Cluster {
	return records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"},
		Status: records.ClusterStatus{State: records.ClusterState(state), Message: message, Since: noon},
	}
}

// outline is a tree in one line for each cause: machine, or "cluster", and code.
func outline(w apitypes.Why) []string {
	lines := []string{fmt.Sprintf("%s well=%v", w.State, w.Well)}
	for _, c := range w.Causes {
		name := "cluster"
		if c.Machine != "" {
			name = strings.TrimPrefix(c.Machine, "fleet-default/")
		}
		lines = append(lines, name+" "+c.Code)
	}
	return lines
}

func TestCausesComeFirstCauseFirst(t *testing.T) {
	failed := func(m *records.Machine) {
		m.Status.LastFailure = &records.PlanFailure{Checksum: "abc", Instruction: "install", Output: "one\ntwo\n"}
	}
	ready := host("a", allRoles, records.Active, "", 60, begins)
	for _, c := range []struct {
		name     string
		cluster  records.Cluster
		machines []records.Machine
		of       string
		want     []string
	}{
		{name: "all is well", cluster: harbour("active", ""), machines: []records.Machine{ready}, want: []string{"active well=true"}},
		{name: "failures, what is lost, what is worked on, who waits", cluster: harbour("updating", "configuring"), machines: []records.Machine{
			ready,
			host("b", worker, records.Active, catalogue.WaitTier, 9),
			host("c", worker, records.ApplyingPlan, catalogue.Applying, 8),
			host("d", worker, records.Unavailable, catalogue.HostLost, 7),
			host("e", worker, records.Failed, catalogue.PlanFailed, 1),
		}, want: []string{"updating well=false", "e plan-failed", "d host-lost", "c applying", "b wait-tier"}},
		{name: "a server before the workers that wait for it", cluster: harbour("updating", "configuring"), machines: []records.Machine{
			host("a", worker, records.WaitingForPlan, catalogue.WaitControlPlane, 30),
			host("b", worker, records.Failed, catalogue.PlanFailed, 20),
			host("c", records.Roles{ControlPlane: true}, records.WaitingForPlan, catalogue.WaitEtcd, 3),
			host("d", records.Roles{Etcd: true}, records.WaitingForPlan, catalogue.WaitBootstrap, 2),
			host("e", allRoles, records.Failed, catalogue.PlanFailed, 1, begins),
		}, want: []string{"updating well=false", "e plan-failed", "b plan-failed", "d wait-bootstrap", "c wait-etcd", "a wait-control-plane"}},
		{name: "of two failures the older one", cluster: harbour("updating", ""), machines: []records.Machine{
			host("a", worker, records.Failed, catalogue.PlanFailed, 1), host("b", worker, records.Failed, catalogue.PlanFailed, 2),
		}, want: []string{"updating well=false", "b plan-failed", "a plan-failed"}},
		{name: "a failure that is tried again is still the cause", cluster: harbour("updating", ""), machines: []records.Machine{
			host("a", worker, records.ApplyingPlan, catalogue.Applying, 9), host("b", worker, records.ApplyingPlan, catalogue.AgentNotTaken, 1, failed),
		}, want: []string{"updating well=false", "b agent-not-taken", "a applying"}},
		{name: "a failure of before the machine was to leave is not", cluster: harbour("updating", ""), machines: []records.Machine{
			host("a", worker, records.Removing, catalogue.Uninstalling, 1, failed), host("b", worker, records.ApplyingPlan, catalogue.Applying, 9),
			host("c", worker, records.Removing, catalogue.UninstallError, 1, failed),
		}, want: []string{"updating well=false", "c uninstall-failed", "b applying", "a uninstalling"}},
		{name: "a gate is the cluster's, once", cluster: harbour("error", "no version"), machines: []records.Machine{
			host("a", worker, records.Failed, catalogue.UnknownVersion, 1), host("b", worker, records.Failed, catalogue.UnknownVersion, 2),
		}, want: []string{"error well=false", "cluster unknown-version"}},
		{name: "a cluster without machines", cluster: harbour("pending", "waiting"), want: []string{"pending well=false", "cluster missing-roles"}},
		{name: "a cluster that only has a message", cluster: harbour("unavailable", "the server has no connection"), machines: []records.Machine{ready}, want: []string{"unavailable well=false", "cluster "}},
		{name: "a machine that the server has not looked at", cluster: harbour("active", ""), machines: []records.Machine{ready, host("b", worker, "", "", 0)}, want: []string{"active well=false", "b "}},
		{name: "of a machine that waits: what it waits for too", of: "b", cluster: harbour("updating", ""), machines: []records.Machine{
			host("a", allRoles, records.Failed, catalogue.PlanFailed, 1, begins), host("b", worker, records.WaitingForPlan, catalogue.WaitControlPlane, 1), host("c", worker, records.WaitingForPlan, catalogue.WaitControlPlane, 1),
		}, want: []string{"updating well=false", "a plan-failed", "b wait-control-plane"}},
		{name: "of a machine that failed: that alone", of: "b", cluster: harbour("updating", ""), machines: []records.Machine{
			host("a", allRoles, records.Failed, catalogue.PlanFailed, 1, begins), host("b", worker, records.Failed, catalogue.PlanFailed, 1),
		}, want: []string{"updating well=false", "b plan-failed"}},
		{name: "of a machine that is well in a cluster that is not", of: "a", cluster: harbour("updating", ""), machines: []records.Machine{ready, host("b", worker, records.Failed, catalogue.PlanFailed, 1)}, want: []string{"updating well=true"}},
		{name: "of a machine that a gate holds", of: "a", cluster: harbour("error", ""), machines: []records.Machine{host("a", worker, records.Failed, catalogue.UnknownVersion, 1)}, want: []string{"error well=false", "cluster unknown-version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.of != "" {
				c.of = "fleet-default/" + c.of
			}
			if diff := cmp.Diff(c.want, outline(OfCauses(c.cluster, c.machines, nil, c.of))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestACauseSaysWhatToDo(t *testing.T) {
	docker := harbour("active", "")
	docker.Spec = clusterspec.Spec{}
	output := strings.Repeat("line\n", 30) + "no space left\n"
	for _, c := range []struct {
		name  string
		m     records.Machine
		fix   string
		log   string // unit; empty for none
		lines int    // of the output
	}{
		{name: "its own next step", m: host("a", worker, records.Failed, catalogue.PlanFailed, 1, func(m *records.Machine) { m.Status.NextStep = "look" }), fix: "look", log: "k3s-agent.service"},
		{name: "the catalogue's, with its name", m: host("a", allRoles, records.ApplyingPlan, catalogue.Applying, 1), fix: "`drover machines output a -f` follows it.", log: "k3s.service"},
		{name: "one that is about another machine has not its name", m: host("a", worker, records.WaitingForPlan, catalogue.WaitVoter, 1),
			fix: "Look at the member that joins. If its host is lost, remove it with `drover machines rm NAME --force --yes`."},
		{name: "the end of the output", m: host("a", worker, records.Failed, catalogue.BadSpec, 1, func(m *records.Machine) {
			m.Status.NextStep, m.Status.LastFailure = "look", &records.PlanFailure{Instruction: "install", Output: output}
		}), fix: "look", lines: CauseLines},
		{name: "a code of a newer server", m: host("a", worker, records.ApplyingPlan, "nobody-knows", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := OfCauses(harbour("updating", ""), []records.Machine{c.m}, nil, "")
			if len(w.Causes) != 1 {
				t.Fatalf("causes %v", w.Causes)
			}
			got := w.Causes[0]
			unit := ""
			if got.Log != nil {
				unit = got.Log.Unit
			}
			if got.Fix != c.fix || strings.TrimSuffix(unit, ".service") != strings.TrimSuffix(c.log, ".service") || len(got.Output) != c.lines {
				t.Errorf("fix %q, log %q, output %q", got.Fix, unit, got.Output)
			}
			if c.lines > 0 && got.Output[c.lines-1] != "no space left" {
				t.Errorf("output ends with %q", got.Output[c.lines-1])
			}
			if _, known := catalogue.Find(catalogue.Code(got.Code)); known != (got.Docs == "docs/reference/causes.md#"+got.Code) {
				t.Errorf("documented at %q", got.Docs)
			}
		})
	}
	w := OfCauses(docker, []records.Machine{host("a", allRoles, records.Disconnected, catalogue.DockerDisconnected, 1)}, nil, "")
	if len(w.Causes) != 1 || w.Causes[0].Log != nil {
		t.Errorf("a Docker host: %+v", w.Causes)
	}
}

// TestCausesAreBounded: a fleet that is lost is an answer that can be read.
// TestTree: machines that wait for others stand below what they wait for, and what waits for people does not.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		name         string
		machines     []records.Machine
		first, below string
	}{
		{"nothing", nil, "cluster", ""},
		{"a failure and who waits", []records.Machine{
			host("a", worker, records.WaitingForPlan, catalogue.WaitControlPlane, 3), host("b", allRoles, records.Failed, catalogue.PlanFailed, 1, begins), host("c", worker, records.Active, catalogue.WaitTier, 2),
		}, "b", "a c"},
		{"who waits for people stands by itself", []records.Machine{
			host("a", worker, records.Active, catalogue.WaitWindow, 3), host("b", worker, records.Active, catalogue.WaitBudget, 1),
		}, "a", "b"},
		{"all wait", []records.Machine{host("a", worker, records.Active, catalogue.WaitTier, 3), host("b", worker, records.Active, catalogue.WaitQuorum, 1)}, "a b", ""},
		{"who waits and has failed", []records.Machine{
			host("a", worker, records.Failed, catalogue.WaitTier, 3), host("b", worker, records.Active, catalogue.WaitTier, 1),
		}, "a", "b"},
	} {
		names := func(causes []apitypes.Cause) string {
			var all []string
			for _, one := range causes {
				name := strings.TrimPrefix(one.Machine, "fleet-default/")
				if name == "" {
					name = "cluster"
				}
				all = append(all, name)
			}
			return strings.Join(all, " ")
		}
		first, below := Tree(OfCauses(harbour("updating", "configuring"), c.machines, nil, ""))
		if names(first) != c.first || names(below) != c.below {
			t.Errorf("%s: %q, and below %q; want %q and %q", c.name, names(first), names(below), c.first, c.below)
		}
	}
}

func TestCausesAreBounded(t *testing.T) {
	var machines []records.Machine
	for i := range MaxCauses + 7 {
		machines = append(machines, host(fmt.Sprintf("m%03d", i), worker, records.Unavailable, catalogue.HostLost, 1))
	}
	if w := OfCauses(harbour("unavailable", ""), machines, nil, ""); len(w.Causes) != MaxCauses || w.More != 7 || w.Well {
		t.Errorf("%d causes, %d more, well %v", len(w.Causes), w.More, w.Well)
	}
}

// What will go wrong comes last, and what has gone wrong by it comes behind it.
func TestWhyWarns(t *testing.T) {
	cl := harbour("active", "")
	for code, want := range map[catalogue.Code][]string{
		catalogue.CertificatesEnding: {"active well=false", "custom-a out-of-sight", "cluster certificates-ending"},
		catalogue.CertificatesEnded:  {"active well=false", "cluster certificates-ended", "custom-a out-of-sight"},
	} {
		cl.Status.Warning = records.Warning{Code: string(code), Cause: "kube-node", NextStep: "drover clusters rotate certificates harbour"}
		w := OfCauses(cl, []records.Machine{host("custom-a", allRoles, records.Active, catalogue.OutOfSight, 1)}, nil, "")
		if diff := cmp.Diff(want, outline(w)); diff != "" {
			t.Errorf("%s: -want +got\n%s", code, diff)
		}
		if w := OfCauses(cl, []records.Machine{host("custom-b", worker, records.Active, "", 1)}, nil, "fleet-default/custom-b"); !w.Well {
			t.Errorf("a machine is not well by a warning of its cluster: %+v", w.Causes)
		}
	}
}
