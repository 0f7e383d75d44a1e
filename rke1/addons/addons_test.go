package addons_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	oldest = "v1.23.17-rancher1-1"
	newest = "v1.30.5-rancher1-1"
)

var builtIn = sync.OnceValues(func() (*versions.Data, error) { return versions.Load(context.Background(), "", versions.Options{}) })

func embedded(t *testing.T) *versions.Data {
	t.Helper()
	d, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// cluster is a filled config of a version with more of a cluster.yml.
func cluster(t *testing.T, version, more string) *config.Cluster {
	t.Helper()
	f, err := config.Parse(strictyaml.Source{}, []byte("kubernetes_version: "+version+"\n"+more))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Warnings) > 0 {
		t.Fatal(f.Warnings)
	}
	d := embedded(t)
	c := config.WithDefaults(f.Cluster, config.Versions{Default: d.Default(), Images: d.Images})
	return &c
}

func of(t *testing.T, c *config.Cluster) map[string]string {
	t.Helper()
	all, err := addons.Of(c, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, a := range all {
		texts[a.Name] = a.Text
	}
	return texts
}

// everything is a config in which every option says something else than by default.
const everything = `
network:
  plugin: canal
  mtu: 1400
  options: {canal_iface: eth1, canal_flannel_backend_port: "4789", canal_flannel_backend_vni: "4096", canal_priority_class_name: net,
    calico_kube_controllers_priority_class_name: ctl, canal_flex_volume_plugin_dir: /opt/flex}
  node_selector: {net: "yes"}
  tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationseconds: 1000000}]
  update_strategy: {strategy: RollingUpdate, rollingUpdate: {maxUnavailable: 20%}}
dns:
  provider: coredns
  options: {coredns_priority_class_name: dns, coredns_autoscaler_priority_class_name: scale}
  upstreamnameservers: [192.0.2.1, 192.0.2.2]
  reversecidrs: [172.31.0.0/16, 10.0.0.0/8]
  stubdomains: {corp.example: ["192.0.2.3", "192.0.2.4"], a.example: ["192.0.2.5"]}
  node_selector: {dns: "yes"}
  tolerations: [{key: b, operator: Exists}]
  update_strategy: {strategy: Recreate}
  linear_autoscaler_params: {cores_per_replica: 64, nodes_per_replica: 2.5, min: 2, max: 9}
  nodelocal: {ip_address: 169.254.20.10, node_selector: {cache: "yes"}, node_local_dns_priority_class_name: cache,
    update_strategy: {strategy: OnDelete}}
monitoring:
  provider: metrics-server
  replicas: 2
  options: {metric-resolution: 30s}
  node_selector: {metrics: "yes"}
  tolerations: [{key: c, operator: Exists}]
  metrics_server_priority_class_name: metrics
  update_strategy: {strategy: Recreate}
ingress:
  provider: nginx
  network_mode: hostPort
  http_port: 8080
  https_port: 8443
  options: {map-hash-bucket-size: "128", ssl-protocols: 'TLSv1.2 "TLSv1.3"'}
  extra_args: {enable-ssl-passthrough: "", default-ssl-certificate: a/b}
  extra_envs: [{name: FOO, value: "a: b"}]
  extra_volumes: [{name: extra, hostPath: {path: /data}}]
  extra_volume_mounts: [{name: extra, mountPath: /data}]
  node_selector: {ingress: "yes"}
  tolerations: [{key: d, operator: Exists}]
  dns_policy: ClusterFirstWithHostNet
  default_backend: true
  default_ingress_class: false
  default_http_backend_priority_class_name: backend
  nginx_ingress_controller_priority_class_name: nginx
  update_strategy: {strategy: OnDelete}
private_registries: [{url: registry.example.com, is_default: true}]
`

// texts are every text of our own that there is, by a name.
func texts(t *testing.T, version string) map[string]string {
	t.Helper()
	named := map[string]string{}
	for _, one := range []struct{ plugin, more string }{
		{"flannel", ""}, {"calico", ""},
		{"canal", "dns: {provider: kube-dns, nodelocal: {ip_address: 169.254.20.10}}\ningress: {default_backend: true, network_mode: hostNetwork}\n"},
	} {
		for name, text := range of(t, cluster(t, version, "network: {plugin: "+one.plugin+"}\n"+one.more)) {
			if name == addons.Network {
				name += "-" + one.plugin
			}
			if name == addons.Ingress && one.more != "" {
				name += "-host"
			}
			if text != "" {
				named[name] = text
			}
		}
	}
	dual := "network: {plugin: calico, mtu: 1400}\nservices: {kube-controller: {cluster_cidr: '10.42.0.0/16,fd00:42::/56'}, kubelet: {cluster_dns_server: '10.43.0.10,fd00:43::a'}}\n"
	named["dual-stack"] = of(t, cluster(t, version, dual))[addons.Network] + "---\n" + of(t, cluster(t, version, dual))[addons.CoreDNS]
	for name, text := range of(t, cluster(t, version, everything)) {
		if text != "" {
			named["everything-"+name] = text
		}
	}
	return named
}

// The bytes of a text decide whether it is applied again, in every cluster.
func TestGolden(t *testing.T) {
	for _, version := range []string{oldest, newest} {
		line, _, _ := strings.Cut(version, "-")
		named := texts(t, version)
		for name, text := range named {
			file := filepath.Join("testdata", line, name+".yaml")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(golden), text); diff != "" {
				t.Errorf("%s differs (-golden +made):\n%s", file, diff)
			}
		}
		if diff := cmp.Diff(named, texts(t, version)); diff != "" {
			t.Errorf("a second time gives other bytes:\n%s", diff)
		}
	}
}

var strict = k8sjson.NewSerializerWithOptions(k8sjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, k8sjson.SerializerOptions{Yaml: true, Strict: true})

// document is one object: typed where client-go knows its kind, and its name.
type document struct {
	name   string
	object runtime.Object
	pod    *corev1.PodTemplateSpec
	match  *metav1.LabelSelector
}

// documents are the objects of a text, read as the API server does, without anything it would not know.
func documents(t *testing.T, text string) []document {
	t.Helper()
	var all []document
	for i, part := range bytes.Split([]byte("\n"+text), []byte("\n---\n")) {
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(part, &head); err != nil {
			t.Fatalf("document %d: %v\n%s", i, err, part)
		}
		if head.Kind == "" {
			continue
		}
		d := document{name: fmt.Sprint(head.APIVersion, " ", head.Kind, " ", head.Namespace, "/", head.Name)}
		if head.Kind != "CustomResourceDefinition" && head.Kind != "APIService" { // client-go does not have these
			o, _, err := strict.Decode(part, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", d.name, err, part)
			}
			d.object = o
			switch o := o.(type) {
			case *appsv1.DaemonSet:
				d.pod, d.match = &o.Spec.Template, o.Spec.Selector
			case *appsv1.Deployment:
				d.pod, d.match = &o.Spec.Template, o.Spec.Selector
			case *batchv1.Job:
				d.pod = &o.Spec.Template
			}
		}
		all = append(all, d)
	}
	return all
}

func TestObjectsAreRight(t *testing.T) {
	cluster := []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService", "IngressClass", "ValidatingWebhookConfiguration"}
	for _, version := range []string{oldest, newest, "v1.31.4-rancher1-1"} {
		for name, text := range texts(t, version) {
			seen := map[string]bool{}
			for _, d := range documents(t, text) {
				if seen[d.name] {
					t.Errorf("%s %s: %s is there twice", version, name, d.name)
				}
				seen[d.name] = true
				kind := strings.Fields(d.name)[1]
				if slices.Contains(cluster, kind) != strings.Contains(d.name, " /") {
					t.Errorf("%s %s: the namespace of %s", version, name, d.name)
				}
				if d.pod == nil {
					continue
				}
				checkPod(t, version+" "+name+" "+d.name, d)
				if account := d.pod.Spec.ServiceAccountName; account != "" && !strings.Contains(text, "kind: ServiceAccount\nmetadata:\n  name: "+account+"\n") {
					t.Errorf("%s %s: %s has the account %s, which is not there", version, name, d.name, account)
				}
			}
		}
	}
}

// checkPod looks at what the API server refuses, and at what would not come up.
func checkPod(t *testing.T, name string, d document) {
	t.Helper()
	if d.match != nil {
		for key, value := range d.match.MatchLabels {
			if d.pod.Labels[key] != value {
				t.Errorf("%s: the selector does not match its pods: %v", name, d.pod.Labels)
			}
		}
	}
	volumes := map[string]bool{}
	for _, v := range d.pod.Spec.Volumes {
		if volumes[v.Name] {
			t.Errorf("%s: the volume %s is there twice", name, v.Name)
		}
		volumes[v.Name] = true
	}
	for _, c := range slices.Concat(d.pod.Spec.InitContainers, d.pod.Spec.Containers) {
		paths, names := map[string]bool{}, map[string]bool{}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || paths[m.MountPath] {
				t.Errorf("%s: %s mounts %s at %s, which is not there or taken", name, c.Name, m.Name, m.MountPath)
			}
			paths[m.MountPath] = true
		}
		for _, e := range c.Env {
			if names[e.Name] {
				t.Errorf("%s: %s has %s twice", name, c.Name, e.Name)
			}
			names[e.Name] = true
		}
	}
}

// A cluster that RKE made has these workloads and bindings already: neither a selector nor the
// role of a binding can be changed.
func TestWhatCannotBeChangedIsRKEs(t *testing.T) {
	want := map[string]string{
		"DaemonSet kube-flannel": "k8s-app=flannel", "DaemonSet canal": "k8s-app=canal", "DaemonSet calico-node": "k8s-app=calico-node",
		"Deployment calico-kube-controllers": "k8s-app=calico-kube-controllers", "Deployment coredns": "k8s-app=kube-dns",
		"Deployment coredns-autoscaler": "k8s-app=coredns-autoscaler", "Deployment kube-dns": "k8s-app=kube-dns",
		"Deployment kube-dns-autoscaler": "k8s-app=kube-dns-autoscaler", "DaemonSet node-local-dns": "k8s-app=node-local-dns",
		"Deployment metrics-server": "k8s-app=metrics-server", "DaemonSet nginx-ingress-controller": "app=ingress-nginx",
		"Deployment default-http-backend": "app=default-http-backend",

		"ClusterRoleBinding flannel": "flannel", "ClusterRoleBinding canal-flannel": "flannel", "ClusterRoleBinding canal-calico": "calico",
		"ClusterRoleBinding calico-node": "calico-node", "ClusterRoleBinding calico-kube-controllers": "calico-kube-controllers",
		"ClusterRoleBinding system:coredns": "system:coredns", "ClusterRoleBinding system:coredns-autoscaler": "system:coredns-autoscaler",
		"ClusterRoleBinding system:kube-dns-autoscaler": "system:kube-dns-autoscaler", "ClusterRoleBinding system:metrics-server": "system:metrics-server",
		"ClusterRoleBinding metrics-server:system:auth-delegator": "system:auth-delegator", "ClusterRoleBinding ingress-nginx": "ingress-nginx",
		"ClusterRoleBinding ingress-nginx-admission": "ingress-nginx-admission",
	}
	got := map[string]string{}
	for _, text := range texts(t, newest) {
		for _, d := range documents(t, text) {
			kind, name, _ := strings.Cut(strings.Join(strings.Fields(d.name)[1:], " "), " ")
			name = kind + " " + name[strings.LastIndex(name, "/")+1:]
			if d.match != nil {
				got[name] = metav1.FormatLabelSelector(d.match)
			}
			if b, ok := d.object.(*rbacv1.ClusterRoleBinding); ok {
				got[name] = b.RoleRef.Name
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Hosts of the roles etcd and controlplane alone have taints, and pods too: they need the network,
// the cache of DNS that their kubelets name, and whatever has nowhere else to run.
func TestTaintsOfRolesAreTolerated(t *testing.T) {
	taints := []corev1.Taint{
		{Key: "node-role.kubernetes.io/etcd", Value: "true", Effect: corev1.TaintEffectNoExecute},
		{Key: "node-role.kubernetes.io/controlplane", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule},
	}
	found := 0
	for name, text := range texts(t, newest) {
		for _, d := range documents(t, text) {
			if _, always := d.object.(*appsv1.DaemonSet); d.pod == nil || !always && strings.HasPrefix(name, "everything-") {
				continue
			}
			found++
			for _, taint := range taints {
				if !slices.ContainsFunc(d.pod.Spec.Tolerations, func(t corev1.Toleration) bool {
					return t.Operator == corev1.TolerationOpExists && t.Key == "" && (t.Effect == "" || t.Effect == taint.Effect)
				}) {
					t.Errorf("%s: %s does not tolerate %s", name, d.name, taint.Key)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d workloads were looked at", found)
	}
}

func TestImagesAreThoseOfTheConfig(t *testing.T) {
	for _, registry := range []string{"", "registry.example.com/"} {
		more := everything
		if registry == "" {
			more, _, _ = strings.Cut(everything, "private_registries")
		}
		for _, plugin := range []string{"canal", "flannel", "calico"} {
			for _, dns := range []string{"coredns", "kube-dns"} {
				c := cluster(t, oldest, strings.NewReplacer("plugin: canal\n  mtu: 1400", "plugin: "+plugin, "provider: coredns", "provider: "+dns).Replace(more))
				listed, err := json.Marshal(c.SystemImages)
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range of(t, c) {
					for _, d := range documents(t, text) {
						if d.pod == nil {
							continue
						}
						for _, container := range slices.Concat(d.pod.Spec.InitContainers, d.pod.Spec.Containers) {
							if !strings.HasPrefix(container.Image, registry+"rancher/") || !strings.Contains(string(listed), `"`+container.Image+`"`) {
								t.Errorf("%s of %s has the image %q", container.Name, d.name, container.Image)
							}
						}
					}
				}
			}
		}
	}
}

func TestOrderAndAbsence(t *testing.T) {
	type entry struct {
		Name  string
		There bool
	}
	all := func(more string) (entries []entry, replaced []addons.Object) {
		own, err := addons.Of(cluster(t, newest, more), embedded(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range own {
			entries = append(entries, entry{a.Name, a.Text != ""})
			replaced = append(replaced, a.Replaced...)
			if a.Users {
				t.Errorf("%s is said to be a user's", a.Name)
			}
		}
		return entries, replaced
	}
	got, replaced := all("")
	if diff := cmp.Diff([]entry{
		{addons.Network, true}, {addons.KubeDNS, false}, {addons.CoreDNS, true}, {addons.NodeLocal, false}, {addons.Metrics, true}, {addons.Ingress, true},
	}, got); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]addons.Object{
		{"batch/v1", "Job", "ingress-nginx", "ingress-nginx-admission-create"}, {"batch/v1", "Job", "ingress-nginx", "ingress-nginx-admission-patch"},
		{"v1", "Service", "ingress-nginx", "default-http-backend"}, {"apps/v1", "Deployment", "ingress-nginx", "default-http-backend"},
	}, replaced); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if _, replaced = all("ingress: {default_backend: true}"); len(replaced) != 2 {
		t.Errorf("with a default backend %v are replaced", replaced)
	}
	got, replaced = all("network: {plugin: none}\ndns: {provider: none, nodelocal: {ip_address: 169.254.20.10}}\nmonitoring: {provider: none}\ningress: {provider: none}\n")
	if diff := cmp.Diff([]entry{
		{addons.KubeDNS, false}, {addons.CoreDNS, false}, {addons.NodeLocal, false}, {addons.Metrics, false}, {addons.Ingress, false},
	}, got); diff != "" || len(replaced) > 0 {
		t.Errorf("with nothing (-want +got), replaced %v:\n%s", replaced, diff)
	}
	c := cluster(t, newest, "")
	c.DNS = nil // a state that another program wrote
	if texts := of(t, c); texts[addons.CoreDNS]+texts[addons.NodeLocal] != "" {
		t.Error("there is DNS that no config speaks of")
	}
	got, _ = all("dns: {provider: kube-dns, nodelocal: {ip_address: 169.254.20.10}}")
	if diff := cmp.Diff([]entry{
		{addons.Network, true}, {addons.CoreDNS, false}, {addons.KubeDNS, true}, {addons.NodeLocal, true}, {addons.Metrics, true}, {addons.Ingress, true},
	}, got); diff != "" {
		t.Errorf("with kube-dns (-want +got):\n%s", diff)
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		more, addon string
		has, hasNot []string
	}{
		{"network: {plugin: flannel, options: {flannel_iface: eth1, flannel_backend_type: host-gw}}", addons.Network,
			[]string{`"--iface=eth1"`, `{\"Network\":\"10.42.0.0/16\",\"Backend\":{\"Type\":\"host-gw\"}}`}, []string{"VNI"}},
		{"network: {plugin: flannel}", addons.Network, []string{`\"Port\":8472,\"Type\":\"vxlan\",\"VNI\":1`}, []string{"--iface"}},
		{"network: {plugin: canal}", addons.Network, []string{`veth_mtu: "1450"`, `bgpfilters.crd`}, []string{"--iface", "flexvol", "tiers.crd"}},
		{"network: {plugin: calico}", addons.Network, []string{`veth_mtu: "0"`, `{name: CALICO_IPV4POOL_CIDR, value: "10.42.0.0/16"}`, `"assign_ipv6": "false"`}, []string{"IPV6POOL"}},
		{"network: {plugin: calico}\nservices: {kube-controller: {cluster_cidr: 'fd00:42::/56'}}", addons.Network,
			[]string{"CALICO_ROUTER_ID", `"fd00:42::/56"`, `"assign_ipv4": "false"`, "{name: IP, value: none}"}, []string{"IPV4POOL"}},
		{"network: {plugin: canal, options: {canal_iface: '\"eth: 1'}}", addons.Network, []string{`- "--iface=\"eth: 1"`}, nil},
		{"ingress: {network_mode: hostNetwork, http_port: 8080}", addons.Ingress,
			[]string{"hostNetwork: true", "--http-port=8080", "containerPort: 8080", "containerPort: 443", `"--watch-ingress-without-class=true"`, "is-default-class"},
			[]string{"hostPort", "--https-port", "default-http-backend"}},
		{"ingress: {network_mode: none}", addons.Ingress, []string{"containerPort: 80"}, []string{"hostPort", "hostNetwork"}},
		{"ingress: {network_mode: hostPort, http_port: 81, extra_args: {http-port: '8081', watch-ingress-without-class: 'false'}}", addons.Ingress,
			[]string{"hostPort: 81", "containerPort: 8081", `"--http-port=8081"`, `"--watch-ingress-without-class=false"`}, []string{"--http-port=81\n", "class=true"}},
		{"system_images: {ingress: 'example.com/nginx:0.49.3-rancher1'}", addons.Ingress, []string{`"example.com/nginx:0.49.3-rancher1"`}, []string{"without-class"}},
		{"ingress: {default_ingress_class: false}", addons.Ingress, []string{"--election-id=ingress-controller-leader\n", `"--watch-ingress-without-class=true"`}, []string{"is-default-class"}},
		{"dns: {provider: kube-dns, stubdomains: {a.example: [192.0.2.1]}, upstreamnameservers: [192.0.2.2], nodelocal: {ip_address: 'fd00::10'}}", addons.NodeLocal,
			[]string{"bind fd00::10 10.43.0.10", "health [fd00::10]:8080", "forward . __PILLAR__UPSTREAM__SERVERS__"}, []string{"a.example", "192.0.2.2"}},
		{"dns: {stubdomains: {a.example: [192.0.2.1]}, upstreamnameservers: [192.0.2.2], nodelocal: {ip_address: 169.254.20.10}}", addons.NodeLocal,
			[]string{"a.example:53", "forward . 192.0.2.1\n", "forward . 192.0.2.2\n"}, []string{"__PILLAR__UPSTREAM"}},
		{"monitoring: {replicas: 0}", addons.Metrics, []string{"replicas: 0"}, nil},
		{"", addons.CoreDNS, []string{"forward . /etc/resolv.conf", "cluster.local in-addr.arpa ip6.arpa {", `clusterIP: "10.43.0.10"`, `{\"linear\":{\"coresPerReplica\":128,`}, []string{"clusterIPs"}},
	}
	for _, tt := range tests {
		text := of(t, cluster(t, newest, tt.more))[tt.addon]
		for _, part := range tt.has {
			if !strings.Contains(text, part) {
				t.Errorf("with %q, %s lacks %q", tt.more, tt.addon, part)
			}
		}
		for _, part := range tt.hasNot {
			if strings.Contains(text, part) {
				t.Errorf("with %q, %s has %q", tt.more, tt.addon, part)
			}
		}
	}
	if text := of(t, cluster(t, "v1.31.4-rancher1-1", ""))[addons.Network]; !strings.Contains(text, "tiers.crd.projectcalico.org") {
		t.Error("calico 3.29 has no tiers")
	}
}

func TestTheConfigStaysAsItIs(t *testing.T) {
	for _, more := range []string{"", everything} {
		c := cluster(t, newest, more)
		before, err := config.Write(*c)
		if err != nil {
			t.Fatal(err)
		}
		of(t, c)
		after, err := config.Write(*c)
		if diff := cmp.Diff(string(before), string(after)); diff != "" || err != nil {
			t.Errorf("-before +after, %v:\n%s", err, diff)
		}
	}
}

func TestATextThatNoConfigMapHolds(t *testing.T) {
	c := cluster(t, newest, "")
	c.Ingress.Options = map[string]string{"a": strings.Repeat("a", 1_000_000)}
	_, err := addons.Of(c, embedded(t))
	if want := "add-on rke-ingress-controller: its text has "; err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 200 {
		t.Errorf("the error is %.200v, want %s…", err, want)
	}
}

func TestRefused(t *testing.T) {
	tests := []struct{ version, more, want string }{
		{newest, "network: {plugin: weave}", "add-on rke-network-plugin: there is no text for weave: the built-in version data have no template for Kubernetes v1.30.5-rancher1-1; data of KDM have one: give a file or an address of KDM's data.json that has it, by --version-data of drover rke or by RANCHER_METADATA_URL in the environment"},
		{newest, "network: {plugin: cilium}", `add-on rke-network-plugin: network.plugin: "cilium" is not one of canal, calico, flannel, weave, aci, none`},
		{newest, "network: {plugin: aci}", `add-on rke-network-plugin: network.options.aci_static_external_subnet: "" is not a range such as 10.3.0.1/16`},
		{"v1.19.0-rancher1-1", "", "add-on rke-network-plugin: there is no text for Kubernetes v1.19.0-rancher1-1: drover's own are for 1.22 and later; data of KDM have one: give a file or an address of KDM's data.json that has it, by --version-data of drover rke or by RANCHER_METADATA_URL in the environment"},
		{"latest", "", `kubernetes_version: "latest" is not a version such as v1.30.5-rancher1-1`},
		{"v1.30.99-rancher1-1", "", "add-on rke-network-plugin: system_images.canal_cni is empty, and the version data have no image for it; write one"},
		{newest, "network: {options: {canal_flannel_backend_port: many}}", `add-on rke-network-plugin: network.options.canal_flannel_backend_port: "many" is not a number`},
		{newest, "services: {kube-controller: {cluster_cidr: '10.42.0.0/16,fd00::/56'}}", `add-on rke-network-plugin: services.kube-controller.cluster_cidr: "10.42.0.0/16,fd00::/56" has a range of IPv6, which the plugin canal has not here; use calico`},
		{newest, "services: {kube-controller: {cluster_cidr: '10.42.0.0/16,10.44.0.0/16'}}", `add-on rke-network-plugin: services.kube-controller.cluster_cidr: "10.42.0.0/16,10.44.0.0/16" has two ranges of IPv4; write one of each family`},
		{newest, "services: {kube-controller: {cluster_cidr: here}}", `add-on rke-network-plugin: services.kube-controller.cluster_cidr: "here" is not a range such as 10.42.0.0/16`},
		{newest, "dns: {provider: bind}", `add-on rke-coredns-addon: dns.provider: "bind" is not one of coredns, kube-dns, none`},
		{newest, "dns: {upstreamnameservers: [192.0.2.1, 'a b']}", `add-on rke-coredns-addon: dns.upstreamnameservers[1]: "a b" is not one address or range`},
		{newest, "dns: {stubdomains: {'a}': [192.0.2.1]}}", `add-on rke-coredns-addon: dns.stubdomains: "a}" is not the name of a domain`},
		{newest, "dns: {stubdomains: {a.example: []}}", `add-on rke-coredns-addon: dns.stubdomains.a.example: names no server`},
		{newest, "dns: {nodelocal: {ip_address: 'a b'}}", `add-on rke-nodelocal-addon: dns.nodelocal.ip_address: "a b" is not an IP address`},
		{newest, "services: {kubelet: {cluster_domain: 'a b'}}", `add-on rke-coredns-addon: services.kubelet.cluster_domain: "a b" is not the name of a domain`},
	}
	for _, tt := range tests {
		all, err := addons.Of(cluster(t, tt.version, tt.more), embedded(t))
		if err == nil || err.Error() != tt.want || all != nil {
			t.Errorf("%s with %q gives %d add-ons and the error\n%v, want\n%s", tt.version, tt.more, len(all), err, tt.want)
		}
	}
}

func TestChange(t *testing.T) {
	if got := (addons.Addon{Name: "shop", Text: "kind: Job"}).Change(); got != "add-on shop: apply" {
		t.Error(got)
	}
	if got := (addons.Addon{Name: "shop"}).Change(); got != "add-on shop: remove its objects" {
		t.Error(got)
	}
}
