package versions

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T) *Data {
	t.Helper()
	d, err := Load(t.Context(), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEmbedded(t *testing.T) {
	d := load(t)
	want := []string{
		"v1.31.4-rancher1-1", "v1.30.8-rancher1-1", "v1.30.5-rancher1-1", "v1.29.12-rancher1-1", "v1.28.15-rancher1-1", "v1.27.16-rancher1-1",
		"v1.26.15-rancher1-1", "v1.25.16-rancher2-3", "v1.24.17-rancher1-1", "v1.23.17-rancher1-1", "v1.23.16-rancher2-3",
	}
	if diff := cmp.Diff(want, d.List()); diff != "" {
		t.Error(diff)
	}
	if d.Default() != "v1.31.4-rancher1-1" {
		t.Error("default is", d.Default())
	}
	for _, version := range d.List() {
		images, err := d.Images(version)
		if err != nil {
			t.Fatal(err)
		}
		if hyperkube := Tag(images.Kubernetes); !strings.HasPrefix(version, hyperkube+"-") {
			t.Errorf("%s has the Kubernetes image %s", version, images.Kubernetes)
		}
		for name, image := range map[string]string{
			"etcd": images.Etcd, "alpine": images.Alpine, "nginx": images.NginxProxy, "certs": images.CertDownloader, "sidekick": images.ServicesSidecar,
			"pause": images.PodInfraContainer, "coredns": images.CoreDNS, "canal": images.CanalNode, "ingress": images.Ingress, "metrics": images.MetricsServer,
		} {
			if Tag(image) == "" {
				t.Errorf("%s: the image of %s is %q", version, name, image)
			}
		}
		if o, err := d.ServiceOptions(version, images.Kubernetes); err != nil || o.Etcd == nil || o.KubeAPI == nil || o.Kubelet == nil || o.KubeProxy == nil || o.KubeController == nil || o.Scheduler == nil {
			t.Errorf("%s has no flags for all components: %v", version, err)
		}
		if d.Info(version).MinRKE == "" {
			t.Errorf("%s: no release of rke is known to have it", version)
		}
	}
}

// The values that the contract has of v1.30.5-rancher1-1.
func TestImagesOf1305(t *testing.T) {
	images, err := load(t).Images("v1.30.5-rancher1-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{
		{images.Etcd, "rancher/mirrored-coreos-etcd:v3.5.12"}, {images.Kubernetes, "rancher/hyperkube:v1.30.5-rancher1"},
		{images.Alpine, "rancher/rke-tools:v0.1.103"}, {images.NginxProxy, "rancher/rke-tools:v0.1.103"}, {images.CertDownloader, "rancher/rke-tools:v0.1.103"},
		{images.ServicesSidecar, "rancher/rke-tools:v0.1.103"}, {images.PodInfraContainer, "rancher/mirrored-pause:3.7"},
		{images.CoreDNS, "rancher/mirrored-coredns-coredns:1.11.1"}, {images.CoreDNSAutoscaler, "rancher/mirrored-cluster-proportional-autoscaler:v1.8.9"},
		{images.NodeLocal, "rancher/mirrored-k8s-dns-node-cache:1.23.0"}, {images.Flannel, "rancher/mirrored-flannel-flannel:v0.25.1"},
		{images.FlannelCNI, "rancher/flannel-cni:v1.4.1-rancher1"}, {images.CalicoNode, "rancher/mirrored-calico-node:v3.28.1"},
		{images.CalicoCtl, "rancher/mirrored-calico-ctl:v3.28.1"}, {images.CalicoControllers, "rancher/mirrored-calico-kube-controllers:v3.28.1"},
		{images.CalicoFlexVol, "rancher/mirrored-calico-pod2daemon-flexvol:v3.28.1"}, {images.CalicoCNI, "rancher/calico-cni:v3.28.1-rancher1"},
		{images.Ingress, "rancher/nginx-ingress-controller:nginx-1.11.2-rancher1"}, {images.IngressBackend, "rancher/mirrored-nginx-ingress-controller-defaultbackend:1.5-rancher1"},
		{images.IngressWebhook, "rancher/mirrored-ingress-nginx-kube-webhook-certgen:v1.4.1"}, {images.MetricsServer, "rancher/mirrored-metrics-server:v0.7.1"},
		{images.WeaveNode, ""}, // refused from 1.30 on
	} {
		if pair[0] != pair[1] {
			t.Errorf("image is %q, want %q", pair[0], pair[1])
		}
	}
}

func TestUnknownVersion(t *testing.T) {
	for version, says := range map[string]string{
		"v1.28.99-rancher1-1": "the built-in version data have v1.28.15-rancher1-1, v1.28.14-rancher1-1, v1.28.13-rancher1-1, v1.28.12-rancher1-1, v1.28.11-rancher1-1, v1.28.10-rancher1-1, v1.28.9-rancher1-1, ",
		"v1.99.0-rancher1-1":  "have v1.32.7-rancher1-1, v1.31.11-rancher1-1, v1.30.14-rancher1-1, v1.29.15-rancher1-1, ",
		"v1.28.9-rancher2-1":  "by --version-data of drover rke or by RANCHER_METADATA_URL in the environment",
		"latest":              "[latest] is an unsupported Kubernetes version and system images are not populated",
	} {
		if _, err := load(t).Images(version); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q in it", version, err, says)
		}
	}
}

var kdm = flag.String("kdm", "", "data.json of KDM to make all.json.gz of")

// TestAll: every version that runs somewhere has images and flags, and the file of them can be read. With -kdm it is written.
func TestAll(t *testing.T) {
	if *kdm != "" {
		text, err := os.ReadFile(*kdm)
		if err != nil {
			t.Fatal(err)
		}
		all = pack(t, read(t, string(text)).doc)
		if err := os.WriteFile("all.json.gz", all, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := load(t)
	list := d.All()
	if len(list) < 300 || list[0] != "v1.32.7-rancher1-1" || !slices.Contains(list, "v1.23.17-rancher1-1") || slices.ContainsFunc(list, func(v string) bool { return v < "v1.1" }) {
		t.Errorf("%d versions: %v", len(list), list)
	}
	lines := map[string]bool{}
	for _, version := range list {
		images, err := d.Images(version)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := Parse(version)
		lines[v.Line()] = true
		if !strings.HasPrefix(version, Tag(images.Kubernetes)+"-") || images.Etcd == "" || images.PodInfraContainer == "" || images.Alpine == "" {
			t.Errorf("%s has the images %+v", version, images)
		}
		if o, err := d.ServiceOptions(version, images.Kubernetes); err != nil || o.KubeAPI == nil || o.Kubelet == nil {
			t.Errorf("%s has the flags %+v, %v", version, o, err)
		}
		if ok, _ := d.DockerSupported(version, "20.10.24"); !ok && v.AtLeast(1, 16) {
			t.Errorf("%s does not take Docker 20.10", version)
		}
	}
	if len(lines) != 23 {
		t.Errorf("there are the lines %v", lines)
	}
}

// pack is what a cluster is deployed with, of a document of KDM's.
func pack(t *testing.T, doc document) []byte {
	t.Helper()
	oldest, _ := Parse("v1.10.11-rancher1-1")
	maps.DeleteFunc(doc.Images, func(version string, _ config.SystemImages) bool {
		v, _ := Parse(version)
		return v.Compare(oldest) < 0
	})
	text, err := json.MarshalIndent(map[string]any{
		"K8sVersionRKESystemImages": doc.Images, "K8sVersionServiceOptions": doc.ServiceOptions, "K8sVersionInfo": doc.Info, "K8sVersionDockerInfo": doc.Docker,
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var into bytes.Buffer
	z, err := gzip.NewWriterLevel(&into, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return into.Bytes()
}

// TestPatchLevels: the values are those of KDM.
func TestPatchLevels(t *testing.T) {
	d := load(t)
	for _, tc := range []struct{ version, etcd, alpine, canal, rke string }{
		{"v1.28.9-rancher1-1", "rancher/mirrored-coreos-etcd:v3.5.10", "rancher/rke-tools:v0.1.96", "rancher/mirrored-calico-node:v3.27.0", "1.5.0-rc0"},
		{"v1.18.10-rancher1-1", "rancher/coreos-etcd:v3.4.3-rancher1", "rancher/rke-tools:v0.1.65", "rancher/calico-node:v3.13.4", "1.1.3-rc0"},
	} {
		i, err := d.Images(tc.version)
		if got := []string{i.Etcd, i.Alpine, i.CanalNode, d.Info(tc.version).MinRKE}; err != nil || !slices.Equal(got, []string{tc.etcd, tc.alpine, tc.canal, tc.rke}) {
			t.Errorf("%s: %v, %v", tc.version, got, err)
		}
	}
	// Flags of this very patch level, which the line's are not.
	own, err := d.ServiceOptions("v1.23.4-rancher1-2", "rancher/hyperkube:v1.23.4-rancher1")
	line, errLine := d.ServiceOptions("v1.23.16-rancher2-3", "rancher/hyperkube:v1.23.16-rancher2")
	if err != nil || errLine != nil || cmp.Equal(own, line) {
		t.Errorf("flags of v1.23.4-rancher1-2 are %v, of the line %v; %v %v", own, line, err, errLine)
	}
	// A version that is offered, with an image of a line that is not.
	if o, err := d.ServiceOptions("v1.31.4-rancher1-1", "rancher/hyperkube:v1.18.10-rancher1"); err != nil || o.KubeAPI["service-account-lookup"] == "" {
		t.Errorf("%v, %v", o.KubeAPI, err)
	}
	if slices.Contains(d.List(), "v1.28.9-rancher1-1") {
		t.Error("a patch level of old is offered to new clusters")
	}
}

const small = `{
 "K8sVersionRKESystemImages": {
  "v1.30.5-rancher1-1": {"etcd": "e:v3", "kubernetes": "rancher/hyperkube:v1.30.5-rancher1", "alpine": "rancher/rke-tools:v0.1.9"},
  "v1.30.5-rancher1-10": {"etcd": "e:v3", "kubernetes": "rancher/hyperkube:v1.30.5-rancher1", "alpine": "rancher/rke-tools:v0.1.10"},
  "v1.30.5-rancher1-9": {"etcd": "e:v3", "kubernetes": "rancher/hyperkube:v1.30.5-rancher1", "alpine": "rancher/rke-tools:v0.1.9"}
 },
 "K8sVersionServiceOptions": {
  "v1.30.5-rancher1-9": {"kubelet": {"v": "9"}},
  "v1.30": {"kubelet": {"v": "30"}},
  "v1.29": {"kubelet": {"v": "29"}}
 },
 "K8sVersionInfo": {"v1.30": {"minRKEVersion": "1.6.0"}, "v1.30.5-rancher1-9": {"minRKEVersion": "1.6.9"}},
 "K8sVersionDockerInfo": {"1.30": ["1.13.x", "20.10.x", "23.0.x", "27.2.x"]},
 "K8sVersionedTemplates": {
  "canal": {">=1.8.0-rancher0 <1.20.0-rancher0": "old", ">=1.20.0-rancher0 <1.30.5-rancher1-10 || =1.30.5-rancher1-10": "new"},
  "templateKeys": {"old": "OLD", "new": "NEW"}
 },
 "k3s": {"releases": []}
}`

func read(t *testing.T, text string) *Data {
	t.Helper()
	d, err := Read("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestServiceOptionsExactBeatsTagBeatsVersion(t *testing.T) {
	d := read(t, small)
	for _, c := range []struct{ version, image, want string }{
		{"v1.30.5-rancher1-9", "rancher/hyperkube:v1.29.1-rancher1", "9"},
		{"v1.30.5-rancher1-1", "rancher/hyperkube:v1.30.5-rancher1", "30"},
		{"v1.30.5-rancher1-1", "registry.example:5000/rancher/hyperkube:v1.29.1-rancher1", "29"},
		{"v1.30.5-rancher1-1", "registry.example:5000/own/kubernetes", "30"},
		{"v1.30.5-rancher1-1", "own/kubernetes:latest", "30"},
		{"own", "own/kubernetes:v1.29.3", "29"},
	} {
		if o, err := d.ServiceOptions(c.version, c.image); err != nil || o.Kubelet["v"] != c.want {
			t.Errorf("%s with %s: %v, %v; want %s", c.version, c.image, o.Kubelet, err, c.want)
		}
	}
	if _, err := d.ServiceOptions("v1.31.0-rancher1-1", ""); err == nil || !strings.Contains(err.Error(), "test have no flags for Kubernetes v1.31.0-rancher1-1") {
		t.Error(err)
	}
}

func TestDockerSupported(t *testing.T) {
	d := read(t, small)
	for _, c := range []struct {
		version, docker string
		ok, newer       bool
	}{
		{"v1.30.5-rancher1-1", "20.10.24", true, false},
		{"v1.30.5-rancher1-1", "20.10.24~3-0~debian", true, false},
		{"v1.30.5-rancher1-1", "20.10.24+dfsg1", true, false},
		{"v1.30.5-rancher1-1", "27.2.0-rc.1", true, false},
		{"v1.30.5-rancher1-1", "27.3.1", false, true},
		{"v1.30.5-rancher1-1", "29.0.0", false, true},
		{"v1.30.5-rancher1-1", "24.0.7", false, false}, // between two known ones
		{"v1.30.5-rancher1-1", "1.12.6", false, false},
		{"v1.30.5-rancher1-1", "dev", false, false},
		{"v1.12.0-rancher1-1", "18.06.1", true, false}, // the data say nothing
	} {
		if ok, newer := d.DockerSupported(c.version, c.docker); ok != c.ok || newer != c.newer {
			t.Errorf("Docker %s for %s: %v, newer %v", c.docker, c.version, ok, newer)
		}
	}
}

func TestInfoDefaultToolsAndTemplates(t *testing.T) {
	d := read(t, small)
	if got := d.Info("v1.30.5-rancher1-9").MinRKE + " " + d.Info("v1.30.5-rancher1-1").MinRKE + " " + d.Info("v1.2.3").MinRKE; got != "1.6.9 1.6.0 " {
		t.Errorf("info is %q", got)
	}
	if d.Default() != "v1.30.5-rancher1-10" { // the newest, by number
		t.Error("default is", d.Default())
	}
	for image, want := range map[string]string{
		"rancher/rke-tools:v0.1.9":               "rancher/rke-tools:v0.1.10",
		"reg.example:5000/rancher/rke-tools:v0":  "reg.example:5000/rancher/rke-tools:v0.1.10",
		"reg.example:5000/rancher/rke-tools":     "reg.example:5000/rancher/rke-tools",
		"own/tools:v1":                           "own/tools:v1",
		"rancher/rke-tools:v0.1.11":              "rancher/rke-tools:v0.1.11", // newer than the default's
		"rancher/rke-tools@sha256:0123456789abc": "rancher/rke-tools@sha256:0123456789abc",
	} {
		if got := d.ToolsImage(image); got != want {
			t.Errorf("tools of %s: %s, want %s", image, got, want)
		}
	}
	for version, want := range map[string]string{"v1.19.3-rancher1-1": "OLD", "v1.20.0-rancher1-1": "NEW", "v1.30.5-rancher1-10": "NEW", "v1.30.5-rancher1-11": "", "x": ""} {
		if got, ok := d.Template("canal", version); got != want || ok != (want != "") {
			t.Errorf("template of %s: %q %v", version, got, ok)
		}
	}
	if _, ok := d.Template("templateKeys", "v1.20.0"); ok {
		t.Error("templateKeys is a plugin")
	}
}

func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{
		`{`:                                  "read test: is not JSON, at byte 1",
		`{"K8sVersionRKESystemImages": "x"}`: "K8sVersionRKESystemImages is a string",
		`{"k3s": {}}`:                        "it has no K8sVersionRKESystemImages",
		`{"K8sVersionRKESystemImages": {"1.30": {}}}`:       `"1.30" is not a version such as v1.30.5-rancher1-1`,
		`{"K8sVersionRKESystemImages": {"v1.30.1-r1": {}}}`: "K8sVersionRKESystemImages.v1.30.1-r1: has no kubernetes, etcd or alpine image",
		strings.Replace(small, "20.10.x", "twenty", 1):      `K8sVersionDockerInfo.1.30[1]: "twenty" is not a version`,
	} {
		if _, err := Read("test", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v; want %q in it", text, err, says)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"K8sVersionRKESystemImages": {"v0.0": {"etcd":"e","kubernetes":"k","alpine":"a"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Read("test", text)
		if err != nil {
			return
		}
		for _, version := range append(d.List(), d.Default()) {
			if _, err := d.Images(version); err != nil {
				t.Errorf("a listed version: %v", err)
			}
		}
	})
}

func TestLoadOfFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.json")
	if _, err := Load(t.Context(), file, Options{}); err == nil {
		t.Error("a file that is not there is no error")
	}
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Load(t.Context(), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Known("v1.31.4-rancher1-1") || !d.Known("v1.30.5-rancher1-9") || d.Source != file {
		t.Error("the file does not take the place of the embedded data")
	}
}

func TestLoadOfAddressKeepsACopy(t *testing.T) {
	answer := small
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer == "" {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	location := strings.Replace(server.URL, "http://", "http://me:hunter2@", 1) + "/data.json"
	var log bytes.Buffer
	o := Options{Copy: filepath.Join(t.TempDir(), "copy.json"), Logger: slog.New(slog.NewTextHandler(&log, nil))}

	d, err := Load(t.Context(), location, o)
	if err != nil || d.Stale != "" || strings.Contains(d.Source, "hunter2") {
		t.Fatal(d, err)
	}
	if info, err := os.Stat(o.Copy); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has the mode %v, %v", info.Mode(), err)
	}
	for _, answer = range []string{"", `{"half": `} {
		d, err = Load(t.Context(), location, o)
		if err != nil || d.Stale == "" || !d.Known("v1.30.5-rancher1-9") {
			t.Errorf("the copy is not used: %v", err)
		} else if strings.Contains(d.Stale, "hunter2") {
			t.Errorf("a password is in %q", d.Stale)
		}
	}
	if _, err := Load(t.Context(), location+"?other", o); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the copy of another address, or a password: %v", err)
	}
	if _, err := Load(t.Context(), location, Options{}); err == nil {
		t.Error("no copy, and no error")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(canceled, location, o); err == nil {
		t.Error("who gave up gets a copy")
	}
	answer, o.Copy = small, filepath.Join(t.TempDir(), "none", "copy.json")
	if d, err := Load(t.Context(), location, o); err != nil || d.Stale != "" || !strings.Contains(log.String(), "could not be written") {
		t.Errorf("a copy that cannot be written: %v, log %q", err, log.String())
	}
}

func TestLoadStaysEncrypted(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, small) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	_, err := Load(t.Context(), secure.URL, Options{Transport: secure.Client().Transport})
	if err == nil || !strings.Contains(err.Error(), "without encryption") {
		t.Error(err)
	}
}

func TestOrder(t *testing.T) {
	ascending := []string{"v1.9.7", "v1.30.5-rancher1-1", "v1.30.5-rancher1-2", "v1.30.5-rancher1-10", "v1.30.5-rancher2-1", "v1.30.5", "v1.31.0-rancher1-1"}
	for i, a := range ascending {
		for j, b := range ascending {
			v, _ := Parse(a)
			w, _ := Parse(b)
			if got, want := v.Compare(w), compareInts(i, j); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
	for _, text := range []string{"", "v1", "1.x", "v1.2.3.4", "v9999999999.1"} {
		if v, ok := Parse(text); ok {
			t.Errorf("%q is %v", text, v)
		}
	}
}

func compareInts(i, j int) int {
	switch {
	case i < j:
		return -1
	case i > j:
		return 1
	}
	return 0
}

// The format is KDM's: what is embedded has its top-level keys and no others.
func TestEmbeddedKeys(t *testing.T) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(embedded, &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"K8sVersionRKESystemImages": true, "K8sVersionServiceOptions": true, "K8sVersionInfo": true, "RKEDefaultK8sVersions": true, "K8sVersionDockerInfo": true}
	for key := range doc {
		if !want[key] {
			t.Errorf("%s is not a key of KDM's", key)
		}
	}
}
