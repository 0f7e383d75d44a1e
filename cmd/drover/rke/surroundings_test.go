package rke_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover"
)

// TestVersionsAndImages: scripts take the one line of --list-version, and mirror what --system-images prints.
func TestVersionsAndImages(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args       []string
		lines      int // 0: more than one
		has, hasNo string
	}{
		{[]string{"config", "-l"}, 1, "v1.31.4-rancher1-1\n", ""},
		{[]string{"config", "--list-version", "--all"}, 11, "v1.23.16-rancher2-3\n", "v1.28.9-rancher1-1"},
		{[]string{"config", "-s"}, 0, "rancher/hyperkube:v1.31.4-rancher1\n", "v1.30"},
		{[]string{"config", "-s", "--version", "v1.26.9-rancher1-1"}, 0, "rancher/hyperkube:v1.26.9-rancher1\n", "windows"},
		{[]string{"config", "--system-images", "-a"}, 0, "rancher/hyperkube:v1.24.17-rancher1\n", "\n\n"},
	} {
		out, said, err := run(t, dir, nil, tc.args...)
		if err != nil || tc.lines > 0 && strings.Count(out, "\n") != tc.lines || !strings.Contains(out, tc.has) || tc.hasNo != "" && strings.Contains(out, tc.hasNo) {
			t.Errorf("%v: %q, %v", tc.args, out, err)
		}
		if lines := strings.Fields(out); !slices.Contains(tc.args, "-a") && len(lines) != len(slices.Compact(slices.Sorted(slices.Values(lines)))) {
			t.Errorf("%v has an image twice: %s", tc.args, out)
		}
		if images := slices.Contains(tc.args, "-s"); images != strings.Contains(said, "Generating images list for version [") && tc.args[1] != "--system-images" {
			t.Errorf("%v says %q", tc.args, said)
		}
	}
	for _, args := range [][]string{{"config", "-s", "--version", "v1.26.99-rancher1-1"}, {"config", "--version", "v1.26.9-rancher1-1"}, {"config", "-a"}} {
		if _, _, err := run(t, dir, nil, args...); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

// TestShortFlags are those of rke.
func TestShortFlags(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := run(t, dir, nil, "config", "-e", "-n", "other.yml"); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-v", "--version"} {
		if out, _, err := run(t, dir, nil, flag); err != nil || !strings.HasSuffix(out, " version "+drover.Version+"\n") {
			t.Errorf("%s: %q, %v", flag, out, err)
		}
	}
	_, said, err := run(t, dir, nil, "-q", "up", "--init", "--config", "other.yml")
	if err != nil || strings.Contains(said, "INFO") {
		t.Errorf("-q: %q, %v", said, err)
	}
	if _, said, err := run(t, dir, nil, "-d", "--trace", "up", "--init", "--config", "other.yml"); err != nil || !strings.Contains(said, "INFO[0000] Successfully Deployed state file") {
		t.Errorf("-d: %q, %v", said, err)
	}
	if _, _, err := run(t, dir, nil, "util", "get-kubeconfig", "--config", "other.yml", "--ssh-agent-auth", "--ignore-docker-version"); err != nil {
		t.Error(err)
	}
}

// TestVersionData of KDM, by flag before and behind the command: the flag has the last word.
func TestVersionData(t *testing.T) {
	dir := t.TempDir()
	text := `{"K8sVersionRKESystemImages": {"v1.30.77-rancher1-1": {"etcd": "e:v3", "kubernetes": "rancher/hyperkube:v1.30.77-rancher1", "alpine": "rancher/rke-tools:v0.1.9"}}}`
	if err := os.WriteFile(filepath.Join(dir, "kdm.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"RANCHER_METADATA_URL": filepath.Join(dir, "none.json")}
	for _, args := range [][]string{{"--version-data", "kdm.json", "config", "-l"}, {"config", "-l", "--version-data", "kdm.json"}} {
		if out, _, err := run(t, dir, environ, args...); err != nil || out != "v1.30.77-rancher1-1\n" {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte("kubernetes_version: v1.28.77-rancher1-1\nnodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, dir, nil, "up", "--init"); err == nil || !strings.Contains(err.Error(), "v1.28.9-rancher1-1") || !strings.Contains(err.Error(), "--version-data") {
		t.Errorf("an unknown version: %v", err)
	}
}

// TestNothingIsWrittenForWhatCannotBeRun: a version without texts of its add-ons, and images of an older command line.
func TestNothingIsWrittenForWhatCannotBeRun(t *testing.T) {
	nodes := "nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n"
	for text, want := range map[string]string{
		"kubernetes_version: v1.19.16-rancher2-1\n" + nodes:                                   "drover's own are for 1.22 and later; data of KDM have one: ",
		"system_images: {kubernetes: 'rancher/hyperkube:v1.17.9-rancher1'}\n" + nodes:         "kubernetes_version: is not given, so that it would be v1.31.4-rancher1-1, and system_images.kubernetes is of Kubernetes 1.17.9: write the version that the cluster runs, v1.17.9-rancher1-2",
		"kubernetes_version: v1.31.4-rancher1-1\nservices: {etcd: {retention: 3d}}\n" + nodes: "cluster.yml:2: services.etcd.retention:",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, dir, nil, "up", "--init"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
			t.Errorf("%s: there are %v", text, files)
		}
	}
}

// TestVersionOfTheCluster is what its API server says.
func TestVersionOfTheCluster(t *testing.T) {
	answer := `{"gitVersion": "v1.28.9"}`
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			t.Errorf("%s is asked for", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	defer api.Close()
	dir := t.TempDir()
	if out, _, err := run(t, dir, nil, "version"); err != nil || out != drover.Version+"\n" {
		t.Errorf("without a cluster: %q, %v", out, err)
	}
	if _, _, err := run(t, dir, nil, "version", "--config", "mine.yml"); err == nil || !strings.Contains(err.Error(), "kube_config_mine.yml") {
		t.Errorf("without its kubeconfig: %v", err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	text := fmt.Sprintf("current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t}}]\nclusters: [{name: a, cluster: {server: %q, certificate-authority-data: %q}}]\n",
		api.URL, base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(filepath.Join(dir, "kube_config_mine.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := run(t, dir, nil, "version", "--config", "mine.yml"); err != nil || out != drover.Version+"\nServer Version: v1.28.9\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, answer = range []string{`{}`, `[]`, `{"gitVersion": "\u001b[31m"}`} {
		if _, _, err := run(t, dir, nil, "version", "--config", "mine.yml"); err == nil || !strings.Contains(err.Error(), "the answer has none") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
