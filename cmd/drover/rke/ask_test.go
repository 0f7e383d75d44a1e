package rke

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// config runs `drover rke config` with answers.
func askedConfig(t *testing.T, answers string, args ...string) (written, said string, err error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cluster.yml")
	var out, errs bytes.Buffer
	cmd := (&App{Out: &out, Err: &errs, Environ: func(string) string { return "" }}).Command()
	cmd.SetArgs(append([]string{"config", "--name", name}, args...))
	cmd.SetIn(strings.NewReader(answers))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	text, readErr := os.ReadFile(name)
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	return string(text), errs.String(), err
}

// Empty answers are the defaults; the questions come in the order of rke.
func TestAsk(t *testing.T) {
	written, said, err := askedConfig(t, "\n\n10.0.0.1"+strings.Repeat("\n", 19), "--ask")
	if err != nil {
		t.Fatal(err)
	}
	const want = `nodes:
  - address: 10.0.0.1
    role:
      - controlplane
      - worker
      - etcd
    user: ubuntu
services:
  kube-api:
    service_cluster_ip_range: 10.43.0.0/16
  kube-controller:
    cluster_cidr: 10.42.0.0/16
    service_cluster_ip_range: 10.43.0.0/16
  kubelet:
    cluster_domain: cluster.local
    cluster_dns_server: 10.43.0.10
network:
  plugin: canal
authentication:
  strategy: x509
ssh_key_path: ~/.ssh/id_rsa
authorization:
  mode: rbac
kubernetes_version: VERSION
cri_dockerd_stream_server_port: "10011"
`
	version := written[strings.Index(written, "kubernetes_version: ")+len("kubernetes_version: "):]
	version, _, _ = strings.Cut(version, "\n")
	if diff := cmp.Diff(strings.Replace(want, "VERSION", version, 1), written); diff != "" {
		t.Error(diff)
	}
	var questions []string
	for _, part := range strings.Split(said, "[+] ")[1:] {
		question, _, _ := strings.Cut(part, " [")
		questions = append(questions, question)
	}
	if diff := cmp.Diff([]string{
		"Cluster Level SSH Private Key Path", "Number of Hosts", "SSH Address of host (1)", "SSH Port of host (10.0.0.1)",
		"SSH Private Key Path of host (10.0.0.1), empty for the cluster's", "SSH User of host (10.0.0.1)", "Is host (10.0.0.1) a Control Plane host (y/n)?",
		"Is host (10.0.0.1) a Worker host (y/n)?", "Is host (10.0.0.1) an etcd host (y/n)?", "Override Hostname of host (10.0.0.1)", "Internal IP of host (10.0.0.1)",
		"Docker socket path on host (10.0.0.1)", "Network Plugin Type (flannel, calico, weave, canal, aci, none)", "Authentication Strategy", "Authorization Mode (rbac, none)",
		"Kubernetes version", "Cluster domain", "Service Cluster IP Range", "Cluster Network CIDR", "Cluster DNS Service IP", "Add addon manifest URLs or YAML files (y/n)?",
	}, questions); diff != "" {
		t.Error(diff)
	}
}

func TestAnswersThatCount(t *testing.T) {
	answers := []string{
		"~/.ssh/ops", "two", "0", "2",
		"10.0.0.1", "2222", "~/.ssh/one", "core", "y", "n", "maybe", "y", "n1", "192.168.0.1", "/run/docker.sock",
		"10.0.0.1", "10.0.0.2", "", "", "", "n", "y", "", "", "", "",
		"cilium", "calico", "", "none", "v9.9.9", "v1.30.5-rancher1-1", "example.local", "10.53.0.0/16", "10.52.0.0/16", "10.53.0.10",
		"y", "a.yaml", "y", "https://example.com/b.yaml", "n",
	}
	written, said, err := askedConfig(t, strings.Join(answers, "\n")+"\n", "--ask")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ssh_key_path: ~/.ssh/ops", `port: "2222"`, "ssh_key_path: ~/.ssh/one", "user: core", "hostname_override: n1", "internal_address: 192.168.0.1", "docker_socket: /run/docker.sock",
		"address: 10.0.0.2", "plugin: calico", "mode: none", "kubernetes_version: v1.30.5-rancher1-1", "cluster_domain: example.local", "service_cluster_ip_range: 10.53.0.0/16",
		"cluster_cidr: 10.52.0.0/16", "cluster_dns_server: 10.53.0.10", "- a.yaml", "- https://example.com/b.yaml",
	} {
		if !strings.Contains(written, want) {
			t.Errorf("%q is missing in\n%s", want, written)
		}
	}
	if strings.Count(written, "      - etcd") != 1 || strings.Count(written, "      - controlplane") != 1 || strings.Count(written, "      - worker") != 1 {
		t.Errorf("roles:\n%s", written)
	}
	for _, want := range []string{"answer a number between 1 and 500", "answer y or n", "host 10.0.0.1 is there already", "answer one of flannel, calico", "--list-version"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said", want)
		}
	}
}

func TestAskedInVain(t *testing.T) {
	for name, c := range map[string]struct {
		answers string
		args    []string
		want    string // of the error; "" is success without a question
	}{
		"the input ends":             {"\n1\n10.0.0.1\n", []string{"--ask"}, "nothing was written"},
		"never a right answer":       {"\n" + strings.Repeat("many\n", 9), []string{"--ask"}, "answer a number between 1 and 500"},
		"a line without an end":      {strings.Repeat("x", 5000), []string{"--ask"}, "nothing was written"},
		"a ready file and questions": {"", []string{"--ask", "--minimal"}, "give one of them or --ask"},
		"no terminal":                {"", nil, ""},
		"a ready file":               {"", []string{"--minimal"}, ""},
		"a person who is not asked":  {"", []string{"--ask=false"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			written, said, err := askedConfig(t, c.answers, c.args...)
			if c.want == "" {
				if err != nil || written == "" || strings.Contains(said, "[+]") {
					t.Errorf("%v, said %q", err, said)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || written != "" {
				t.Errorf("%v, written %q", err, written)
			}
		})
	}
}
