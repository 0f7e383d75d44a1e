package main

import (
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-project/drover/daemon/node"
)

// machine is a host for settings.
func machine(env map[string]string, files map[string]string) host {
	return host{
		getenv: func(key string) string { return env[key] },
		readFile: func(path string) ([]byte, error) {
			text, ok := files[path]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
		hostname: func() (string, error) { return "n1.example.com", nil },
	}
}

func TestSettings(t *testing.T) {
	const checksum = "0a417de18a98ec077b9231f56bbb067e8509b9bbe5c25d2e8fe11efe65d499a2"
	base := node.Options{Server: &url.URL{Scheme: "https", Host: "drover.example.com"}, Token: "tok", Host: node.Host{NodeName: "n1"},
		Places: node.Places{StateDir: "/var/lib/rancher", DockerSocket: "/var/run/docker.sock", HealthSocket: "/tmp/rancher-agent-health.sock"}}
	with := func(f func(*node.Options)) node.Options {
		o := base
		f(&o)
		return o
	}
	for _, tc := range []struct {
		name  string
		args  string
		env   map[string]string
		files map[string]string
		want  node.Options
	}{
		{"as the server prints it", "--server https://drover.example.com --token tok --ca-checksum " + checksum + " --etcd --controlplane --worker", nil, nil,
			with(func(o *node.Options) { o.CAChecksum = checksum; o.Roles = []string{"etcd", "controlplane", "worker"} })},
		{"short flags", "-s https://drover.example.com -t tok -c " + strings.ToUpper(checksum) + " -w -n other -i eth1 -l a=b -l c -r -o", nil, nil,
			with(func(o *node.Options) {
				o.CAChecksum, o.Roles, o.NodeName, o.InternalAddress = checksum, []string{"worker"}, "other", "eth1"
				o.Labels, o.NoRegister, o.OnlyWriteCerts = map[string]string{"a": "b", "c": ""}, true, true
				o.Share = []string{"/var/lib/kubelet", "/var/lib/rancher"}
			})},
		{"all roles", "-s drover.example.com -t tok -a", nil, nil, with(func(o *node.Options) { o.Roles = []string{"etcd", "controlplane", "worker"} })},
		{"the environment alone", "", map[string]string{"CATTLE_SERVER": "http://drover.example.com/", "CATTLE_TOKEN": "tok", "CATTLE_NODE_NAME": "x", "CATTLE_ADDRESS": "10.0.0.1",
			"CATTLE_INTERNAL_ADDRESS": "eth0", "CATTLE_ROLE": "worker,etcd", "CATTLE_NODE_LABEL": "a=b,c=d=e", "CATTLE_NODE_TAINTS": "k=v:NoSchedule",
			"CATTLE_AGENT_CONNECT": "true", "CATTLE_WRITE_CERT_ONLY": "true", "STRICT_VERIFY": "true", "CATTLE_TUNNEL_DATA_DEBUG": "true", "DROVER_AGENT_HEALTH_ADDRESS": "127.0.0.1:9", "DROVER_CA_PIN": "always"}, nil,
			with(func(o *node.Options) {
				o.NodeName, o.Address, o.InternalAddress, o.Roles = "x", "10.0.0.1", "eth0", []string{"etcd", "worker"}
				o.Labels, o.Taints = map[string]string{"a": "b", "c": "d=e"}, []string{"k=v:NoSchedule"}
				o.NoRegister, o.OnlyWriteCerts, o.StrictVerify, o.Conversations, o.HealthAddress = true, true, true, true, "127.0.0.1:9"
				o.PinAlways, o.Share = true, []string{"/var/lib/kubelet", "/var/lib/rancher"}
			})},
		{"a flag wins, lists are joined", "--server https://drover.example.com --token tok --node-name y --worker --label c=d --taints b:NoExecute",
			map[string]string{"CATTLE_SERVER": "https://other", "CATTLE_TOKEN": "other", "CATTLE_NODE_NAME": "x", "CATTLE_ROLE": "etcd", "CATTLE_NODE_LABEL": "a=b", "CATTLE_NODE_TAINTS": "a:NoExecute"}, nil,
			with(func(o *node.Options) {
				o.NodeName, o.Roles, o.Labels, o.Taints = "y", []string{"etcd", "worker"}, map[string]string{"a": "b", "c": "d"}, []string{"a:NoExecute", "b:NoExecute"}
			})},
		{"a pod", "", map[string]string{"CATTLE_K8S_MANAGED": "true", "CATTLE_CLUSTER": "false"},
			map[string]string{"/cattle-credentials/url": "https://drover.example.com\n", "/cattle-credentials/token": "tok"}, with(func(o *node.Options) { o.Managed = true })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := settings(strings.Fields(tc.args), machine(tc.env, tc.files))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(node.Options{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	const good = "-s https://h -t tok "
	for _, tc := range []struct {
		args string
		env  map[string]string
		want string
	}{
		{"", nil, "ERROR: -- --token is a required option"},
		{"-t secret", nil, "ERROR: -- --server is a required option"},
		{good + "--fast", nil, "-fast"},
		{good + "--worker now", nil, `"now" is not a flag`},
		{good + "-c abc", nil, "--ca-checksum is not a SHA-256"},
		{good + "-l =v", nil, "not of the form key=value"},
		{"-s https://h/path -t secret", nil, "--server is not of the form"},
		{"-s ftp://h -t secret", nil, "--server is not of the form"},
		{"-s https://u:secret@h -t secret", nil, "--server is not of the form"},
		{good, map[string]string{"CATTLE_ROLE": "master"}, `role "master"`},
		{good, map[string]string{"DROVER_CA_PIN": "never"}, "DROVER_CA_PIN is"},
		{good, map[string]string{"CLUSTER_CLEANUP": "true"}, "clean-up of a cluster"},
		{good, map[string]string{"CATTLE_CLUSTER": "true"}, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"},
		{"", map[string]string{"CATTLE_K8S_MANAGED": "true"}, "credentials is not mounted"},
	} {
		_, err := settings(strings.Fields(tc.args), machine(tc.env, nil))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.want)
		}
	}
	h := machine(nil, nil)
	h.hostname = func() (string, error) { return "", errors.New("none") }
	if _, err := settings(strings.Fields(good), h); err == nil || !strings.Contains(err.Error(), "--node-name") {
		t.Error(err)
	}
}

func TestTokenIsRedacted(t *testing.T) {
	for _, args := range []string{"--token secret -w", "-t secret", "--token=secret -w", "-t=secret", "-token secret"} {
		got := strings.Join(redacted(strings.Fields(args)), " ")
		if strings.Contains(got, "secret") || !strings.Contains(got, "REDACTED") {
			t.Errorf("%s became %s", args, got)
		}
	}
	got := strings.Join(environment([]string{"CATTLE_TOKEN=secret", "PATH=/secret", "CATTLE_SERVER=s", "CATTLE_NODE_NAME=n"}), " ")
	if got != "CATTLE_NODE_NAME=n CATTLE_SERVER=s CATTLE_TOKEN=REDACTED" {
		t.Error(got)
	}
}
