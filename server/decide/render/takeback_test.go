package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

func planOf(t *testing.T, in render.Input) plans.Plan {
	t.Helper()
	p, err := render.Plan(in, render.Newest)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const settings = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: harbour}
spec:
  kubernetesVersion: v1.33.6+rke2r1
  rkeConfig:
    machineGlobalConfig: {system-default-registry: images.pier.lan, kubelet-arg: [max-pods=80], profile: cis, disable-kube-proxy: "true"}
`

// TestInstallerImageIsFromTheClustersRegistry: a host without a way out gets its first plan from there.
func TestInstallerImageIsFromTheClustersRegistry(t *testing.T) {
	for _, c := range cases {
		in := input(t, settings, c.roles)
		in.DefaultRegistry = "default.lan"
		for _, instructions := range [][]plans.OneTimeInstruction{planOf(t, in).Instructions, render.Bare(in)} {
			if image := instructions[0].Image; !strings.HasPrefix(image, "images.pier.lan/rancher/") {
				t.Errorf("%s: the installer's image is %q", c.name, image)
			}
		}
	}
}

// TestSelectorTakesASettingBack: what a selector leaves without a value is not set on its machines.
func TestSelectorTakesASettingBack(t *testing.T) {
	for _, c := range []struct {
		rack  string
		stays bool
	}{{"a1", false}, {"b2", true}} {
		text := settings + "    machineSelectorConfig:\n    - machineLabelSelector: {matchLabels: {rack: a1}}\n      config: {system-default-registry: null, kubelet-arg: [], profile: \"\"}\n"
		in := input(t, text, records.Roles{Etcd: true, ControlPlane: true})
		in.Machine.Labels["rack"] = c.rack
		config := fmt.Sprint(configOf(t, planOf(t, in)))
		for _, word := range []string{"system-default-registry", "max-pods", "profile"} {
			if strings.Contains(config, word) != c.stays {
				t.Errorf("rack %s: %s in the config is %v, want %v: %s", c.rack, word, !c.stays, c.stays, config)
			}
		}
		if !strings.Contains(config, `"disable-kube-proxy": true`) {
			t.Errorf("a truth value that is written as a text is not one in %s", config)
		}
	}
}

func configOf(t *testing.T, p plans.Plan) string {
	t.Helper()
	for _, f := range p.Files {
		if strings.HasSuffix(f.Path, "/50-rancher.yaml") {
			content, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
	}
	t.Fatal("the plan has no config")
	return ""
}

// TestOwnCertificatesAreMounted by the rendering of today; a cluster that was made with the one before keeps its plan, as its servers
// would restart.
func TestOwnCertificatesAreMounted(t *testing.T) {
	const own = "kube-scheduler-arg: [cert-dir=/srv/certificates/scheduler]"
	in := input(t, strings.Replace(settings, "profile: cis", own, 1), records.Roles{Etcd: true, ControlPlane: true})
	for version, want := range map[int]bool{1: false, 2: true} {
		p, err := render.Plan(in, version)
		if err != nil {
			t.Fatal(err)
		}
		config := configOf(t, p)
		if strings.Contains(config, "/srv/certificates/scheduler:/srv/certificates/scheduler") != want {
			t.Errorf("renderer %d: mounted %v, want %v: %s", version, !want, want, config)
		}
		if image := p.Instructions[0].Image; strings.HasPrefix(image, "images.pier.lan/") != want {
			t.Errorf("renderer %d: the installer's image is %q", version, image)
		}
	}
}
