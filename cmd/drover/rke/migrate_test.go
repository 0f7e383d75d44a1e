package rke_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/rke1/migrate"
)

// everything asks for many settings at once.
const everything = `
kubernetes_version: v1.30.5-rancher1-1
nodes:
- {address: 10.0.0.1, internal_address: 10.1.0.1, user: u, role: [etcd], labels: {a: b}}
- {address: 10.0.0.2, user: u, role: [controlplane]}
- {address: 10.0.0.3, user: u, role: [worker], taints: [{key: a, value: b, effect: NoSchedule}]}
authentication: {strategy: "x509|webhook", sans: [k8s.example.com]}
ingress: {provider: none}
private_registries: [{url: r.example.com, is_default: true}]
prefix_path: /opt/rke
cloud_provider: {name: external}
services:
  etcd: {uid: 1, gid: 1, extra_args: {quota-backend-bytes: "1"}, extra_binds: ["/a:/a"], extra_env: [A=b], backup_config: {enabled: true, s3backupconfig: {endpoint: e, bucket_name: b}}}
  kube-api: {service_cluster_ip_range: 10.96.0.0/16, service_node_port_range: 30000-31000, extra_args: {v: "2"}, extra_binds: ["/a:/a"], extra_env: [A=b], always_pull_images: true}
  kube-controller: {service_cluster_ip_range: 10.96.0.0/16, cluster_cidr: 10.97.0.0/16, extra_args: {v: "2"}, extra_binds: ["/a:/a"], extra_env: [A=b]}
  scheduler: {extra_args: {v: "2"}, extra_binds: ["/a:/a"], extra_env: [A=b]}
  kubelet: {cluster_dns_server: 10.96.0.10, cluster_domain: c.local, extra_args: {v: "2"}}
  kubeproxy: {extra_args: {v: "2"}, extra_binds: ["/a:/a"], extra_env: [A=b]}
`

// TestMigratePlanNamesRealSettings: what the plan says to set is a setting of that release.
func TestMigratePlanNamesRealSettings(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, dir, nil, "migrate", "plan", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report migrate.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	data, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	release, ok := data.Release(report.To)
	if !ok {
		t.Fatalf("%q is not a release", report.To)
	}
	// Data list what a document of a cluster may set; these are the machines' own or the provisioner's.
	own := []string{"node-name", "node-ip", "node-external-ip", "node-label", "node-taint", "disable-etcd", "disable-apiserver", "disable-controller-manager", "disable-scheduler",
		"etcd-snapshot-schedule-cron", "etcd-snapshot-retention", "etcd-s3", "etcd-s3-endpoint", "etcd-s3-bucket", "etcd-s3-folder", "data-dir"}
	checked := 0
	for _, i := range report.Items {
		for _, setting := range i.Settings {
			if _, known := release.Arg(setting); !known && !slices.Contains(own, setting) {
				t.Errorf("%s: %s has no setting %s", i.Topic, report.To, setting)
			}
			checked++
		}
	}
	if checked < 25 {
		t.Errorf("only %d settings were looked at", checked)
	}
}

func TestMigratePlan(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte(oneHost), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked []string
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/persistentvolumes":
			w.Write([]byte(`{"kind":"PersistentVolumeList","apiVersion":"v1","items":[{"metadata":{"name":"pv"},"spec":{"hostPath":{"path":"/x"}}}]}`))
		case "/api/v1/nodes":
			w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[]}`))
		default:
			w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
		}
	}))
	defer api.Close()
	moved := httptest.NewUnstartedServer(http.RedirectHandler(api.URL, http.StatusTemporaryRedirect))
	moved.TLS = &tls.Config{Certificates: api.TLS.Certificates}
	moved.StartTLS()
	defer moved.Close()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	kubeconfig := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"` + api.URL + `","certificate-authority-data":"` + authority + `"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],` +
		`"users":[{"name":"a","user":{"token":"hunter2"}}],"current-context":"a"}`
	for name, text := range map[string]string{
		"kubeconfig": kubeconfig, "broken": "{", "elsewhere": strings.Replace(kubeconfig, api.URL, moved.URL, 1),
		"plain": strings.Replace(kubeconfig, "https:", "http:", 1), "program": strings.Replace(kubeconfig, `"token"`, `"exec":{"command":"hunter2"},"token"`, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		out  string
		err  string
	}{
		{nil, "from its config alone", ""},
		{[]string{"--kubeconfig", "kubeconfig"}, "1 volumes of hostPath: pv", ""},
		{[]string{"--kubeconfig", "broken"}, "", "read the kubeconfig broken: line 1: is not YAML"},
		{[]string{"--kubeconfig", "program"}, "", "users[0].user.exec is refused"},
		{[]string{"--kubeconfig", "plain"}, "", "is no URL such as https://"},
		{[]string{"--kubeconfig", "elsewhere"}, "", "a redirect, which is not followed"},
		{[]string{"--kubeconfig", "none"}, "", "read the kubeconfig"},
		{[]string{"-o", "yaml"}, "", "is neither text nor json"},
		{[]string{"--version-data", "none"}, "", "none"},
	} {
		out, _, err := run(t, dir, nil, append([]string{"migrate", "plan"}, c.args...)...)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(out, c.out) {
			t.Errorf("%v: %q, %v", c.args, out, err)
		}
		if strings.Contains(out+fmt.Sprint(err), "hunter2") {
			t.Errorf("%v: a token is shown", c.args)
		}
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, "GET ") {
			t.Errorf("it does more than look: %s", a)
		}
	}
}
