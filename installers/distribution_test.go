package installers_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/google/go-cmp/cmp"
)

func TestInstallerImage(t *testing.T) {
	for _, tc := range []struct{ prefix, version, want string }{
		{"", "v1.34.4+k3s1", "rancher/system-agent-installer-k3s:v1.34.4-k3s1"},
		{"", "v1.34.4+rke2r1", "rancher/system-agent-installer-rke2:v1.34.4-rke2r1"},
		{"mirror.lan/rancher/agent-installer-x-", "v1.34.4+k3s1", "mirror.lan/rancher/agent-installer-x-k3s:v1.34.4-k3s1"},
	} {
		if got := runtimes.Of(tc.version).InstallerImage(tc.prefix, tc.version); got != tc.want {
			t.Errorf("InstallerImage(%q, %q) = %s, want %s", tc.prefix, tc.version, got, tc.want)
		}
	}
}

// TestWhatTheDistributionsDifferIn holds facts that hosts, agents and other nodes depend on.
func TestWhatTheDistributionsDifferIn(t *testing.T) {
	for _, tc := range []struct{ name, got, want string }{
		{"k3s joins at the API server", runtimes.K3s().JoinURL("10.0.0.1"), "https://10.0.0.1:6443"},
		{"RKE2 at its supervisor", runtimes.RKE2().JoinURL("fd00::1"), "https://[fd00::1]:9345"},
		{"in brackets already", runtimes.RKE2().JoinURL("[fd00::1]"), "https://[fd00::1]:9345"},
		{"k3s server", runtimes.K3s().Unit(true), "k3s"},
		{"k3s agent", runtimes.K3s().Unit(false), "k3s-agent"},
		{"RKE2 server", runtimes.RKE2().Unit(true), "rke2-server"},
		{"RKE2 agent", runtimes.RKE2().Unit(false), "rke2-agent"},
		{"k3s settings", runtimes.K3s().ConfigFile(), "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml"},
		{"RKE2 settings", runtimes.RKE2().ConfigFile(), "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml"},
		{"RKE2 registries", runtimes.RKE2().RegistriesFile(), "/etc/rancher/rke2/registries.yaml"},
		{"k3s kubeconfig", runtimes.K3s().AdminKubeconfig(), "/etc/rancher/k3s/k3s.yaml"},
		{"RKE2 kubeconfig", runtimes.RKE2().AdminKubeconfig(), "/etc/rancher/rke2/rke2.yaml"},
		{"RKE2 manifests", runtimes.RKE2().ManifestDir("/d"), "/d/server/manifests/rancher"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, tc.got, tc.want)
		}
	}
}

func TestRestarted(t *testing.T) {
	install := func(d installers.Distribution, stamp string, server bool, env ...string) []plans.OneTimeInstruction {
		return append([]plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "other"}}}, d.Install("image", stamp, "", d.DefaultDataDir(), server, env)...)
	}
	k, r := runtimes.K3s(), runtimes.RKE2()
	for _, tc := range []struct {
		name          string
		before, after []plans.OneTimeInstruction
		unit          string
	}{
		{"the first plan", nil, install(k, "a", true), "k3s"},
		{"the same stamp", install(k, "a", true), install(k, "a", true), ""},
		{"another stamp", install(k, "a", true), install(k, "b", true), "k3s"},
		{"a worker", install(k, "a", false), install(k, "b", false), "k3s-agent"},
		{"nothing is installed", install(k, "a", true), install(k, "a", true)[:1], ""},
		{"an RKE2 server", install(r, "a", true), install(r, "b", true), "rke2-server"},
		{"an RKE2 worker", install(r, "a", false), install(r, "b", false), "rke2-agent"},
		{"another proxy, which the unit's environment has", install(k, "a", true, "HTTPS_PROXY=http://a"), install(k, "a", true, "HTTPS_PROXY=http://b"), "k3s"},
		{"a variable that is the installer's alone", install(k, "a", true, "FOO=a"), install(k, "a", true, "FOO=b"), ""},
	} {
		if unit, restarted := runtimes.Restarted(tc.before, tc.after); restarted != (tc.unit != "") || restarted && unit != tc.unit {
			t.Errorf("%s: %q, %v, want %q", tc.name, unit, restarted, tc.unit)
		}
	}
}

// TestRestartCheckIsPartOfRKE2Alone: RKE2's installer writes its stamp before it restarts, so the plan looks after it.
func TestRestartCheckIsPartOfRKE2Alone(t *testing.T) {
	names := func(d installers.Distribution) (names []string) {
		for _, in := range d.Install("image", "stamp", "hash", "/data", false, nil) {
			names = append(names, in.Name)
		}
		return names
	}
	if got := names(runtimes.K3s()); !slices.Equal(got, []string{"install"}) {
		t.Errorf("k3s: %q", got)
	}
	if got := names(runtimes.RKE2()); !slices.Equal(got, []string{"install", "restart-check"}) {
		t.Errorf("RKE2: %q", got)
	}
	check := runtimes.RKE2().Install("image", "stamp", "hash", "/data", false, nil)[1]
	if got := check.Args[len(check.Args)-2:]; !slices.Equal(got, []string{"rke2-agent", "/data/system-agent-installer/rke2_restart_stamp"}) {
		t.Errorf("it looks at %q", got)
	}
}

func TestProbesByRole(t *testing.T) {
	for _, tc := range []struct {
		name      string
		node      installers.Node
		k3s, rke2 string
	}{
		{"all in one", installers.Node{Etcd: true, ControlPlane: true, Worker: true},
			"kube-apiserver kube-controller-manager kube-scheduler kubelet", "calico etcd kube-apiserver kube-controller-manager kube-scheduler kubelet"},
		{"etcd only", installers.Node{Etcd: true}, "", "etcd kubelet"},
		{"control plane only", installers.Node{ControlPlane: true},
			"kube-apiserver kube-controller-manager kube-scheduler kubelet", "calico kube-apiserver kube-controller-manager kube-scheduler kubelet"},
		{"worker", installers.Node{Worker: true}, "kubelet", "calico kubelet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.node.Loopback, tc.node.DataDir = "localhost", "/d"
			if got := sorted(runtimes.K3s().Probes(tc.node)); got != tc.k3s {
				t.Errorf("k3s has %s, want %s", got, tc.k3s)
			}
			tc.node.CNI = installers.PluginsOf([]string{"multus,calico"})
			if got := sorted(runtimes.RKE2().Probes(tc.node)); got != tc.rke2 {
				t.Errorf("RKE2 has %s, want %s", got, tc.rke2)
			}
		})
	}
	if got := sorted(runtimes.RKE2().Probes(installers.Node{Worker: true, CNI: []string{"multus", "cilium"}})); got != "kubelet" {
		t.Errorf("without calico it has %s", got)
	}
}

func sorted(probes map[string]plans.Probe) string {
	return strings.Join(slices.Sorted(maps.Keys(probes)), " ")
}

func TestComponentArgsKeepTheUsersChoice(t *testing.T) {
	for _, tc := range []struct {
		name       string
		user       []string
		wantArgs   []string
		wantMounts []string
		wantURL    string
		wantCA     string
	}{
		{"none", nil,
			[]string{"cert-dir=/d/server/tls/kube-scheduler", "secure-port=10259"}, []string{"/mine:/mine", "/d/server/tls/kube-scheduler:/d/server/tls/kube-scheduler"},
			"https://[::1]:10259/healthz", "/d/server/tls/kube-scheduler/kube-scheduler.crt"},
		{"port and file", []string{"--secure-port=7777", "tls-cert-file=/c/x.pem"},
			[]string{"--secure-port=7777", "tls-cert-file=/c/x.pem"}, []string{"/mine:/mine", "/c:/c"},
			"https://[::1]:7777/healthz", "/c/x.pem"},
		{"directory", []string{"cert-dir=/mine", "v=4"},
			[]string{"cert-dir=/mine", "v=4", "secure-port=10259"}, []string{"/mine:/mine"},
			"https://[::1]:10259/healthz", "/mine/kube-scheduler.crt"},
		{"file and key apart", []string{"tls-cert-file=/pki/certs/s.pem", "--tls-private-key-file=/pki/keys/s.key", "secure-port=1"},
			[]string{"tls-cert-file=/pki/certs/s.pem", "--tls-private-key-file=/pki/keys/s.key", "secure-port=1"}, []string{"/mine:/mine", "/pki/certs:/pki/certs", "/pki/keys:/pki/keys"},
			"https://[::1]:1/healthz", "/pki/certs/s.pem"},
		{"directory of its own", []string{"cert-dir=/pki/sched/", "secure-port=1"},
			[]string{"cert-dir=/pki/sched/", "secure-port=1"}, []string{"/mine:/mine", "/pki/sched:/pki/sched"},
			"https://[::1]:1/healthz", "/pki/sched/kube-scheduler.crt"},
		{"directory inside a mount of the user", []string{"cert-dir=/mine/sched", "secure-port=1"},
			[]string{"cert-dir=/mine/sched", "secure-port=1"}, []string{"/mine:/mine"},
			"https://[::1]:1/healthz", "/mine/sched/kube-scheduler.crt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scheduler := installers.Components()[1]
			args := scheduler.Args(tc.user, "/d")
			if diff := cmp.Diff(tc.wantArgs, args); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.wantMounts, scheduler.Mounts([]string{"/mine:/mine"}, tc.user, "/d")); diff != "" {
				t.Error(diff)
			}
			node := installers.Node{ControlPlane: true, Loopback: "::1", DataDir: "/d", Args: map[string][]string{scheduler.ArgKey: args}}
			p := runtimes.K3s().Probes(node)["kube-scheduler"]
			if p.HTTPGetAction.URL != tc.wantURL || p.HTTPGetAction.CACert != tc.wantCA {
				t.Errorf("probe = %+v", p.HTTPGetAction)
			}
		})
	}
}
