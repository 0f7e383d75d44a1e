package migrate_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/migrate"
	"github.com/drover-project/drover/rke1/versions"
)

var update = flag.Bool("update", false, "write the golden files")

func read(t *testing.T, text string) *config.Cluster {
	t.Helper()
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Warnings) > 0 {
		t.Fatal(file.Warnings)
	}
	d, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, config.Versions{Default: d.Default(), Images: d.Images})
	return &c
}

const node = "nodes: [{address: 10.0.0.1, user: u, role: [etcd, controlplane, worker]}]\n"

var rke2 = []string{"v1.32.1+rke2r1", "v1.30.14+rke2r1", "v1.30.5+rke2r1", "v1.30.5+rke2r2", "v1.31.1+rke2r1", "v1.30.4+rke2r9", "nonsense"}

// TestText holds the whole text: of a small cluster of which the file alone was looked at, and of one with everything.
func TestText(t *testing.T) {
	full, err := os.ReadFile("testdata/full.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]migrate.Input{
		"minimal": {Config: read(t, "kubernetes_version: v1.30.5-rancher1-1\n"+node)},
		"full": {Config: read(t, string(full)), Live: &migrate.Live{
			Nodes: []migrate.Node{
				{Name: "n1", OS: "Debian 12", Runtime: "docker://20.10.24", Ready: true}, {Name: "n2", OS: "RancherOS v1.5.8", Runtime: "docker://19.3.15", Ready: true},
				{Name: "n3", OS: "Debian 12", Runtime: "docker://20.10.24"},
			},
			Volumes: []migrate.Volume{
				{Name: "pv-a", Kind: "local", Claim: "shop/db", Nodes: []string{"n3"}}, {Name: "pv-b", Kind: "hostPath"}, {Name: "pv-c", Kind: "csi", Driver: "ebs.csi.aws.com"},
				{Name: "pv-d", Kind: "flexVolume", Driver: "ceph.rook.io/rook"}, {Name: "pv-e", Kind: "vsphereVolume"}, {Name: "pv-f", Kind: "glusterfs"}, {Name: "pv-g", Kind: "nfs"},
			},
			DockerPods: []string{"ci/a", "ci/b", "ci/c", "ci/d", "ci/e", "ci/f"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in.Releases = rke2
			report := migrate.Plan(in)
			var text strings.Builder
			if err := report.Text(&text); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Error(diff)
			}
			encoded, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"hunter"} {
				if strings.Contains(text.String()+string(encoded), secret) {
					t.Errorf("the report has the secret %q in it", secret)
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		is       string
		releases []string
		to, says string
	}{
		{"v1.30.5-rancher1-1", rke2, "v1.30.5+rke2r2", ""},
		{"v1.30.6-rancher1-1", rke2, "v1.30.14+rke2r1", ""},
		{"v1.30.15-rancher1-1", rke2, "", "no RKE2 1.30 from patch 15 on"},
		{"v1.23.17-rancher1-1", rke2, "", "upgrade to 1.30 with RKE1 first"},
		{"v1.33.1-rancher1-1", rke2, "", "no RKE2 1.33"},
		{"v1.30.5-rancher1-1", nil, "", "no release of RKE2 is known"},
		{"v1.30.5-rancher1-1", []string{"v1.30.5+k3s1", "v2.30.5+rke2r1"}, "", "no release of RKE2 is known"},
	} {
		cfg := read(t, "kubernetes_version: v1.30.5-rancher1-1\n"+node)
		cfg.KubernetesVersion = c.is
		r := migrate.Plan(migrate.Input{Config: cfg, Releases: c.releases})
		if r.To != c.to || !strings.Contains(r.Items[0].Needs, c.says) {
			t.Errorf("%s: to %q, %+v", c.is, r.To, r.Items[0])
		}
	}
}

// TestItems: what is asked for is found, and nothing where nothing is asked for.
func TestItems(t *testing.T) {
	base := migrate.Plan(migrate.Input{Config: read(t, "kubernetes_version: v1.30.5-rancher1-1\n"+node), Releases: rke2})
	for _, c := range []struct {
		text  string
		topic string
		level migrate.Level
		needs string
	}{
		{"network: {plugin: calico}", "network plugin", migrate.Set, "cni: calico"},
		{"network: {plugin: none}", "network plugin", migrate.Set, "cni: none"},
		{"network: {plugin: weave}", "network plugin", migrate.Without, "choose one"},
		{"network: {options: {canal_iface: eth1}}", "network plugin", migrate.Set, "flannel.iface"},
		{"network: {options: {canal_flannel_backend_port: '9'}}", "network plugin", migrate.Do, "rke2-canal"},
		{"network: {mtu: 1400}", "network plugin", migrate.Do, "MTU"},
		{"services: {kube-controller: {cluster_cidr: 10.1.0.0/16}}", "addresses and names", migrate.Set, "cluster-cidr: 10.1.0.0/16"},
		{"ingress: {provider: none}", "ingress", migrate.Set, "disable: rke2-ingress-nginx"},
		{"ingress: {extra_args: {v: '4'}}", "ingress", migrate.Set, "controller.extraArgs"},
		{"monitoring: {provider: none}", "metrics", migrate.Set, "disable: rke2-metrics-server"},
		{"dns: {provider: none}", "DNS", migrate.Set, "disable: rke2-coredns"},
		{"dns: {provider: kube-dns}", "DNS", migrate.Do, "coredns"},
		{"addons: 'a: b'", "add-ons of your own", migrate.Set, "manifests"},
		{"private_registries: [{url: r.example.com}]", "registries", migrate.Set, "registries.yaml"},
		{"private_registries: [{url: r.example.com, is_default: true}]", "registries", migrate.Do, "system-default-registry: r.example.com"},
		{"private_registries: [{url: r.example.com, ecr_credential_plugin: {aws_access_key_id: a}}]", "registries", migrate.Do, "credential provider"},
		{"services: {kube-api: {secrets_encryption_config: {enabled: true}}}", "encryption of Secrets", migrate.Set, "keys of its own"},
		{"services: {kube-api: {pod_security_configuration: restricted}}", "admission", migrate.Set, "profile: cis"},
		{"services: {kube-api: {always_pull_images: true}}", "admission", migrate.Set, "AlwaysPullImages"},
		{"cloud_provider: {name: vsphere}", "cloud provider", migrate.Do, "external provider"},
		{"cloud_provider: {name: external}", "cloud provider", migrate.Set, "cloud-provider-name: external"},
		{"authorization: {mode: none}", "authorization", migrate.Without, "RBAC"},
		{"services: {etcd: {snapshot: false}}", "snapshots of etcd", migrate.Set, "etcd-disable-snapshots"},
		{"services: {etcd: {backup_config: {enabled: true, s3backupconfig: {endpoint: e, bucket_name: b}}}}", "snapshots of etcd", migrate.Set, "etcd-s3"},
		{"services: {kubelet: {extra_args: {max-pods: '200'}}}", "service kubelet", migrate.Set, "kubelet-arg: max-pods"},
		{"services: {kubelet: {extra_args: {docker-endpoint: x}}}", "service kubelet", migrate.Without, "leave it out"},
		{"services: {kube-api: {extra_args_array: {etcd-servers: [x]}}}", "service kube-api", migrate.Without, "by itself"},
		{"services: {kube-api: {extra_binds: ['/a:/a']}}", "service kube-api", migrate.Set, "kube-apiserver-extra-mount"},
		{"services: {kube-api: {extra_env: ['A=hunter2']}}", "service kube-api", migrate.Set, "kube-apiserver-extra-env"},
		{"services: {kubelet: {extra_env: ['A=hunter2']}}", "service kubelet", migrate.Set, "/etc/default/rke2-server"},
		{"services: {etcd: {extra_args: {election-timeout: '6000'}}}", "service etcd", migrate.Set, "etcd-arg: election-timeout"},
		{"prefix_path: /opt/rke", "paths", migrate.Do, "data-dir"},
	} {
		r := migrate.Plan(migrate.Input{Config: read(t, "kubernetes_version: v1.30.5-rancher1-1\n"+node+c.text), Releases: rke2})
		is := func(i migrate.Item) bool {
			return i.Topic == c.topic && i.Level == c.level && strings.Contains(i.Needs, c.needs)
		}
		if !slices.ContainsFunc(r.Items, is) {
			t.Errorf("%s: nothing of it in %+v", c.text, r.Items)
		}
		if slices.ContainsFunc(base.Items, is) {
			t.Errorf("%s: it is said without being asked for", c.text)
		}
		if slices.ContainsFunc(r.Items, func(i migrate.Item) bool { return strings.Contains(i.Found+i.Needs, "hunter") }) {
			t.Errorf("%s: the plan has the value of a variable", c.text)
		}
	}
}

func TestRoles(t *testing.T) {
	r := migrate.Plan(migrate.Input{Config: read(t, `
nodes:
- {address: 10.0.0.1, user: u, role: [etcd]}
- {address: 10.0.0.2, user: u, role: [controlplane]}
- {address: 10.0.0.3, user: u, role: [worker], taints: [{key: gpu, value: "yes", effect: NoSchedule}]}
`), Releases: rke2})
	got := map[string]string{}
	for _, i := range r.Items {
		if i.Host != "" && (i.Topic == "roles" || i.Topic == "taints") {
			got[i.Host+" "+i.Topic] = i.Needs
			if i.Topic == "taints" {
				got[i.Host+" "+i.Topic] = i.Found
			}
		}
	}
	want := map[string]string{
		"10.0.0.1 roles": "rke2-server with disable-apiserver, disable-controller-manager, disable-scheduler", "10.0.0.1 taints": "node-role.kubernetes.io/etcd=true:NoExecute",
		"10.0.0.2 roles": "rke2-server with disable-etcd", "10.0.0.2 taints": "node-role.kubernetes.io/control-plane=true:NoSchedule",
		"10.0.0.3 roles": "rke2-agent", "10.0.0.3 taints": "gpu=yes:NoSchedule",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
