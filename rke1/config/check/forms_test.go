package check_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
)

func services(text string) string { return good + "services: {" + text + "}\n" }

func TestForms(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a key of a label", node("address: a, user: u, role: [worker], labels: {-zone: a}"), `cluster.yml:3: nodes[1].labels: "-zone" is not a key of Kubernetes`},
		{"a value of a label", node("address: a, user: u, role: [worker], labels: {zone: 'rack 7'}"), `nodes[1].labels: "rack 7" of zone is not a value of Kubernetes`},
		{"a key of a taint", node("address: a, user: u, role: [worker], taints: [{key: 'gpu/', effect: NoSchedule}]"), `cluster.yml:3: nodes[1].taints[0].key: "gpu/" is not a key`},
		{"no key of a taint", node("address: a, user: u, role: [worker], taints: [{value: a, effect: NoSchedule}]"), `nodes[1].taints[0].key: "" is not a key`},
		{"a value of a taint", node("address: a, user: u, role: [worker], taints: [{key: gpu, value: 'a,b', effect: NoSchedule}]"), `nodes[1].taints[0].value: "a,b" of gpu is not a value`},
		{"an effect", node("address: a, user: u, role: [worker], taints: [{key: gpu, effect: NoRun}]"), `nodes[1].taints[0].effect: "NoRun" is not one of NoSchedule, PreferNoSchedule, NoExecute`},
		{"no effect", node("address: a, user: u, role: [worker], taints: [{key: gpu}]"), `nodes[1].taints[0].effect: "" is not one of`},
		{"a taint twice", node("address: a, user: u, role: [worker], taints: [{key: gpu, value: a, effect: NoExecute}, {key: gpu, value: b, effect: NoExecute}]"), "nodes[1].taints[1]: gpu with the effect NoExecute is also taints[0]"},
		{"a selector of ingress", good + "ingress: {node_selector: {app: a/b}}", `cluster.yml:4: ingress.node_selector: "a/b" of app is not a value`},
		{"a selector of the network", good + "network: {node_selector: {'a b': c}}", "network.node_selector: "},
		{"a selector of DNS", good + "dns: {node_selector: {'a b': c}}", "dns.node_selector: "},
		{"a selector of the cache of DNS", good + "dns: {nodelocal: {ip_address: 169.254.20.10, node_selector: {'a b': c}}}", "dns.nodelocal.node_selector: "},
		{"a selector of metrics", good + "monitoring: {node_selector: {'a b': c}}", "monitoring.node_selector: "},
		{"an effect of a toleration", good + "dns: {tolerations: [{key: a, effect: Never}]}", `dns.tolerations[0].effect: "Never" is not one of`},
		{"an operator of a toleration", good + "monitoring: {tolerations: [{key: a, operator: In}]}", `monitoring.tolerations[0].operator: "In" is not one of Exists, Equal`},
		{"a toleration of nothing", good + "ingress: {tolerations: [{effect: NoExecute}]}", "ingress.tolerations[0].key: is missing"},
		{"a toleration of a value that exists", good + "network: {tolerations: [{key: a, operator: Exists, value: b}]}", "network.tolerations[0].value: cannot be there"},
		{"dashes of a flag", services("kubelet: {extra_args: {--v: '4'}}"), `cluster.yml:4: services.kubelet.extra_args: "--v" has the dashes of a command line, which are put before it; write v`},
		{"one dash", services("etcd: {extra_args_array: {-listen-metrics-urls: [a]}}"), "services.etcd.extra_args_array: "},
		{"a flag with its value", services("kube-api: {extra_args: {'v=4': ''}}"), `services.kube-api.extra_args: "v=4" is not the name of a flag`},
		{"a flag of Windows", services("kubeproxy: {win_extra_args: {--v: '4'}}"), "services.kubeproxy.win_extra_args: "},
		{"a flag of ingress", good + "ingress: {extra_args: {--v: '4'}}", "ingress.extra_args: "},
		{"half a bind", services("scheduler: {extra_binds: [/var/log/x]}"), `services.scheduler.extra_binds[0]: "/var/log/x" is not a bind of Docker`},
		{"a bind that goes nowhere", services("scheduler: {extra_binds: ['/a:b']}"), `extra_binds[0]: "/a:b" is not a bind`},
		{"a bind of all", services("scheduler: {extra_binds: ['/a:/']}"), `extra_binds[0]: "/a:/" is not a bind`},
		{"a bind of a path that is none", services("kubelet: {extra_binds: ['./a:/a']}"), `extra_binds[0]: "./a:/a" is not a bind`},
		{"an option of a bind", services("kube-controller: {extra_binds: ['/a:/b:ro,exec']}"), `extra_binds[0]: "exec" is not an option of a bind`},
		{"a variable alone", services("kube-controller: {extra_env: [A=1, HTTP_PROXY]}"), "services.kube-controller.extra_env[1]: is not NAME=VALUE"},
		{"no variable", services("etcd: {extra_env: ['']}"), "services.etcd.extra_env[0]: is not NAME=VALUE"},
		{"a variable without a name", services("etcd: {extra_env: ['=a']}"), "services.etcd.extra_env[0]: is not NAME=VALUE"},
		{"a port of cri-dockerd", good + "cri_dockerd_stream_server_port: '80010'", `cri_dockerd_stream_server_port: "80010" is not a port from 1 to 65535`},
		{"a port of the bastion", good + "bastion_host: {address: b.example, port: ssh, user: u}", `cluster.yml:4: bastion_host.port: "ssh" is not a port`},
		{"a bastion with a port", good + "bastion_host: {address: 'b.example:22', user: u}", `bastion_host.address: "b.example:22" is neither an IP address nor a DNS name`},
		{"how long a webhook counts", good + "authentication: {strategy: x509|webhook, webhook: {config_file: '{}', cache_timeout: 90}}", `cluster.yml:4: authentication.webhook.cache_timeout: "90" is not a duration`},
		{"a default registry with a scheme", good + "private_registries: [{url: 'https://images.example', is_default: true}]", "cluster.yml:4: private_registries[0].url: is not a registry; write it as registry.example.com"},
		{"a default registry with a slash at its end", good + "private_registries: [{url: images.example/hub/, is_default: true}]", "private_registries[0].url: is not a registry"},
		{"two ranges of IPv4", services("kube-controller: {cluster_cidr: '10.41.0.0/16,10.42.0.0/16'}"), `services.kube-controller.cluster_cidr: "10.41.0.0/16,10.42.0.0/16" has 2 ranges; there are one, or one of IPv4 and one of IPv6`},
		{"a range of ports", services("kube-api: {service_node_port_range: '31000:31999'}"), `service_node_port_range: "31000:31999" is not a range of ports such as 30000-32767`},
		{"a range of ports that is upside down", services("kube-api: {service_node_port_range: 32000-31000}"), "is not a range of ports"},
		{"ports that are none", services("kube-api: {service_node_port_range: 60000-70000}"), "is not a range of ports"},
		{"a domain", services("kubelet: {cluster_domain: my_cluster.local}"), `services.kubelet.cluster_domain: "my_cluster.local" is not the name of a domain`},
		{"an etcd elsewhere without a scheme", "nodes: [{address: a, user: u, role: [controlplane, worker]}]\nservices: {etcd: {external_urls: ['etcd:2379'], ca_cert: a, cert: b, key: c, path: /p}}",
			"services.etcd.external_urls[0]: is not an address such as"},
		{"days", services("etcd: {retention: 7d}"), `cluster.yml:4: services.etcd.retention: "7d" is not a duration of hours, minutes and seconds, such as 12h or 1h30m; a day is 24h`},
		{"cron", services("etcd: {creation: '15 3 * * *'}"), `services.etcd.creation: "15 3 * * *" is not a duration`},
		{"a number alone", services("etcd: {creation: 12}"), `services.etcd.creation: "12" is not a duration`},
		{"no time", services("etcd: {creation: 0h}"), `services.etcd.creation: "0h" is not a duration`},
		{"less than no time", services("etcd: {retention: -24h}"), `services.etcd.retention: "-24h" is not a duration`},
		{"a format of the audit log", services("kube-api: {audit_log: {enabled: true, configuration: {format: text}}}"), `audit_log.configuration.format: "text" is not one of json, legacy`},
		{"a level of the audit log", services("kube-api: {audit_log: {enabled: true, configuration: {policy: {kind: Policy, apiVersion: audit.k8s.io/v1, rules: [{level: All}]}}}}"),
			`audit_log.configuration.policy.rules[0].level: "All" is not one of None, Metadata`},
		{"a limit of events", services("kube-api: {event_rate_limit: {enabled: true, configuration: {kind: Configuration, apiVersion: eventratelimit.admission.k8s.io/v1alpha1, limits: [{type: Pod, qps: 1, burst: 0}]}}}"),
			`limits[0].type: "Pod" is not one of Server`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if errs, _ := checked(t, tc.text); !strings.Contains(errs.Error(), tc.want) {
				t.Errorf("the errors are\n%v\nwant one with\n%s", errs, tc.want)
			}
		})
	}
}

// TestFormsTaken: what Docker, components and the API server take is taken.
func TestFormsTaken(t *testing.T) {
	for name, text := range map[string]string{
		"labels and taints": "nodes:\n- {address: a, user: u, role: [controlplane, etcd, worker], labels: {example.com/zone: '', Rack: a_1.b}," +
			" taints: [{key: example.com/gpu, value: 'true', effect: NoSchedule}, {key: example.com/gpu, effect: NoExecute}]}\n",
		"tolerations": good + "dns: {tolerations: [{operator: Exists}, {key: a, operator: Equal, value: b, effect: NoExecute, tolerationseconds: 30}]}\n",
		"components": services("kubelet: {cluster_domain: K8s.Example, extra_args: {max-pods: '200', feature_gates: a}, extra_binds: ['/a:/b', '/a b:/c:ro,rshared', 'data:/d:z'], extra_env: [A=, 'B=c=d']}," +
			" kube-api: {service_node_port_range: 31000-31999}"),
		"a webhook that is always asked":   good + "authentication: {strategy: x509|webhook, webhook: {config_file: '{}', cache_timeout: 0s}}",
		"a default registry with a path":   good + "private_registries: [{url: 'images.example:5000/hub', is_default: true}, {url: images.example/other/}]",
		"spaces in ranges":                 good + "network: {plugin: calico}\nservices: {kube-controller: {cluster_cidr: '10.42.0.0/16, fd00:2::/56'}}",
		"one port":                         services("kube-api: {service_node_port_range: '31000'}"),
		"durations":                        services("etcd: {creation: 90m, retention: 168h0m30s}"),
		"durations that are not used":      services("etcd: {creation: daily, retention: 3d, backup_config: {interval_hours: 12, retention: 6}}"),
		"durations where nothing is saved": services("etcd: {snapshot: false, creation: daily}"),
	} {
		if errs, warnings := checked(t, text); len(errs)+len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, errs, warnings)
		}
	}
	_, warnings := checked(t, services("etcd: {creation: 24h, retention: 12h}"))
	if want := "services.etcd.retention: 12h is less than creation, 24h"; !strings.Contains(warnings.Error(), want) {
		t.Errorf("the warnings are %v, want one with %s", warnings, want)
	}
}

// TestRuntimeOfTheUser: without cri-dockerd there has to be another runtime, which a user can bring.
func TestRuntimeOfTheUser(t *testing.T) {
	for _, args := range []string{"extra_args: {container-runtime-endpoint: 'unix:///run/own.sock'}", "extra_args_array: {container-runtime-endpoint: ['unix:///run/own.sock']}"} {
		errs, warnings := checked(t, good+"enable_cri_dockerd: false\nservices: {kubelet: {"+args+"}}\n")
		if len(errs) > 0 || !strings.Contains(warnings.Error(), "cluster.yml:4: enable_cri_dockerd: is false, and the kubelet has the container-runtime-endpoint") {
			t.Errorf("%s: %v, warnings %v", args, errs, warnings)
		}
	}
}

// TestImageOfAnotherVersion: a file of an older command line has all images and no version.
func TestImageOfAnotherVersion(t *testing.T) {
	known := versions
	known.Images = func(version string) (config.SystemImages, error) {
		if strings.HasPrefix(version, "v1.20.6-") && version != "v1.20.6-rancher1-1" && version != "v1.20.6-rancher1-2" {
			return config.SystemImages{}, errors.New("unknown")
		}
		return versions.Images(version)
	}
	known.Flags = func(version, image string) error {
		if strings.Contains(image, "v1.7.") {
			return fmt.Errorf("no flags for %s", image)
		}
		return nil
	}
	image := func(tag string) string {
		return "system_images: {kubernetes: 'reg.example:5000/rancher/hyperkube:" + tag + "'}\n"
	}
	open := strings.Replace(good, "v1.30.5-rancher1-1", `""`, 1)
	for _, tc := range []struct{ name, text, fails, warns string }{
		{"no version", open + image("v1.20.6-rancher1"), "cluster.yml:1: kubernetes_version: is not given, so that it would be v1.30.5-rancher1-1, and system_images.kubernetes is of Kubernetes 1.20.6: " +
			"write the version that the cluster runs, v1.20.6-rancher1-2", ""},
		{"the same line", open + image("v1.30.1-rancher1"), "", ""},
		{"no tag", open + image("latest"), "", ""},
		{"another version", good + image("v1.29.3"), "", "cluster.yml:4: system_images.kubernetes: is of Kubernetes 1.29.3, and kubernetes_version is v1.30.5-rancher1-1"},
		{"without flags", good + image("v1.7.3"), "cluster.yml:4: system_images.kubernetes: no flags for reg.example", "is of Kubernetes 1.7.3"},
	} {
		f, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		errs, warnings := check.Cluster(config.WithDefaults(f.Cluster, known), known, f)
		if !strings.Contains(errs.Error(), tc.fails) || (tc.fails == "") != (len(errs) == 0) || !strings.Contains(warnings.Error(), tc.warns) || (tc.warns == "") != (len(warnings) == 0) {
			t.Errorf("%s: %v, warnings %v", tc.name, errs, warnings)
		}
	}
}

// FuzzForms: whatever values a config has, the check comes to its end, and a value of the environment is in no error.
func FuzzForms(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("..", "testdata", "full.yml"))
	if err != nil {
		f.Fatal(err)
	}
	full, err := config.Parse(strictyaml.Source{}, text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("/a:/b:ro", "A", "--v", "gpu", "3d", "30000-32767")
	f.Add("", "=", "", "a/b/c", "-1h", "1+2")
	f.Fuzz(func(t *testing.T, bind, env, flag, key, duration, ports string) {
		c := config.WithDefaults(full.Cluster, versions)
		c.Services.Etcd.BackupConfig, c.Services.Etcd.Snapshot, c.Services.Etcd.Creation = nil, nil, duration
		c.Services.Kubelet.ExtraBinds, c.Services.Kubelet.ExtraEnv = []string{bind}, []string{"=hunter2" + env}
		c.Services.Kubelet.ExtraArgs, c.Services.KubeAPI.ServiceNodePortRange = map[string]string{flag: key}, ports
		c.Nodes[0].Labels, c.Nodes[0].Taints = map[string]string{key: bind}, []config.Taint{{Key: key, Value: flag, Effect: duration}}
		errs, _ := check.Cluster(c, versions, full)
		if !strings.Contains(errs.Error(), "extra_env[0]: is not NAME=VALUE") || !strings.Contains(bind+key+flag+duration+ports, "hunter2") && strings.Contains(errs.Error(), "hunter2") {
			t.Error(errs)
		}
	})
}
