package check_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/google/go-cmp/cmp"
)

// versions has images for all but one version.
var versions = config.Versions{
	Default: "v1.30.5-rancher1-1",
	Images: func(version string) (config.SystemImages, error) {
		if version == "v1.99.0-rancher1-1" {
			return config.SystemImages{}, errors.New("v1.99.0-rancher1-1 is not a version that the test knows")
		}
		return config.SystemImages{Etcd: "etcd:1", Kubernetes: "hyperkube:1", PodInfraContainer: "pause:1"}, nil
	},
}

const good = `kubernetes_version: v1.30.5-rancher1-1
nodes:
- {address: 203.0.113.10, user: u, role: [controlplane, etcd, worker]}
`

func checked(t *testing.T, text string) (errs, warnings strictyaml.Errors) {
	t.Helper()
	f, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Warnings) > 0 {
		t.Fatal(f.Warnings)
	}
	return check.Cluster(config.WithDefaults(f.Cluster, versions), versions, f)
}

func node(fields string) string {
	return "nodes:\n- {address: 203.0.113.10, user: u, role: [controlplane, etcd, worker]}\n- {" + fields + "}\n"
}

func version(v, text string) string {
	return strings.Replace(good, "v1.30.5-rancher1-1", v, 1) + text
}

func TestGood(t *testing.T) {
	for name, text := range map[string]string{
		"one host": good,
		"IPv6 and a name": "nodes:\n- {address: \"2001:db8::1\", hostname_override: a, user: u, role: [controlplane, etcd, worker]}\n" +
			"- {address: host.example.com, internal_address: 10.0.0.1, user: u, role: [worker]}\n",
		"dual stack": good + "network: {plugin: calico}\nservices:\n  kube-api: {service_cluster_ip_range: 'fd00:1::/112,10.43.0.0/16'}\n" +
			"  kube-controller: {service_cluster_ip_range: 'fd00:1::/112,10.43.0.0/16', cluster_cidr: '10.42.0.0/16,fd00:2::/56'}\n",
		"etcd elsewhere": "nodes: [{address: a, user: u, role: [controlplane, worker]}]\n" +
			"services: {etcd: {external_urls: ['https://e:2379'], ca_cert: a, cert: b, key: c, path: /p}}\n",
		"cri-dockerd off where Kubernetes has its own way": version("v1.23.17-rancher1-1", "enable_cri_dockerd: false\n"),
		"an old version": version("v1.16.15-rancher1-5", ""),
		"no network":     good + "network: {plugin: none}\ningress: {provider: none}\ndns: {provider: none}\nmonitoring: {provider: none}\n",
	} {
		if errs, warnings := checked(t, text); len(errs)+len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, errs, warnings)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a version that is none", version("1.30.5", ""), `cluster.yml:1: kubernetes_version: "1.30.5" is not a version such as`},
		{"an unsupported version", version("v1.99.0-rancher1-1", ""),
			"cluster.yml:1: kubernetes_version: v1.99.0-rancher1-1 is not a version that the test knows; or give its images, of which system_images lacks etcd, kubernetes, pod_infra_container, alpine"},
		{"an address twice", node("address: 203.0.113.10, user: u, role: [worker]"),
			`cluster.yml:3: nodes[1].address: "203.0.113.10" is also the address of nodes[0]; each host stands here once, with all its roles`},
		{"a hostname override twice", "nodes:\n- {address: a, hostname_override: N1, user: u, role: [controlplane, etcd, worker]}\n- {address: b, hostname_override: n1, user: u, role: [worker]}\n",
			`cluster.yml:3: nodes[1].hostname_override: "n1" is also the name in Kubernetes of nodes[0]`},
		{"an internal address twice", node("address: a, internal_address: 203.0.113.10, user: u, role: [worker]"), "nodes[1].internal_address: "},
		{"a name twice", "nodes:\n- {nodeName: m, address: a, user: u, role: [controlplane, etcd, worker]}\n- {nodeName: m, address: b, user: u, role: [worker]}\n", "cluster.yml:3: nodes[1].nodeName: "},
		{"no nodes", "cluster_name: a", "nodes: is missing"},
		{"no address", node("user: u, role: [worker]"), "cluster.yml:3: nodes[1].address: is missing"},
		{"an address with a port", node("address: 'a:22', user: u, role: [worker]"), `nodes[1].address: "a:22" is neither an IP address nor a DNS name`},
		{"a port that is none", node("address: a, port: 70000, user: u, role: [worker]"), `nodes[1].port: "70000" is not a port from 1 to 65535`},
		{"no user", node("address: a, role: [worker]"), "nodes[1].user: is missing"},
		{"no role", node("address: a, user: u"), "nodes[1].role: is missing"},
		{"a role misspelt", node("address: a, user: u, role: [worker, control-plane]"), `nodes[1].role[1]: "control-plane" is not one of controlplane, etcd, worker`},
		{"a hostname that is none", node("address: a, hostname_override: a_b, user: u, role: [worker]"), `nodes[1].hostname_override: "a_b" is not a DNS name`},
		{"no etcd node", "nodes:\n- {address: a, user: u, role: [controlplane, worker]}\n", "cluster.yml:1: nodes: none has the role etcd"},
		{"no control plane", "nodes:\n- {address: a, user: u, role: [etcd, worker]}\n", "cluster.yml:1: nodes: none has the role controlplane"},
		{"etcd here and elsewhere", good + "services: {etcd: {external_urls: [a], ca_cert: a, cert: b, key: c, path: /p}}", "services.etcd.external_urls: is an etcd elsewhere, and 1 of the nodes"},
		{"an incomplete etcd", "nodes: [{address: a, user: u, role: [controlplane, worker]}]\nservices: {etcd: {external_urls: [a], ca_cert: a, cert: b, path: /p}}", "services.etcd.key: is missing"},
		{"a strategy without x509", good + "authentication: {strategy: webhook}", "cluster.yml:4: authentication.strategy: has to contain x509"},
		{"another strategy", good + "authentication: {strategy: x509|oidc}", `authentication.strategy: "oidc" is not one of x509, webhook`},
		{"another authorization", good + "authorization: {mode: abac}", `authorization.mode: "abac" is not one of rbac, none`},
		{"another plugin", good + "network: {plugin: cilium}", `network.plugin: "cilium" is not one of canal, calico`},
		{"an MTU of flannel", good + "network: {plugin: flannel, mtu: 1400}", "network.mtu: cannot be set with flannel"},
		{"a password that weave never had", version("v1.26.15-rancher1-1", "network: {plugin: weave, options: {weave_password: hunter2}}"), "network.options: weave_password is not the option of the password"},
		{"weave where it is no more", good + "network: {plugin: weave}", "network.plugin: weave is not there from Kubernetes 1.30 on"},
		{"aci without its settings", good + "network: {plugin: aci, aci_network_provider: {system_id: s}}", "network.aci_network_provider: lacks token"},
		{"dual stack of canal", good + "services: {kube-controller: {cluster_cidr: '10.42.0.0/16,fd00::/56'}}", "network.plugin: canal has no dual stack"},
		{"a range that is none", good + "services: {kube-api: {service_cluster_ip_range: 10.43.0.0}}", `services.kube-api.service_cluster_ip_range: "10.43.0.0" is not a range such as 10.43.0.0/16`},
		{"three ranges", good + "services: {kube-controller: {cluster_cidr: '10.1.0.0/16,10.2.0.0/16,10.3.0.0/16'}}", "has 3 ranges"},
		{"DNS that is no address", good + "services: {kubelet: {cluster_dns_server: dns}}", `services.kubelet.cluster_dns_server: "dns" is not an IP address`},
		{"AWS where it is no more", good + "cloud_provider: {name: aws}", "cloud_provider.name: aws is not there from Kubernetes 1.27 on"},
		{"a cloud without a name", good + "cloud_provider: {customCloudProvider: a}", "cloud_provider.name: is missing"},
		{"another ingress", good + "ingress: {provider: traefik}", `ingress.provider: "traefik" is not one of nginx, none`},
		{"another DNS policy", good + "ingress: {dns_policy: First}", `ingress.dns_policy: "First" is not one of ClusterFirst`},
		{"a port of ingress that is none", good + "ingress: {https_port: 65536}", "ingress.https_port: 65536 is not a port"},
		{"one port for two", good + "ingress: {http_port: 443}", "ingress.https_port: 443 is also the http_port"},
		{"another mode", good + "ingress: {network_mode: bridge}", `ingress.network_mode: "bridge" is not one of hostPort`},
		{"another DNS", good + "dns: {provider: bind}", `dns.provider: "bind" is not one of coredns`},
		{"another metrics server", good + "monitoring: {provider: prometheus}", `monitoring.provider: "prometheus" is not one of metrics-server`},
		{"cri-dockerd too early", version("v1.20.15-rancher2-2", "enable_cri_dockerd: true\n"), "cluster.yml:4: enable_cri_dockerd: cri-dockerd is there from Kubernetes 1.21 on"},
		{"no cri-dockerd", good + "enable_cri_dockerd: false", "cluster.yml:4: enable_cri_dockerd: false leaves the kubelet without a way to Docker"},
		{"another pod security", good + "services: {kube-api: {pod_security_configuration: baseline}}", `pod_security_configuration: "baseline" is not one of privileged, restricted`},
		{"pod security without RBAC", good + "authorization: {mode: none}\nservices: {kube-api: {pod_security_configuration: restricted}}",
			"cluster.yml:5: services.kube-api.pod_security_configuration: needs authorization.mode: rbac"},
		{"no RBAC", good + "authorization: {mode: none}", "cluster.yml:4: authorization.mode: has to be rbac from Kubernetes 1.23 on"},
		{"pod security too early", version("v1.22.17-rancher1-2", "services: {kube-api: {pod_security_configuration: restricted}}"), "is there from Kubernetes 1.23 on"},
		{"an audit policy that is none", good + "services: {kube-api: {audit_log: {enabled: true, configuration: {policy: {kind: Policy, apiVersion: audit.k8s.io/v1beta1, rules: []}}}}}",
			`services.kube-api.audit_log.configuration.policy: is kind "Policy" of apiVersion "audit.k8s.io/v1beta1"; it has to be Policy of audit.k8s.io/v1`},
		{"an admission configuration without a kind", good + "services: {kube-api: {admission_configuration: {plugins: []}}}", `services.kube-api.admission_configuration: is kind ""`},
		{"limits of events without a kind", good + "services: {kube-api: {event_rate_limit: {enabled: true, configuration: {limits: []}}}}", "services.kube-api.event_rate_limit.configuration: is kind"},
		{"an encryption that is none", good + "services: {kube-api: {secrets_encryption_config: {enabled: true, custom_config: {kind: EncryptionConfig, apiVersion: v1}}}}",
			"secrets_encryption_config.custom_config: is kind"},
		{"an address that is no name", "nodes:\n- {address: '2001:db8::1', user: u, role: [controlplane, etcd, worker]}\n",
			`cluster.yml:2: nodes[0].hostname_override: is missing, and the address, "2001:db8::1", cannot be the name of a node`},
		{"S3 without an endpoint", good + "services: {etcd: {backup_config: {s3backupconfig: {bucket_name: b}}}}", "s3backupconfig.endpoint: is missing"},
		{"S3 without a bucket", good + "services: {etcd: {backup_config: {s3backupconfig: {endpoint: e}}}}", "s3backupconfig.bucket_name: is missing"},
		{"a CA that is none", good + "services: {etcd: {backup_config: {s3backupconfig: {endpoint: e, bucket_name: b, custom_ca: c}}}}", "custom_ca: is not a certificate in PEM"},
		{"a retention of less than none", good + "services: {etcd: {backup_config: {retention: -1}}}", "backup_config.retention: -1 is less than none"},
		{"no host at a time", good + "upgrade_strategy: {max_unavailable_worker: 0}", `max_unavailable_worker: "0" is neither a number of hosts`},
		{"more than all hosts", good + "upgrade_strategy: {max_unavailable_controlplane: 101%}", `max_unavailable_controlplane: "101%" is neither`},
		{"a negative time", good + "upgrade_strategy: {node_drain_input: {timeout: -1}}", "node_drain_input.timeout: -1 is not a number of seconds"},
		{"a negative timeout", good + "addon_job_timeout: -1", "addon_job_timeout: -1 is not a number of seconds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if errs, _ := checked(t, tc.text); !strings.Contains(errs.Error(), tc.want) {
				t.Errorf("the errors are\n%v\nwant one with\n%s", errs, tc.want)
			}
		})
	}
}

func TestWarns(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"an even number of etcd", "nodes:\n- {address: a, user: u, role: [controlplane, etcd, worker]}\n- {address: b, user: u, role: [etcd]}\n", "cluster.yml:1: nodes: 2 of them have the role etcd"},
		{"no worker", "nodes: [{address: a, user: u, role: [controlplane, etcd]}]", "nodes: none has the role worker"},
		{"a taint of a role", "nodes:\n- {address: a, user: u, role: [controlplane, etcd, worker], taints: [{key: node-role.kubernetes.io/etcd, value: 'true', effect: NoExecute}]}",
			"cluster.yml:2: nodes[0].taints[0]: node-role.kubernetes.io/etcd follows from the roles"},
		{"weave before its end", version("v1.29.9-rancher1-1", "network: {plugin: weave}"), "network.plugin: weave is deprecated"},
		{"DNS elsewhere", good + "services: {kubelet: {cluster_dns_server: 10.53.0.10}}", "cluster_dns_server: 10.53.0.10 is not in the range of services, 10.43.0.0/16"},
		{"two ranges of services", good + "services: {kube-controller: {service_cluster_ip_range: 10.44.0.0/16}}", `service_cluster_ip_range: "10.44.0.0/16" is not that of kube-api`},
		{"pods among services", good + "services: {kube-controller: {cluster_cidr: 10.43.128.0/17}}", "cluster_cidr: 10.43.128.0/17 of pods overlaps with 10.43.0.0/16 of services"},
		{"an endpoint with a scheme", good + "services: {etcd: {backup_config: {s3backupconfig: {endpoint: 'https://e', bucket_name: b}}}}", "https://e is taken by no program"},
		{"one key of two", good + "services: {etcd: {backup_config: {s3backupconfig: {endpoint: e, bucket_name: b, access_key: k}}}}", "there is one key of two"},
		{"keys in a container", good + "services: {etcd: {backup_config: {s3backupconfig: {endpoint: e, bucket_name: b, access_key: k, secret_key: s}}}}", "etcd-rolling-snapshots has the bucket's keys"},
		{"a registry with a scheme", good + "private_registries: [{url: 'https://r'}]", "private_registries[0].url: has a scheme"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs, warnings := checked(t, tc.text)
			if len(errs) > 0 || !strings.Contains(warnings.Error(), tc.want) {
				t.Errorf("errors\n%v\nwarnings\n%v\nwant one with\n%s", errs, warnings, tc.want)
			}
		})
	}
}

// TestOrder is that of the RKE CLI: version, duplicates, nodes, and then settings.
func TestOrder(t *testing.T) {
	errs, _ := checked(t, `kubernetes_version: latest
nodes:
- {address: a, user: u, role: [controlplane, etcd, worker]}
- {address: a, role: [worker]}
authentication: {strategy: none}
network: {plugin: cilium}
ingress: {provider: traefik}
services: {etcd: {backup_config: {s3backupconfig: {endpoint: e}}}}
`)
	var paths []string
	for _, e := range errs {
		paths = append(paths, e.Path)
	}
	want := []string{
		"kubernetes_version", "nodes[1].address", "nodes[1].user", "authentication.strategy", "authentication.strategy",
		"network.plugin", "ingress.provider", "services.etcd.backup_config.s3backupconfig.bucket_name",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("%s\n%v", diff, errs)
	}
}

// TestImagesOfOnesOwn make an unknown version one that can be deployed.
func TestImagesOfOnesOwn(t *testing.T) {
	text := version("v1.99.0-rancher1-1", `system_images: {etcd: a, kubernetes: b, pod_infra_container: c, alpine: d, nginx_proxy: e, cert_downloader: f, kubernetes_services_sidecar: g,
  canal_node: h, canal_cni: i, canal_flannel: j, coredns: k, coredns_autoscaler: l, metrics_server: m, ingress: n, ingress_backend: o, ingress_webhook: p}
`)
	if errs, _ := checked(t, text); len(errs) > 0 {
		t.Error(errs)
	}
	for _, image := range []string{"alpine: d, ", ", ingress_webhook: p", "canal_cni: i, ", "coredns: k, ", "metrics_server: m, "} {
		name, _, _ := strings.Cut(strings.TrimPrefix(image, ", "), ":")
		if errs, _ := checked(t, strings.Replace(text, image, "", 1)); !strings.HasSuffix(errs.Error(), "system_images lacks "+name) {
			t.Errorf("without %s: %v", name, errs)
		}
	}
}

// TestWithoutAFile: a config of a state has fields and no lines.
func TestWithoutAFile(t *testing.T) {
	errs, _ := check.Cluster(config.WithDefaults(config.Cluster{Nodes: []config.Node{{}}}, versions), versions, nil)
	if len(errs) == 0 || errs[0].Error() != "nodes[0].address: is missing; it is where the host is reached" {
		t.Error(errs)
	}
}

// TestNoSecretsInErrors: every text of a config that breaks every rule is a secret here, and only
// those that are no secrets in any config are repeated.
func TestNoSecretsInErrors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "testdata", "full.yml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse(strictyaml.Source{}, text)
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(f.Cluster, versions)
	c.Nodes[0].SSHKey, c.BastionHost.SSHKey, c.Services.Etcd.Key = "hunter2", "hunter2", "hunter2"
	c.Services.Etcd.BackupConfig.S3.SecretKey, c.Services.Etcd.BackupConfig.S3.CustomCA = "hunter2", "hunter2"
	c.PrivateRegistries[0].Password, c.PrivateRegistries[0].URL = "hunter2", "https://user:hunter2@registry"
	c.CloudProvider.Custom, c.Network.Options["weave_password"] = "hunter2", "hunter2"
	errs, warnings := check.Cluster(c, versions, f)
	if all := errs.Error() + warnings.Error(); strings.Contains(all, "hunter2") || len(errs) == 0 {
		t.Error(all)
	}
}
