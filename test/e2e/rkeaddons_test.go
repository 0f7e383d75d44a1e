//go:build e2e && e2e_full

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// userAddon is what the tests bring: a page on each host that names its pod, behind a Service and an ingress.
const userAddon = `
apiVersion: v1
kind: Namespace
metadata: {name: pages}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: pages}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: page:1
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 2}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: pages}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// upstream is who CoreDNS asks for other names, in vain: hosts of a test ask Docker at an address of loopback, which from a
// pod would be CoreDNS itself.
const upstream = "dns: {upstreamnameservers: [192.0.2.53]}"

const userIngress = `
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: pages}
spec:
  rules:
  - host: web.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
`

// newAddonYard starts hosts with the images of add-ons.
func newAddonYard(t *testing.T, ctx context.Context, names ...string) *rkeYard {
	t.Helper()
	y := newRKEYard(t, ctx, rke1images.Version)
	var err error
	y.kit, err = rke1images.Build(ctx, rke1images.Options{Module: "../..", Engine: y.bed.Engine, Addons: true, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		y.addAddonHost(name)
	}
	return y
}

// addAddonHost starts a host with the images. Addresses of Services lead nowhere from it until it knows them: where the
// machine's network answers for every address, an API server would keep its connection to another host.
func (y *rkeYard) addAddonHost(name string) {
	y.Helper()
	h := y.addHost(name)
	if err := h.LoadImage(y.ctx, y.kit.AddonArchive()); err != nil {
		y.Fatal(err)
	}
	if _, err := h.Sh(y.ctx, "iptables -A OUTPUT -d 10.43.0.0/16 -j REJECT; iptables -A FORWARD -d 10.43.0.0/16 -j REJECT"); err != nil {
		y.Fatal(err)
	}
}

// writeAddons writes a cluster.yml with drover's own images and these lines; user is the text of addons.
func (y *rkeYard) writeAddons(user string, lines ...string) {
	y.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "kubernetes_version: %s\ncluster_name: yard\n%s\nnodes:\n", y.version, strings.Join(lines, "\n"))
	for i, h := range y.hosts {
		role := "worker"
		if i == 0 {
			role = everyRole
		}
		fmt.Fprintf(&b, "- {address: %s, user: %s, ssh_key_path: %s, hostname_override: %s, role: [%s]}\n", h.Address(), rke1bed.User, h.KeyFile(), h.Name(), role)
	}
	fmt.Fprintln(&b, "services:\n  etcd: {snapshot: false}\n  kubelet:\n    extra_args:")
	for key, value := range rke1bed.KubeletArgs() {
		fmt.Fprintf(&b, "      %s: %q\n", key, value)
	}
	if user != "" {
		fmt.Fprintln(&b, "addons: |")
		for line := range strings.Lines(user) {
			fmt.Fprint(&b, "  "+line)
		}
	}
	if err := os.WriteFile(filepath.Join(y.dir, "cluster.yml"), []byte(b.String()), 0o600); err != nil {
		y.Fatal(err)
	}
}

// settled runs `up`, after which every add-on has to be ready, and nothing is left to change.
func (y *rkeYard) settled() {
	y.Helper()
	began := time.Now()
	y.must("up", "--disable-port-check")
	y.Logf("MEASURE rke up with add-ons: %s", time.Since(began).Round(time.Second))
	if strings.Contains(y.said, "is not ready") {
		y.Errorf("add-ons: %s", y.said)
	}
	if out := y.must("up", "--dry-run"); !strings.HasPrefix(strings.TrimSpace(out), "0 changes") {
		y.Errorf("the preview after a run: %s", out)
	}
}

// get is kubectl with a result that has to come.
func (y *rkeYard) get(args ...string) string {
	y.Helper()
	out, err := y.kubectl(args...)
	if err != nil {
		y.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// eventually asks until the answer is right.
func (y *rkeYard) eventually(what string, right func() (string, bool)) {
	y.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		is, ok := right()
		if ok {
			return
		}
		if time.Now().After(end) {
			y.Fatalf("%s: %s", what, is)
		}
		select {
		case <-y.ctx.Done():
			y.Fatal(y.ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// pages asks, from a pod on each host, for names and for the page of every pod: pods reach each other across hosts.
func (y *rkeYard) pages() {
	y.Helper()
	y.eventually("pods that serve pages on all hosts", func() (string, bool) {
		ready := y.get("-n", "pages", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.containerStatuses[0].ready}")
		return ready, strings.Count(ready, "true") == len(y.hosts)
	})
	pods := strings.Fields(y.get("-n", "pages", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
	addresses := strings.Fields(y.get("-n", "pages", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
	if len(pods) != len(y.hosts) {
		y.Fatalf("pods: %v", pods)
	}
	for _, pod := range pods {
		ask := func(what, of string) string {
			return y.get("get", "--raw", "/api/v1/namespaces/pages/pods/"+pod+":8080/proxy/?"+url.Values{what: {of}}.Encode())
		}
		for i, address := range addresses {
			if got := ask("get", "http://"+address+":8080/"); got != pods[i] {
				y.Errorf("from %s, %s answers %q, want %q", pod, address, got, pods[i])
			}
		}
		service := y.get("-n", "pages", "get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
		for name, want := range map[string]string{"kubernetes.default": "10.43.0.1", "kubernetes.default.svc.cluster.local": "10.43.0.1", "web": service, "web.pages.svc.cluster.local": service} {
			if got := ask("lookup", name); got != want {
				y.Errorf("from %s, %s is %q, want %s", pod, name, got, want)
			}
		}
		seen := map[string]bool{}
		for range 40 {
			seen[ask("get", "http://web.pages/")] = true
		}
		if len(seen) != len(pods) {
			y.Errorf("from %s, the Service leads to %v, want all of %v", pod, seen, pods)
		}
	}
}

// TestRKEAddonsFlannel has the network flannel and DNS, on one host and then on two.
func TestRKEAddonsFlannel(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	y := newAddonYard(t, ctx, "rke-flat-a")
	lines := []string{"network: {plugin: flannel}", "ingress: {provider: none}", "monitoring: {provider: none}", "addon_job_timeout: 300", upstream}
	y.writeAddons(userAddon, lines...)
	y.settled()
	y.pages()
	y.addAddonHost("rke-flat-b")
	y.writeAddons(userAddon, lines...)
	y.settled()
	y.pages()
	y.eventually("replicas of CoreDNS for two nodes", func() (string, bool) {
		is := y.get("-n", "kube-system", "get", "deployment", "coredns", "-o", "jsonpath={.status.readyReplicas}")
		return is, is == "2"
	})
}

// TestRKEAddons has every add-on of a cluster with canal on two hosts, changes them, and takes them away.
func TestRKEAddons(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute)
	defer cancel()
	y := newAddonYard(t, ctx, "rke-add-a", "rke-add-b")
	include := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-an-address}}")
	}))
	defer include.Close()
	if err := os.WriteFile(filepath.Join(y.dir, "more.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: from-a-file}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{"network: {plugin: canal}", "ingress: {default_backend: true}", "addon_job_timeout: 300", upstream, "addons_include: [more.yaml, '" + include.URL + "/a.yaml']"}
	step := func(name string, do func()) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) {
			outer := y.T
			y.T = t
			defer func() { y.T = outer }()
			do()
		}) {
			t.FailNow()
		}
	}
	step("everything", func() {
		y.writeAddons(userAddon+userIngress, lines...)
		y.settled()
		y.get("get", "configmap", "from-a-file", "from-an-address")
		for _, workload := range []string{"kube-system daemonset/canal", "kube-system deployment/calico-kube-controllers", "kube-system deployment/coredns",
			"kube-system deployment/coredns-autoscaler", "kube-system deployment/metrics-server", "ingress-nginx daemonset/nginx-ingress-controller",
			"ingress-nginx deployment/default-http-backend", "pages daemonset/web"} {
			namespace, name, _ := strings.Cut(workload, " ")
			y.get("-n", namespace, "rollout", "status", name, "--timeout=20s")
		}
	})
	step("pods and names", y.pages)
	step("metrics", func() {
		y.eventually("kubectl top nodes", func() (string, bool) {
			out, err := y.kubectl("top", "nodes", "--no-headers")
			return fmt.Sprint(out, err), err == nil && strings.Count(out, "Mi") == len(y.hosts)
		})
	})
	step("ingress", y.ingress)
	step("manifests that are not in use", y.manifests)
	step("a drain", func() {
		name := y.hosts[1].Name()
		y.get("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=4m")
		y.get("uncordon", name)
	})
	step("what kubectl applied is taken over", func() { y.takeOverMetrics(lines) })
	step("add-ons change and go", func() {
		y.writeAddons(strings.Replace(userAddon, "name: web, namespace: pages}\nspec:\n  selector: {matchL", "name: web, namespace: pages, labels: {changed: \"yes\"}}\nspec:\n  selector: {matchL", 1),
			lines[0], "ingress: {default_backend: false}", lines[2], "monitoring: {provider: none}", strings.Replace(upstream, "53", "54", 1))
		preview := y.must("up", "--dry-run")
		for _, name := range []string{"rke-coredns-addon", "rke-metrics-addon", "rke-ingress-controller", "rke-user-addon"} {
			if !strings.Contains(preview, "add-on "+name) {
				y.Errorf("the preview lacks %s: %s", name, preview)
			}
		}
		y.settled()
		if !strings.Contains(y.get("-n", "kube-system", "get", "configmap", "coredns", "-o", "yaml"), "forward . 192.0.2.54") {
			y.Error("CoreDNS' config is the old one")
		}
		if got := y.get("-n", "pages", "get", "daemonset", "web", "-o", "jsonpath={.metadata.labels.changed}"); got != "yes" {
			y.Errorf("the user's DaemonSet has %q", got)
		}
		for _, gone := range [][]string{{"-n", "ingress-nginx", "deployment", "default-http-backend"}, {"-n", "kube-system", "deployment", "metrics-server"}, {"-n", "default", "apiservice", "v1beta1.metrics.k8s.io"},
			{"-n", "kube-system", "configmap", "rke-metrics-addon"}} {
			if out, err := y.kubectl(append([]string{"get"}, gone...)...); err == nil || !strings.Contains(err.Error(), "NotFound") {
				y.Errorf("%v: %s %v", gone, out, err)
			}
		}
		y.get("get", "configmap", "from-a-file", "from-an-address") // a text that was lost does not take them along
		y.pages()
	})
	step("an image that cannot be pulled is named", func() {
		y.writeAddons(strings.Replace(userAddon, rke1images.PageImage, "registry.invalid/nothing:1", 1), lines[0], "ingress: {default_backend: false}", "monitoring: {provider: none}",
			upstream, "addon_job_timeout: 40")
		y.must("up", "--disable-port-check")
		for _, want := range []string{"add-on rke-user-addon is not ready after 40s (addon_job_timeout): DaemonSet pages/web: ", "container web: ", "registry.invalid/nothing:1"} {
			if !strings.Contains(y.said, want) {
				y.Errorf("%q is not in what is said", want)
			}
		}
		if !strings.Contains(y.said, "ErrImagePull") && !strings.Contains(y.said, "ImagePullBackOff") {
			y.Error("the kubelet's reason is not said")
		}
	})
}

// ingress asks hosts for pages.
func (y *rkeYard) ingress() {
	ask := func(h *rke1bed.Host, host string) (int, string) {
		request, err := http.NewRequestWithContext(y.ctx, http.MethodGet, "http://"+h.Address()+"/", nil)
		if err != nil {
			y.Fatal(err)
		}
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		body := make([]byte, 200)
		n, _ := answer.Body.Read(body)
		return answer.StatusCode, string(body[:n])
	}
	for _, h := range y.hosts {
		y.eventually("the page through "+h.Name(), func() (string, bool) {
			status, body := ask(h, "web.example.com")
			return fmt.Sprint(status, body), status == http.StatusOK && strings.HasPrefix(body, "web-")
		})
		if status, body := ask(h, "other.example.com"); status != http.StatusNotFound || !strings.HasPrefix(body, "default backend") {
			y.Errorf("a name without an ingress: %d %s", status, body)
		}
	}
	y.eventually("the address of the ingress", func() (string, bool) {
		is := y.get("-n", "pages", "get", "ingress", "web", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}/{.spec.ingressClassName}")
		return is, is == y.hosts[0].Address()+"/nginx" || is == y.hosts[1].Address()+"/nginx"
	})
	if out, err := y.kubectl("-n", "pages", "create", "ingress", "bad", "--rule=refused.example.com/=web:80"); err == nil || !strings.Contains(err.Error(), "refused by the stand-in") {
		y.Errorf("the webhook: %s %v", out, err)
	}
}

// manifests gives all of drover's own to the API server, which does nothing with them but check them.
func (y *rkeYard) manifests() {
	paths, err := filepath.Glob("../../rke1/addons/testdata/v1.23.17/*.yaml")
	if err != nil || len(paths) < 10 {
		y.Fatalf("%d manifests, %v", len(paths), err)
	}
	y.get("-n", "ingress-nginx", "delete", "job", "--all") // they are done, and cannot be changed in place
	for _, path := range paths {
		if filepath.Base(path) == "dual-stack.yaml" {
			continue // the cluster has one family of addresses
		}
		if out, err := y.kubectl("apply", "--server-side", "--dry-run=server", "--force-conflicts", "--field-manager=drover", "--validate=true", "-f", path); err != nil {
			y.Errorf("%s: %v %s", path, err, out)
		}
	}
}

// takeOverMetrics has an add-on as RKE's Jobs leave it, with kubectl's fields, one of which is in the way of drover's.
func (y *rkeYard) takeOverMetrics(lines []string) {
	const theirs = `apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-server-of-old, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:metrics-server"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: metrics-server, namespace: kube-system, labels: {k8s-app: metrics-server, theirs: "yes"}}
spec:
  selector: {matchLabels: {k8s-app: metrics-server}}
  template:
    metadata: {labels: {k8s-app: metrics-server}}
    spec:
      containers:
      - name: metrics-server
        image: rancher/mirrored-metrics-server:v0.6.1
        args: [--cert-dir=/tmp, --secure-port=4443, --kubelet-insecure-tls]
        env: [{name: THEIRS, value: "yes"}]
        ports: [{containerPort: 4443, name: https, protocol: TCP}]
`
	y.writeAddons(userAddon+userIngress, append(lines, "monitoring: {provider: none}")...)
	y.settled()
	path := filepath.Join(y.dir, "theirs.yaml")
	if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
		y.Fatal(err)
	}
	y.get("apply", "-f", path)
	y.get("-n", "kube-system", "create", "configmap", "rke-metrics-addon", "--from-file=rke-metrics-addon="+path)
	y.writeAddons(userAddon+userIngress, lines...)
	y.settled()
	got := y.get("-n", "kube-system", "get", "deployment", "metrics-server", "-o",
		"jsonpath={.spec.template.spec.containers[*].ports[*].containerPort} {.spec.template.spec.containers[*].env} {.metadata.labels.theirs}")
	if diff := cmp.Diff("10250", got); diff != "" {
		y.Errorf("ports, variables and a label of RKE's: %s", diff)
	}
	if got := y.get("get", "clusterrolebinding", "system:metrics-server", "-o", "jsonpath={.roleRef.name}"); got != "system:metrics-server" {
		y.Errorf("the binding leads to %s", got)
	}
	if out, err := y.kubectl("-n", "kube-system", "get", "serviceaccount", "metrics-server-of-old"); err == nil {
		y.Errorf("an object that the add-on has no more is there: %s", out)
	}
}
