package starter_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/config/starter"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var versions = config.Versions{
	Default: "v1.30.5-rancher1-1",
	Images: func(string) (config.SystemImages, error) {
		var images config.SystemImages
		v := reflect.ValueOf(&images).Elem()
		for _, field := range v.Fields() {
			field.SetString("image:1")
		}
		return images, nil
	},
}

// filled reads a file, which nothing may be wrong with.
func filled(t *testing.T, text []byte) config.Cluster {
	t.Helper()
	f, err := config.Parse(strictyaml.Source{}, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(f.Warnings) > 0 {
		t.Errorf("%v\n%s", f.Warnings, text)
	}
	c := config.WithDefaults(f.Cluster, versions)
	if errs, warnings := check.Cluster(c, versions, f); len(errs)+len(warnings) > 0 {
		t.Errorf("%v\n%v", errs, warnings)
	}
	return c
}

// TestFile: both files are accepted and mean the same, so that what the long one says are the defaults.
func TestFile(t *testing.T) {
	minimal, long := starter.File("v1.30.5-rancher1-1", true), starter.File("v1.30.5-rancher1-1", false)
	if diff := cmp.Diff(filled(t, minimal), filled(t, long), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the long file says something else than the defaults:\n%s", diff)
	}
	if strings.Count(string(minimal), "\n") > 15 {
		t.Errorf("the minimal file is long:\n%s", minimal)
	}
}

// key begins a setting, and no sentence.
var key = regexp.MustCompile(`^ *(- )?[a-zA-Z0-9_]+:`)

// TestCommentedSettings: what is behind a # is a setting as well, and with all of them the file is still accepted.
func TestCommentedSettings(t *testing.T) {
	var text []string
	for line := range strings.Lines(string(starter.File("v1.30.5-rancher1-1", false))) {
		indent, setting, commented := strings.Cut(line, "# ")
		if commented && strings.TrimSpace(indent) == "" && key.MatchString(setting) {
			line = indent + setting
		}
		text = append(text, line)
	}
	c := filled(t, []byte(strings.Join(text, "")))
	if c.BastionHost.Address == "" || c.Addons == "" || c.Services.Etcd.BackupConfig.S3 == nil || len(c.Nodes[0].Taints) == 0 || len(c.PrivateRegistries) == 0 {
		t.Errorf("settings in comments were not read: %s", strings.Join(text, ""))
	}
}

func TestFromAnswers(t *testing.T) {
	c := starter.FromAnswers(starter.Answers{
		SSHKeyPath: "~/.ssh/key", KubernetesVersion: "v1.30.5-rancher1-1", NetworkPlugin: "calico", Authorization: "rbac",
		Nodes:        []config.Node{{Address: "a", User: "u", Role: []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker}}},
		ServiceRange: "10.53.0.0/16", DNSServer: "10.53.0.10", PodRange: "10.52.0.0/16", ClusterDomain: "example.local",
		AddonsInclude: []string{"a.yaml"},
	})
	text, err := config.Write(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `nodes:
  - address: a
    role:
      - etcd
      - controlplane
      - worker
    user: u
services:
  kube-api:
    service_cluster_ip_range: 10.53.0.0/16
  kube-controller:
    cluster_cidr: 10.52.0.0/16
    service_cluster_ip_range: 10.53.0.0/16
  kubelet:
    cluster_domain: example.local
    cluster_dns_server: 10.53.0.10
network:
  plugin: calico
addons_include:
  - a.yaml
ssh_key_path: ~/.ssh/key
authorization:
  mode: rbac
kubernetes_version: v1.30.5-rancher1-1
cri_dockerd_stream_server_port: "10011"
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	filled(t, text)
	filled(t, []byte("nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]")) // nothing answered but the host
}
