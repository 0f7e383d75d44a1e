//go:build e2e

package rke1bed_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/registry"
	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// patience is for what never comes.
const patience = 4 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is one made by hand, as one of its hosts sees it: the first one, with all roles, or a worker.
type cluster struct {
	*testing.T
	ctx     context.Context
	dir     string
	bed     *bed.Bed
	host    *rke1bed.Host
	files   map[string][]byte // certificates, keys and kubeconfigs of all hosts
	kit     rke1images.Kit
	version string
	images  map[string]string
	address string // of a registry
	ca      *authority
}

// TestRKE1Bed makes a cluster by hand, of the containers that RKE1 makes, and runs a pod in it: what drover's engine is
// tested on works by itself.
func TestRKE1Bed(t *testing.T) { testBed(t, rke1images.Version) }

func testBed(t *testing.T, version string) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute)
	defer cancel()
	c := start(ctx, t, version)
	for _, step := range []struct {
		name string
		run  func(*cluster)
	}{
		{"the ways to Docker", (*cluster).waysToDocker},
		{"etcd and the control plane", (*cluster).controlPlane},
		{"a node that is ready", (*cluster).worker},
		{"a pod", (*cluster).pod},
		{"names and services", (*cluster).services},
		{"a second host", (*cluster).second},
		{"a snapshot", (*cluster).snapshot},
		{"an image out of a registry", (*cluster).pull},
		{"a host without a network, and a reboot", (*cluster).cutAndReboot},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			began := time.Now()
			sub := *c
			sub.T = t
			step.run(&sub)
			t.Logf("took %s", time.Since(began).Round(time.Millisecond))
		})
		if !ok {
			return
		}
	}
}

// start makes the bed and one host with the images of a version.
func start(ctx context.Context, t *testing.T, version string) *cluster {
	t.Helper()
	module, err := filepath.Abs("../..")
	must(t, err)
	c := &cluster{T: t, ctx: ctx, dir: t.TempDir(), version: version, images: rke1images.SystemImages(version), ca: newAuthority(t), files: map[string][]byte{}}
	b, err := bed.Start(ctx, bed.Options{Dir: c.dir, CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			c.evidence()
		}
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	c.bed = b
	began := time.Now()
	c.kit, err = rke1images.Build(ctx, rke1images.Options{Module: module, Engine: b.Engine, Versions: []string{version}, Say: func(format string, args ...any) {
		fmt.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
	}})
	must(t, err)
	t.Logf("the images are there after %s", time.Since(began).Round(time.Millisecond))
	c.address, err = b.FreeAddress(ctx)
	must(t, err)
	c.startHost("rke-1")
	return c
}

// startHost starts a host with the images.
func (c *cluster) startHost(name string) {
	c.Helper()
	began := time.Now()
	var err error
	c.host, err = rke1bed.Start(c.ctx, c.bed, c.kit, c.dir, rke1bed.Options{Name: name, Versions: []string{c.version}, InsecureRegistries: []string{c.address}})
	must(c.T, err)
	c.Logf("%s has the images after %s", name, time.Since(began).Round(time.Millisecond))
}

// evidence prints what a person would look at first.
func (c *cluster) evidence() {
	if c.host == nil {
		return
	}
	ctx := context.WithoutCancel(c.ctx)
	out, err := c.host.Sh(ctx, `docker ps -a
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do echo "== $name"; docker logs --tail 30 $name 2>&1 || true; done`)
	c.Logf("%v\n%s", err, out)
	out, err = c.kubectl(ctx, "get", "pods,nodes", "-A", "-o", "wide")
	c.Logf("%v\n%s", err, out)
}

// waysToDocker asks the host's Docker through SSH as the user, and past everything.
func (c *cluster) waysToDocker() {
	client, err := c.host.SSH(c.ctx)
	must(c.T, err)
	defer client.Close()
	for name, dial := range map[string]func(context.Context) (net.Conn, error){
		"through SSH": func(context.Context) (net.Conn, error) { return client.Dial("unix", "/var/run/docker.sock") },
		"past it":     c.host.DialDocker,
	} {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
		request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "http://docker/version", nil)
		must(c.T, err)
		answer, err := (&http.Client{Transport: transport}).Do(request)
		must(c.T, err)
		text, err := io.ReadAll(answer.Body)
		must(c.T, err)
		must(c.T, answer.Body.Close())
		if !strings.Contains(string(text), `"Version":"20.10.`) {
			c.Errorf("%s: the host's Docker says %s", name, text)
		}
		transport.CloseIdleConnections()
	}
	before := c.host.KnownHosts()
	must(c.T, c.host.RenewHostKey(c.ctx))
	again, err := c.host.SSH(c.ctx)
	must(c.T, err)
	must(c.T, again.Close())
	if c.host.KnownHosts() == before {
		c.Error("the host is known by the key it had")
	}
}

// run starts a container of the control plane or the worker plane, as RKE1 does.
func (c *cluster) run(name string, options []string, image string, command ...string) {
	c.Helper()
	args := append([]string{"run", "--detach", "--name", name, "--network", "host", "--restart", "always",
		"--label", "io.rancher.rke.container.name=" + name, "--volume", "/etc/kubernetes:/etc/kubernetes"}, options...)
	_, err := c.host.Docker(c.ctx, append(append(args, image), command...)...)
	must(c.T, err)
}

// kubernetes starts one of Kubernetes' programs behind the entry point.
func (c *cluster) kubernetes(name string, options []string, flags ...string) {
	c.Helper()
	options = append([]string{"--volumes-from", "service-sidekick", "--entrypoint", "/opt/rke-tools/entrypoint.sh"}, options...)
	c.run(name, options, c.images["kubernetes"], append([]string{name}, flags...)...)
}

// healthy waits until a URL of the host answers with 200; the certificate of the API server is the client's.
func (c *cluster) healthy(url string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	began := time.Now()
	must(c.T, bed.Await(ctx, url, 200*time.Millisecond, func(ctx context.Context) error {
		_, err := c.host.Sh(ctx, "curl --silent --show-error --fail --insecure --cert "+sslDir+"kube-apiserver.pem --key "+sslDir+"kube-apiserver-key.pem "+url)
		return err
	}))
	c.Logf("%s is healthy after %s", url, time.Since(began).Round(time.Millisecond))
}

// certificates puts the files of a cluster on the host.
func (c *cluster) certificates() {
	address := c.host.Address()
	etcd := "kube-etcd-" + strings.ReplaceAll(address, ".", "-")
	c.files["kube-ca.pem"] = c.ca.pem
	for _, one := range []struct {
		file, name, organization string
		kubeconfig               bool
	}{
		{"kube-apiserver", "kube-apiserver", "", false},
		{etcd, "kube-etcd", "", false},
		{"kube-controller-manager", "system:kube-controller-manager", "", true},
		{"kube-scheduler", "system:kube-scheduler", "", true},
		{"kube-proxy", "system:kube-proxy", "", true},
		{"kube-node", "system:node", "system:nodes", true},
	} {
		p := c.ca.issue(one.name, one.organization, address)
		c.files[one.file+".pem"], c.files[one.file+"-key.pem"] = p.certificate, p.key
		if one.kubeconfig {
			c.files["kubecfg-"+one.file+".yaml"] = kubeconfig("https://127.0.0.1:6443", sslDir+"kube-ca.pem", sslDir+one.file+".pem", sslDir+one.file+"-key.pem")
		}
	}
	c.deployFiles()
	admin := c.ca.issue("kube-admin", "system:masters")
	for name, content := range map[string][]byte{
		"ca.pem": c.ca.pem, "admin.pem": admin.certificate, "admin-key.pem": admin.key,
		"kubeconfig": kubeconfig("https://"+net.JoinHostPort(address, "6443"), c.file("ca.pem"), c.file("admin.pem"), c.file("admin-key.pem")),
	} {
		must(c.T, os.WriteFile(c.file(name), content, 0o600))
	}
}

func (c *cluster) deployFiles() {
	for name, content := range c.files {
		must(c.T, c.host.WriteFile(c.ctx, sslDir+name, content, 0o600))
	}
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

// kubectl runs the real kubectl of this machine against the cluster.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.kit.Kubectl(c.version), append([]string{"--kubeconfig", c.file("kubeconfig"), "--request-timeout", "20s"}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// apply deploys a manifest.
func (c *cluster) apply(manifest string) {
	c.Helper()
	command := exec.CommandContext(c.ctx, c.kit.Kubectl(c.version), "--kubeconfig", c.file("kubeconfig"), "apply", "-f", "-")
	command.Stdin = strings.NewReader(manifest)
	if out, err := command.CombinedOutput(); err != nil {
		c.Fatalf("apply: %v: %s", err, out)
	}
}

func (c *cluster) controlPlane() {
	c.certificates()
	address := c.host.Address()
	etcd := sslDir + "kube-etcd-" + strings.ReplaceAll(address, ".", "-")
	c.run("etcd", []string{"--volume", "/var/lib/etcd:/var/lib/rancher/etcd/"}, c.images["etcd"], "/usr/local/bin/etcd",
		"--name=etcd-rke-1", "--data-dir=/var/lib/rancher/etcd/", "--listen-client-urls=https://0.0.0.0:2379", "--listen-peer-urls=https://0.0.0.0:2380",
		"--advertise-client-urls=https://"+address+":2379", "--initial-advertise-peer-urls=https://"+address+":2380", "--initial-cluster-token=etcd-cluster-1",
		"--initial-cluster=etcd-rke-1=https://"+address+":2380", "--initial-cluster-state=new", "--trusted-ca-file="+sslDir+"kube-ca.pem",
		"--peer-trusted-ca-file="+sslDir+"kube-ca.pem", "--cert-file="+etcd+".pem", "--key-file="+etcd+"-key.pem", "--peer-cert-file="+etcd+".pem",
		"--peer-key-file="+etcd+"-key.pem", "--client-cert-auth=true", "--peer-client-cert-auth=true", "--election-timeout=5000", "--heartbeat-interval=500")
	c.healthy("https://" + address + ":2379/health")
	c.sidekick()
	c.kubernetes("kube-apiserver", nil,
		"--etcd-servers=https://"+address+":2379", "--etcd-cafile="+sslDir+"kube-ca.pem", "--etcd-certfile="+sslDir+"kube-node.pem", "--etcd-keyfile="+sslDir+"kube-node-key.pem",
		"--etcd-prefix=/registry", "--storage-backend=etcd3", "--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address="+address,
		"--tls-cert-file="+sslDir+"kube-apiserver.pem", "--tls-private-key-file="+sslDir+"kube-apiserver-key.pem", "--client-ca-file="+sslDir+"kube-ca.pem",
		"--anonymous-auth=false", "--kubelet-client-certificate="+sslDir+"kube-apiserver.pem", "--kubelet-client-key="+sslDir+"kube-apiserver-key.pem",
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", "--service-account-key-file="+sslDir+"kube-apiserver-key.pem",
		"--service-account-signing-key-file="+sslDir+"kube-apiserver-key.pem", "--service-account-issuer=rke", "--service-account-lookup=true", "--api-audiences=unknown",
		"--authorization-mode=Node,RBAC", "--allow-privileged=true", "--profiling=false", "--service-cluster-ip-range=10.43.0.0/16", "--service-node-port-range=30000-32767",
		"--enable-admission-plugins=NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,ResourceQuota,NodeRestriction,Priority,TaintNodesByCondition",
		"--runtime-config=authorization.k8s.io/v1beta1=true", "--cloud-provider=")
	c.healthy("https://localhost:6443/healthz")
	three := func(name string) []string {
		file := sslDir + "kubecfg-" + name + ".yaml"
		return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file, "--leader-elect=true", "--profiling=false", "--v=2"}
	}
	c.kubernetes("kube-controller-manager", nil, append(three("kube-controller-manager"), "--root-ca-file="+sslDir+"kube-ca.pem",
		"--service-account-private-key-file="+sslDir+"kube-apiserver-key.pem", "--cluster-cidr=10.42.0.0/16", "--service-cluster-ip-range=10.43.0.0/16",
		"--allocate-node-cidrs=true", "--configure-cloud-routes=false", "--use-service-account-credentials=true", "--node-monitor-grace-period=40s", "--cloud-provider=")...)
	c.kubernetes("kube-scheduler", nil, three("kube-scheduler")...)
	c.healthy("https://localhost:10257/healthz")
	c.healthy("https://localhost:10259/healthz")
	out, err := c.kubectl(c.ctx, "version")
	must(c.T, err)
	c.Log(out)
}

// sidekick makes the container that is never started and has the volume of the others.
func (c *cluster) sidekick() {
	_, err := c.host.Docker(c.ctx, "create", "--name", "service-sidekick", "--network", "none", "--entrypoint", "/bin/bash", c.images["kubernetes_services_sidecar"])
	must(c.T, err)
}

// bindings are what lets the kubelets' and the API server's one identity do their work.
const bindings = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:node"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: proxy-role-binding-kubernetes-master}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kubelet-api-admin"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kube-apiserver}]
`

func (c *cluster) worker() {
	c.apply(bindings)
	c.apply(rke1images.Network(c.version))
	kernel, err := os.ReadFile("/proc/sys/kernel/panic")
	must(c.T, err)
	c.kubelet()
	out, err := c.kubectl(c.ctx, "get", "nodes", "--output", "wide")
	must(c.T, err)
	c.Log("\n" + out)
	if rke1images.PodsInDocker(c.version) != strings.Contains(out, "docker://20.10.") {
		c.Error("that is not the runtime of this version")
	}
	if now, err := os.ReadFile("/proc/sys/kernel/panic"); err != nil || string(now) != string(kernel) {
		c.Errorf("the kubelet changed this machine's kernel.panic from %s to %s, %v", kernel, now, err)
	}
}

// kubelet starts what runs on each host, and waits until the node is ready.
func (c *cluster) kubelet() {
	name := c.host.Name()
	options := []string{"--privileged", "--pid", "host"}
	for _, bind := range strings.Fields(`/etc/cni:/etc/cni:rw /opt/cni:/opt/cni:rw /var/lib/cni:/var/lib/cni /var/lib/calico:/var/lib/calico
		/etc/resolv.conf:/etc/resolv.conf /sys:/sys:rprivate /var/lib/docker:/var/lib/docker:rw,rslave /var/lib/kubelet:/var/lib/kubelet:shared
		/var/lib/rancher:/var/lib/rancher:shared /var/run:/var/run:rw,rprivate /run:/run:rprivate /etc/ceph:/etc/ceph /dev:/host/dev:rprivate
		/var/log/containers:/var/log/containers /var/log/pods:/var/log/pods /usr:/host/usr:ro /etc:/host/etc:ro`) {
		options = append(options, "--volume", bind)
	}
	flags := []string{
		"--address=0.0.0.0", "--anonymous-auth=false", "--authentication-token-webhook=true", "--authorization-mode=Webhook", "--cgroups-per-qos=True",
		"--client-ca-file=" + sslDir + "kube-ca.pem", "--cloud-provider=", "--cluster-dns=10.43.0.10", "--cluster-domain=cluster.local", "--event-qps=0",
		"--fail-swap-on=false", "--hostname-override=" + name, "--kubeconfig=" + sslDir + "kubecfg-kube-node.yaml", "--make-iptables-util-chains=true",
		"--pod-infra-container-image=" + c.images["pod_infra_container"], "--read-only-port=0", "--resolv-conf=/etc/resolv.conf", "--root-dir=/var/lib/kubelet",
		"--streaming-connection-idle-timeout=30m", "--v=2", "--volume-plugin-dir=/var/lib/kubelet/volumeplugins",
	}
	if rke1images.HasDockershim(c.version) {
		flags = append(flags, "--network-plugin=cni", "--cni-conf-dir=/etc/cni/net.d", "--cni-bin-dir=/opt/cni/bin")
	} else {
		options = append(options, "--volume", "/var/lib/cri-dockerd:/var/lib/cri-dockerd", "--env", "RKE_KUBELET_CRIDOCKERD=true")
		flags = append(flags, "--container-runtime-endpoint=unix:///var/run/cri-dockerd.sock")
	}
	for name, value := range rke1bed.KubeletArgs() {
		flags = append(flags, "--"+name+"="+value)
	}
	c.kubernetes("kubelet", options, flags...)
	c.kubernetes("kube-proxy", []string{"--privileged", "--pid", "host", "--volume", "/run:/run", "--volume", "/lib/modules:/lib/modules:ro"},
		"--cluster-cidr=10.42.0.0/16", "--healthz-bind-address=127.0.0.1", "--hostname-override="+name, "--kubeconfig="+sslDir+"kubecfg-kube-proxy.yaml", "--v=2")
	c.healthy("http://localhost:10248/healthz")
	c.healthy("http://localhost:10256/healthz")
	c.await("the node to be ready", "get", "node", name, "--output", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`, "True")
}

// second adds a worker, which finds the API through its nginx-proxy, and whose pods reach those of the first host.
func (c *cluster) second() {
	first := c.host.Address()
	c.startHost("rke-2")
	c.deployFiles()
	c.run("nginx-proxy", []string{"--env", "CP_HOSTS=" + first, "--entrypoint", "nginx-proxy"}, c.images["nginx_proxy"], "CP_HOSTS="+first)
	c.sidekick()
	c.kubelet()
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: visitor}
spec:
  nodeName: rke-2
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 0
  containers:
  - {name: visitor, image: "` + rke1images.BusyboxImage + `", imagePullPolicy: Never, command: [wget, -q, -O, "-", "http://cargo.default.svc.cluster.local"]}
`)
	c.await("a pod on the other host, which asks a service", "logs", "visitor", "hello")
}

// await waits until kubectl prints the last argument.
func (c *cluster) await(what string, args ...string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	last := len(args) - 1
	began := time.Now()
	must(c.T, bed.Await(ctx, what, 200*time.Millisecond, func(ctx context.Context) error {
		out, err := c.kubectl(ctx, args[:last]...)
		if err == nil && out != args[last] {
			err = fmt.Errorf("kubectl printed %q", out)
		}
		return err
	}))
	c.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
}

func (c *cluster) pod() {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: cargo, labels: {app: cargo}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: cargo, image: "` + rke1images.BusyboxImage + `", imagePullPolicy: Never, command: [sh, -c, "mkdir /www; echo hello >/www/index.html; echo started; exec httpd -f -p 80 -h /www"]}
`)
	c.await("a pod to run", "get", "pod", "cargo", "--output", "jsonpath={.status.phase}", "Running")
	out, err := c.host.Docker(c.ctx, "ps", "--format", "{{.Names}} {{.Image}}")
	must(c.T, err)
	c.Log("\n" + out)
	for _, name := range []string{"k8s_cargo_cargo_default_", "k8s_POD_cargo_default_"} {
		if strings.Contains(out, name) != rke1images.PodsInDocker(c.version) {
			c.Errorf("a container %s… of the host's Docker: %t", name, strings.Contains(out, name))
		}
	}
	c.await("a pod's log", "logs", "cargo", "started")
	c.await("a command in a pod", "exec", "cargo", "--", "cat", "/www/index.html", "hello")
}

func (c *cluster) services() {
	c.apply(rke1images.DNS(c.version))
	c.apply("apiVersion: v1\nkind: Service\nmetadata: {name: cargo}\nspec: {type: NodePort, selector: {app: cargo}, ports: [{port: 80, nodePort: 30080}]}\n")
	c.await("CoreDNS", "-n", "kube-system", "get", "deployment", "coredns", "--output", "jsonpath={.status.readyReplicas}", "1")
	c.await("a service by its name, from a pod", "exec", "cargo", "--", "wget", "-q", "-O", "-", "http://cargo.default.svc.cluster.local", "hello")
	out, err := c.host.Sh(c.ctx, "curl --silent --fail --max-time 20 http://"+c.host.Address()+":30080/")
	if err != nil || out != "hello\n" {
		c.Errorf("the node port answered %q, %v", out, err)
	}
}

// snapshot makes one as RKE1 does, and reads what is in it.
func (c *cluster) snapshot() {
	must(c.T, c.host.WriteFile(c.ctx, "/etc/kubernetes/first.rkestate", []byte("{}"), 0o400))
	out, err := c.host.Docker(c.ctx, "run", "--rm", "--network", "host", "--volume", "/opt/rke/etcd-snapshots/:/backup", "--volume", "/etc/kubernetes:/etc/kubernetes",
		c.images["alpine"], "/opt/rke-tools/rke-etcd-backup", "etcd-backup", "save", "--cacert", sslDir+"kube-ca.pem", "--cert", sslDir+"kube-node.pem",
		"--key", sslDir+"kube-node-key.pem", "--name", "first", "--endpoints="+c.host.Address()+":2379", "--once")
	if err != nil {
		c.Fatalf("%v: %s", err, out)
	}
	text, err := c.host.ReadFile(c.ctx, "/opt/rke/etcd-snapshots/first.zip")
	must(c.T, err)
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	must(c.T, err)
	var members []string
	for _, member := range archive.File {
		members = append(members, member.Name)
	}
	if diff := cmp.Diff([]string{"/backup/first", "/etc/kubernetes/first.rkestate"}, members); diff != "" {
		c.Error(diff)
	}
}

// pull fetches an image from a registry that has all of the kit.
func (c *cluster) pull() {
	images, err := registry.New(filepath.Join(c.dir, "registry"))
	must(c.T, err)
	must(c.T, images.PushArchive(c.ctx, c.kit.Archive(c.version)))
	listener, err := net.Listen("tcp", c.address)
	must(c.T, err)
	ctx, cancel := context.WithCancel(c.ctx)
	served := make(chan error, 1)
	go func() { served <- images.Serve(ctx, listener) }()
	_, err = c.host.Docker(c.ctx, "pull", c.address+"/"+c.images["etcd"])
	cancel()
	must(c.T, errors.Join(err, <-served))
}

// cutAndReboot loses the host and finds it again, with the pod.
func (c *cluster) cutAndReboot() {
	must(c.T, c.host.Cut(c.ctx))
	if _, err := c.host.Docker(c.ctx, "ps"); err != nil {
		c.Error(err)
	}
	short, cancel := context.WithTimeout(c.ctx, 2*time.Second)
	defer cancel()
	if client, err := c.host.SSH(short); err == nil {
		c.Error("a host without a network let somebody log in")
		_ = client.Close()
	}
	must(c.T, c.host.Heal(c.ctx))
	must(c.T, c.host.Reboot(c.ctx))
	c.healthy("https://localhost:6443/healthz")
	c.await("the pod after a reboot", "get", "pod", "cargo", "--output", `jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}`, "1 true")
	client, err := c.host.SSH(c.ctx)
	must(c.T, err)
	must(c.T, client.Close())
}
