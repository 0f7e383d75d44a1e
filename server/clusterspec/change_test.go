package clusterspec

import (
	"strings"
	"testing"
)

// shaped is a cluster as a test wants it.
func shaped(version string, shape func(*Document)) Document {
	d := Document{Metadata: Metadata{Name: "harbour"}, Spec: Spec{KubernetesVersion: version, RKEConfig: &RKEConfig{MachineGlobalConfig: map[string]any{}}}}
	if shape != nil {
		shape(&d)
	}
	return d
}

func moved(dirs DataDirectories) func(*Document) {
	return func(d *Document) { d.Spec.RKEConfig.DataDirectories = &dirs }
}

func with(key string, value any) func(*Document) {
	return func(d *Document) { d.Spec.RKEConfig.MachineGlobalConfig[key] = value }
}

// selecting gives a setting to workers and, in the same order, others to all.
func selecting(key string, value any, more ...string) func(*Document) {
	return func(d *Document) {
		workers := &LabelSelector{MatchLabels: map[string]string{"rke.cattle.io/worker-role": "true"}}
		for _, other := range more {
			d.Spec.RKEConfig.MachineSelectorConfig = append(d.Spec.RKEConfig.MachineSelectorConfig, SelectorConfig{Config: map[string]any{other: "x"}})
		}
		d.Spec.RKEConfig.MachineSelectorConfig = append(d.Spec.RKEConfig.MachineSelectorConfig, SelectorConfig{MachineLabelSelector: workers, Config: map[string]any{key: value}})
	}
}

func TestCheckChangeOfVersions(t *testing.T) {
	allowed := func(d *Document) { d.Metadata.Annotations = map[string]string{AllowSkippedMinor: "true"} }
	for _, tc := range []struct {
		name, before, after string
		shape               func(*Document)
		running             []string
		want                string
	}{
		{"same", "v1.34.4+k3s1", "v1.34.4+k3s1", nil, []string{"v1.34.4+k3s1"}, ""},
		{"newer", "v1.33.6+k3s1", "v1.34.1+k3s1", nil, []string{"v1.33.6+k3s1"}, ""},
		{"older", "v1.34.1+k3s1", "v1.33.6+k3s1", nil, []string{"v1.34.1+k3s1"}, "cannot go back from v1.34.1+k3s1, which runs, to v1.33.6+k3s1"},
		{"older than one node", "v1.34.1+k3s1", "v1.33.6+k3s1", nil, []string{"v1.33.6+k3s1", "v1.34.1+k3s1"}, "cannot go back from v1.34.1+k3s1"},
		{"an upgrade that never ran is taken back", "v1.34.1+k3s1", "v1.33.6+k3s1", nil, []string{"v1.33.6+k3s1"}, ""},
		{"nothing ran yet", "v1.34.1+k3s1", "v1.33.6+k3s1", nil, nil, ""},
		{"somebody has gone further by hand, and another field changes", "v1.33.6+k3s1", "v1.33.6+k3s1", nil, []string{"v1.34.1+k3s1"}, ""},
		{"two lines at once", "v1.32.5+k3s1", "v1.34.1+k3s1", nil, []string{"v1.32.5+k3s1"}, "the way from v1.32.5+k3s1, which runs, to v1.34.1+k3s1 leaves out a minor line"},
		{"two lines for the slowest node", "v1.33.6+k3s1", "v1.34.1+k3s1", nil, []string{"v1.33.6+k3s1", "v1.32.5+k3s1"}, "the way from v1.32.5+k3s1, which runs"},
		{"two lines, allowed", "v1.32.5+k3s1", "v1.34.1+k3s1", allowed, []string{"v1.32.5+k3s1"}, ""},
		{"back, though lines may be skipped", "v1.34.1+k3s1", "v1.33.6+k3s1", allowed, []string{"v1.34.1+k3s1"}, "cannot go back"},
		{"two lines before anything ran", "v1.32.5+k3s1", "v1.34.1+k3s1", nil, nil, ""},
		{"other distribution", "v1.34.1+k3s1", "v1.34.1+rke2r1", nil, nil, "the distribution cannot be changed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := CheckChange(shaped(tc.before, nil), shaped(tc.after, tc.shape), Live{Versions: tc.running, Started: tc.running != nil})
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), "spec.kubernetesVersion: "+tc.want) && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCheckChangeOfWhatStays(t *testing.T) {
	const rke2, k3s = "v1.34.4+rke2r1", "v1.34.4+k3s1"
	for _, tc := range []struct {
		name, version string
		before, after func(*Document)
		notStarted    bool
		want          string
	}{
		{"moved", k3s, moved(DataDirectories{K8sDistro: "/a"}), moved(DataDirectories{K8sDistro: "/b"}), true, `spec.rkeConfig.dataDirectories.k8sDistro: cannot be changed once the cluster exists, from "/a" to "/b"`},
		{"moved from where it is by default", k3s, nil, moved(DataDirectories{SystemAgent: "/b"}), false, `spec.rkeConfig.dataDirectories.systemAgent: cannot be changed once the cluster exists, from "" to "/b"`},
		{"network", k3s, with("cluster-cidr", "10.1.0.0/16"), with("cluster-cidr", "10.2.0.0/16"), false, `spec.rkeConfig.machineGlobalConfig.cluster-cidr: is what the cluster was made with and cannot be changed once its control plane has been up, from "10.1.0.0/16" to "10.2.0.0/16"; take the change back, or make a new cluster`},
		{"network, from the default", k3s, nil, with("service-cidr", "10.2.0.0/16"), false, `service-cidr: is what the cluster was made with and cannot be changed once its control plane has been up, from "10.43.0.0/16" to "10.2.0.0/16"`},
		{"network, to the default", k3s, with("cluster-dns", "10.1.0.10"), nil, false, `cluster-dns: is what the cluster was made with and cannot be changed once its control plane has been up, from "10.1.0.10" to none`},
		{"the default, written out", rke2, nil, with("cni", "calico"), false, ""},
		{"network, before anything ran", k3s, with("cluster-cidr", "10.1.0.0/16"), with("cluster-cidr", "10.2.0.0/16"), true, ""},
		{"cni", rke2, with("cni", "calico"), with("cni", []any{"multus", "calico"}), false, `cni: is what the cluster was made with and cannot be changed once its control plane has been up, from "calico" to "multus,calico"`},
		{"cni, from the default", rke2, nil, with("cni", "canal"), false, `from "calico" to "canal"`},
		{"cni, written otherwise", rke2, with("cni", "multus, calico"), with("cni", []any{"multus", "calico"}), false, ""},
		{"token", k3s, with("token", "hunter2"), with("token", "hunter3"), false, "token: is what the cluster was made with and cannot be changed once its control plane has been up, from one to one"},
		{"another setting", k3s, with("tls-san", "a"), with("tls-san", "b"), false, ""},
		{"selected", rke2, selecting("cluster-dns", "10.1.0.10"), selecting("cluster-dns", "10.2.0.10"), false, `spec.rkeConfig.machineSelectorConfig[0].config.cluster-dns: is what`},
		{"selected for others", rke2, selecting("cni", "canal"), func(d *Document) {
			selecting("cni", "canal")(d)
			d.Spec.RKEConfig.MachineSelectorConfig[0].MachineLabelSelector.MatchLabels = map[string]string{"rack": "7"}
		}, false, `spec.rkeConfig.machineSelectorConfig[0].config.cni: is what`},
		{"selected anew", rke2, nil, selecting("cni", "canal", "debug"), false, `spec.rkeConfig.machineSelectorConfig[1].config.cni: is what the cluster was made with and cannot be changed once its control plane has been up, from none to "canal"`},
		{"no longer selected", rke2, selecting("cni", "canal"), nil, false, `spec.rkeConfig.machineSelectorConfig[0].config.cni: is what`},
		{"selected at another place", rke2, selecting("cni", "canal"), selecting("cni", "canal", "debug"), false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := CheckChange(shaped(tc.version, tc.before), shaped(tc.version, tc.after), Live{Started: !tc.notStarted})
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Error("a token is shown")
			}
		})
	}
}

// TestAllChangesAreReported at once.
func TestAllChangesAreReported(t *testing.T) {
	after := shaped("v1.33.1+k3s1", func(d *Document) {
		with("cluster-cidr", "10.9.0.0/16")(d)
		moved(DataDirectories{Provisioning: "/p"})(d)
	})
	err := CheckChange(shaped("v1.34.4+k3s1", nil), after, Live{Versions: []string{"v1.34.4+k3s1"}, Started: true})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three lines:\n%v", err)
	}
}
