package k3s

import (
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/google/go-cmp/cmp"
)

func TestInstallerImage(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                                      "rancher/system-agent-installer-k3s:v1.34.4-k3s1",
		"mirror.lan/rancher/agent-installer-x-": "mirror.lan/rancher/agent-installer-x-k3s:v1.34.4-k3s1",
	} {
		if got := InstallerImage(prefix, "v1.34.4+k3s1"); got != want {
			t.Errorf("InstallerImage(%q) = %s, want %s", prefix, got, want)
		}
	}
}

func TestRestarted(t *testing.T) {
	install := func(stamp string, server bool) []plans.OneTimeInstruction {
		return []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "other"}}, Install("image", stamp, "", DefaultDataDir, server, nil)}
	}
	for _, tc := range []struct {
		name          string
		before, after []plans.OneTimeInstruction
		unit          string
	}{
		{"the first plan", nil, install("a", true), "k3s"},
		{"the same stamp", install("a", true), install("a", true), ""},
		{"another stamp", install("a", true), install("b", true), "k3s"},
		{"a worker", install("a", false), install("b", false), "k3s-agent"},
		{"nothing is installed", install("a", true), install("a", true)[:1], ""},
	} {
		if unit, restarted := Restarted(tc.before, tc.after); restarted != (tc.unit != "") || restarted && unit != tc.unit {
			t.Errorf("%s: %q, %v, want %q", tc.name, unit, restarted, tc.unit)
		}
	}
}

func TestProbesByRole(t *testing.T) {
	names := func(n Node) []string {
		n.Loopback, n.DataDir = "localhost", DefaultDataDir
		list := []string{}
		probes := Probes(n)
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
			if _, ok := probes[name]; ok {
				list = append(list, name)
			}
		}
		return list
	}
	for _, tc := range []struct {
		name string
		node Node
		want []string
	}{
		{"all in one", Node{Etcd: true, ControlPlane: true, Worker: true}, []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}},
		{"etcd only", Node{Etcd: true}, []string{}},
		{"worker", Node{Worker: true}, []string{"kubelet"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, names(tc.node)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestComponentArgsKeepTheUsersChoice(t *testing.T) {
	for _, tc := range []struct {
		name     string
		user     []string
		wantArgs []string
		wantURL  string
		wantCA   string
	}{
		{"none", nil,
			[]string{"cert-dir=/d/server/tls/kube-scheduler", "secure-port=10259"},
			"https://[::1]:10259/healthz", "/d/server/tls/kube-scheduler/kube-scheduler.crt"},
		{"port and file", []string{"--secure-port=7777", "tls-cert-file=/c/x.pem"},
			[]string{"--secure-port=7777", "tls-cert-file=/c/x.pem"},
			"https://[::1]:7777/healthz", "/c/x.pem"},
		{"directory", []string{"cert-dir=/mine", "v=4"},
			[]string{"cert-dir=/mine", "v=4", "secure-port=10259"},
			"https://[::1]:10259/healthz", "/mine/kube-scheduler.crt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := Scheduler.Args(tc.user, "/d")
			if diff := cmp.Diff(tc.wantArgs, args); diff != "" {
				t.Error(diff)
			}
			p := Probes(Node{ControlPlane: true, Loopback: "::1", DataDir: "/d", SchedulerArgs: args})["kube-scheduler"]
			if p.HTTPGetAction.URL != tc.wantURL || p.HTTPGetAction.CACert != tc.wantCA {
				t.Errorf("probe = %+v", p.HTTPGetAction)
			}
		})
	}
}
