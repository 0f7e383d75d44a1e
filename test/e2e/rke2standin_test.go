//go:build e2e && e2e_full

package e2e

// The stand-in of RKE2 on hosts with a real systemd, installed by its image as a plan does it: what drover will rely on
// when it provisions RKE2 has to be so on the stand-in first.

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/registry"
	"github.com/drover-project/drover/test/rke2standin"
)

const (
	rke2Data = "/var/lib/rancher/rke2"
	// rke2Patience is for what never comes; the slowest is a server that joins, half a minute on two cores.
	rke2Patience = 5 * time.Minute
	rke2Secret   = "0123456789abcdef0123456789abcdef"
)

// rke2Walk is a cluster that grows host by host.
type rke2Walk struct {
	*testing.T
	ctx      context.Context
	bed      *bed.Bed
	kit      rke2standin.Kit
	agent    *updates // builds and installs agents
	registry string
	hosts    map[string]*host.Host
	token    string // of servers, in full
}

// rke2Step is a step of a walk, which the next ones build upon.
type rke2Step struct {
	name string
	run  func(*rke2Walk)
}

func TestRKE2StandIn(t *testing.T) {
	walkRKE2(t, []string{rke2standin.Older, rke2standin.Version}, []rke2Step{
		{"a first server", (*rke2Walk).firstServer},
		{"its parts are pods that run", (*rke2Walk).staticPods},
		{"it answers the probes of a plan", (*rke2Walk).probes},
		{"a second server becomes a voter", (*rke2Walk).secondServer},
		{"an agent joins", (*rke2Walk).agentJoins},
		{"a pod reaches the API by its service", (*rke2Walk).podReachesAPI},
		{"pods outlive a restart of the service", (*rke2Walk).restart},
		{"a plan with the same stamp restarts nothing", (*rke2Walk).sameStamp},
		{"an upgrade", (*rke2Walk).upgrade},
		{"everything is killed and starts again", (*rke2Walk).killAll},
		{"what an uninstall leaves", (*rke2Walk).uninstall},
	})
}

// TestRKE2StandInRolesApart has etcd on one host and the control plane on another.
func TestRKE2StandInRolesApart(t *testing.T) {
	walkRKE2(t, []string{rke2standin.Version}, []rke2Step{
		{"etcd alone", (*rke2Walk).etcdAlone},
		{"a control plane without etcd", (*rke2Walk).controlPlaneAlone},
		{"certificates are rotated", (*rke2Walk).rotates},
		{"a snapshot is restored", (*rke2Walk).restores},
	})
}

func walkRKE2(t *testing.T, versions []string, steps []rke2Step) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	w := &rke2Walk{T: t, ctx: ctx, hosts: map[string]*host.Host{}}
	w.prepare(versions)
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) {
			sub := *w
			sub.T = t
			began := time.Now()
			step.run(&sub)
			t.Logf("%s: %.1f s", step.name, time.Since(began).Seconds())
			w.token = sub.token
		}) {
			return
		}
	}
}

// prepare builds everything and serves the installer images.
func (w *rke2Walk) prepare(versions []string) {
	module, err := filepath.Abs("../..")
	must(w.T, err)
	dir := w.TempDir()
	w.bed, err = bed.Start(w.ctx, bed.Options{Dir: dir, CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(w.T, err)
	w.Cleanup(func() {
		if w.Failed() {
			w.evidence()
		}
		if err := w.bed.Close(context.WithoutCancel(w.ctx)); err != nil {
			w.Error(err)
		}
	})
	w.kit, err = rke2standin.Build(w.ctx, rke2standin.Options{Module: module, CacheDir: w.bed.Engine.CacheDir(), Versions: versions, Say: w.Logf})
	must(w.T, err)
	w.agent = &updates{T: w.T, ctx: w.ctx, bin: w.TempDir(), sums: map[string]string{}}
	w.agent.build("v1")
	images, err := registry.New(filepath.Join(dir, "registry"))
	must(w.T, err)
	for _, version := range versions {
		must(w.T, images.PushInstaller(w.ctx, rke2standin.InstallerRef(version), w.kit.Installer(version)))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(w.bed.Engine.Gateway().String(), "0"))
	must(w.T, err)
	w.registry = listener.Addr().String()
	serving, stop := context.WithCancel(context.WithoutCancel(w.ctx))
	served := make(chan error, 1)
	go func() { served <- images.Serve(serving, listener) }()
	w.Cleanup(func() { stop(); must(w.T, <-served) })
}

// evidence is what there is to see of the hosts of a failed run.
func (w *rke2Walk) evidence() {
	ctx := context.WithoutCancel(w.ctx)
	for name, h := range w.hosts {
		text, _ := h.Sh(ctx, `systemctl --no-pager status 'rke2-*' rancher-system-agent | head -n 40
journalctl --no-pager -n 40 -u rke2-server -u rke2-agent -u rancher-system-agent | cut -c 1-300
ls -l `+rke2Data+`/agent/pod-manifests; tail -n 20 `+rke2Data+`/agent/logs/kubelet.log | cut -c 1-300
for log in /var/log/pods/*/*/*.log; do echo "$log"; tail -n 3 "$log" | cut -c 1-300; done`) // for a failure's text
		w.Logf("host %s:\n%s", name, text)
	}
}

func (w *rke2Walk) sh(name, script string) string {
	w.Helper()
	out, err := w.hosts[name].Sh(w.ctx, script)
	if err != nil {
		w.Fatalf("on %s: %v", name, err)
	}
	return strings.TrimSpace(out)
}

// await waits until a script succeeds on a host.
func (w *rke2Walk) await(name, what, script string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, rke2Patience)
	defer cancel()
	must(w.T, bed.Await(ctx, what, 500*time.Millisecond, func(ctx context.Context) error {
		_, err := w.hosts[name].Sh(ctx, script)
		return err
	}))
}

// kubectl is a command for a server's shell.
func kubectl(args string) string {
	return "KUBECONFIG=/etc/rancher/rke2/rke2.yaml " + rke2Data + "/bin/kubectl --request-timeout=20s " + args
}

// start makes a host with an agent that takes dropped plans.
func (w *rke2Walk) start(name string) {
	w.Helper()
	h, err := w.bed.Host(w.ctx, host.Options{Name: "rke2-" + name, Kubernetes: true})
	must(w.T, err)
	w.hosts[name] = h
	u := *w.agent
	u.T, u.host = w.T, h
	u.install()
	must(w.T, h.Copy(w.ctx, w.kit.Busybox(), rke2Data+"/agent/images/busybox.tar"))
	mirrors := fmt.Sprintf("mirrors:\n  docker.io:\n    endpoint: [\"http://%s\"]\n", w.registry)
	must(w.T, h.WriteFile(w.ctx, "/etc/rancher/agent/registries.yaml", []byte(mirrors), 0o600))
}

// plan drops a plan as drover makes it for RKE2, the configuration and the installer image with its variables, and returns
// when it is done.
func (w *rke2Walk) plan(name, version string, config map[string]any, env ...string) {
	w.Helper()
	config["node-name"] = name
	text, err := json.MarshalIndent(config, "", "  ")
	must(w.T, err)
	done := fmt.Sprint(time.Now().UnixNano())
	plan, err := json.Marshal(plans.Plan{
		Files: []plans.File{{Path: "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", Content: base64.StdEncoding.EncodeToString(text)}},
		Instructions: []plans.OneTimeInstruction{
			{Instruction: plans.Instruction{
				Name: "install", Image: rke2standin.InstallerRef(version), Command: "sh", Args: []string{"-c", "run.sh"}, Env: append(env, "RKE2_DATA_DIR="+rke2Data),
			}},
			{Instruction: plans.Instruction{Name: "done", Command: "sh", Args: []string{"-c", "echo " + done + " >/srv/done"}}},
		},
	})
	must(w.T, err)
	w.sh(name, "umask 077; mkdir -p /var/lib/rancher/agent/plans")
	must(w.T, w.hosts[name].WriteFile(w.ctx, "/var/lib/rancher/agent/plans/.rke2.tmp", plan, 0o600))
	w.sh(name, "mv /var/lib/rancher/agent/plans/.rke2.tmp /var/lib/rancher/agent/plans/rke2.plan")
	w.await(name, "the plan to be done", "grep "+done+" /srv/done")
}

// serverConfig is that of a server that joins no other.
func (w *rke2Walk) serverConfig(more map[string]any) map[string]any {
	config := map[string]any{
		"token": rke2Secret, "cni": "calico", "tls-san": []string{"rke2.example"}, "prime": true,
		"kube-apiserver-arg": []string{"max-requests-inflight=500"},
	}
	for key, value := range more {
		config[key] = value
	}
	return config
}

// joinConfig is that of a node that joins the first server.
func (w *rke2Walk) joinConfig() map[string]any {
	return map[string]any{"token": w.token, "server": "https://" + w.hosts["s1"].IP() + ":9345"}
}

// api is a host with an API server.
func (w *rke2Walk) api() string {
	if _, apart := w.hosts["c1"]; apart {
		return "c1"
	}
	return "s1"
}

// ready waits until the API has a node as ready, with a version.
func (w *rke2Walk) ready(name, version string) {
	w.Helper()
	w.await(w.api(), "node "+name+" to be ready", fmt.Sprintf(`test "$(%s)" = "True %s"`,
		kubectl(`get node `+name+` -o jsonpath='{.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.kubeletVersion}'`), version))
}

func (w *rke2Walk) firstServer() {
	w.start("s1")
	const policy = rke2Data + "/etc/config-files/audit-policy-file"
	must(w.T, w.hosts["s1"].WriteFile(w.ctx, policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	began := time.Now()
	w.plan("s1", rke2standin.Older, w.serverConfig(map[string]any{"audit-policy-file": policy}), "RESTART_STAMP=one")
	w.await("s1", "the service", "test \"$(systemctl is-active rke2-server)\" = active")
	w.Logf("the first server's service is up after %.1f s", time.Since(began).Seconds())
	w.ready("s1", rke2standin.Older)
	w.Logf("the first server is ready after %.1f s", time.Since(began).Seconds())
	w.token = w.sh("s1", "cat "+rke2Data+"/server/token")
	if !strings.HasPrefix(w.token, "K10") || !strings.HasSuffix(w.token, "::server:"+rke2Secret) {
		w.Errorf("the token is not in the full form")
	}
	w.sh("s1", "grep -q max-requests-inflight=500 "+rke2Data+"/agent/pod-manifests/kube-apiserver.yaml; test -s "+rke2Data+"/server/logs/audit.log")
	if mode := w.sh("s1", "stat -c %a /etc/rancher/rke2/rke2.yaml /usr/local/lib/systemd/system/rke2-sa.env"); mode != "600\n600" {
		w.Errorf("the modes of the kubeconfig and the variables are %q", mode)
	}
}

// parts are what runs on a server as static pods.
var parts = []string{"cloud-controller-manager", "etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"}

// podsRun waits until the API has the static pods of a node as running and ready ones, and Calico's stand-in beside them.
// It may take the kubelet a minute to report those that started before the API did.
func (w *rke2Walk) podsRun(name string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		w.await(w.api(), "the pod "+part+"-"+name, fmt.Sprintf(`test "$(%s)" = "Running true %s"`,
			kubectl("get pod --namespace kube-system "+part+"-"+name+" -o jsonpath='{.status.phase} {.status.containerStatuses[0].ready} {.status.podIP}'"), w.hosts[name].IP()))
	}
	w.await(w.api(), "Calico's pod on "+name, fmt.Sprintf("%s | grep ' Running '",
		kubectl("get pods --namespace calico-system --field-selector spec.nodeName="+name+" --no-headers")))
}

func (w *rke2Walk) staticPods() {
	w.podsRun("s1", parts...)
	if got := strings.Fields(w.sh("s1", "ls "+rke2Data+"/agent/pod-manifests")); len(got) != len(parts) {
		w.Errorf("the manifests are %q", got)
	}
	if out := w.sh("s1", "CRI_CONFIG_FILE="+rke2Data+"/agent/etc/crictl.yaml "+rke2Data+"/bin/crictl ps"); !strings.Contains(out, "etcd") {
		w.Errorf("crictl says\n%s", out)
	}
}

// probes asks what a plan's probes ask, with the files that they name.
func (w *rke2Walk) probes() {
	const tls = rke2Data + "/server/tls/"
	for name, args := range map[string]string{
		"etcd":                    "http://127.0.0.1:2381/health",
		"kube-apiserver":          "https://127.0.0.1:6443/readyz --cacert " + tls + "server-ca.crt --cert " + tls + "client-kube-apiserver.crt --key " + tls + "client-kube-apiserver.key",
		"kube-controller-manager": "https://127.0.0.1:10257/healthz --cacert " + tls + "kube-controller-manager/kube-controller-manager.crt",
		"kube-scheduler":          "https://127.0.0.1:10259/healthz --cacert " + tls + "kube-scheduler/kube-scheduler.crt",
		"kubelet":                 "http://127.0.0.1:10248/healthz",
		"calico":                  "http://127.0.0.1:9099/liveness",
	} {
		w.await("s1", "the probe "+name, "curl --fail --silent --show-error --max-time 5 "+args)
	}
}

func (w *rke2Walk) secondServer() {
	w.start("s2")
	began := time.Now()
	config := w.joinConfig()
	config["cni"] = "calico"
	w.plan("s2", rke2standin.Older, config, "RESTART_STAMP=one")
	w.ready("s2", rke2standin.Older)
	w.Logf("the second server is ready after %.1f s", time.Since(began).Seconds())
	w.await("s1", "s2 to be a voter", fmt.Sprintf(`test "$(%s)" = True`, kubectl(`get node s2 -o jsonpath='{.status.conditions[?(@.type=="EtcdIsVoter")].status}'`)))
	w.await("s2", "the service", "test \"$(systemctl is-active rke2-server)\" = active")
	w.podsRun("s2", parts...)
}

func (w *rke2Walk) agentJoins() {
	w.start("a1")
	began := time.Now()
	w.plan("a1", rke2standin.Older, w.joinConfig(), "RESTART_STAMP=one", "INSTALL_RKE2_EXEC=agent")
	w.ready("a1", rke2standin.Older)
	w.Logf("the agent is ready after %.1f s", time.Since(began).Seconds())
	w.await("a1", "the service", "test \"$(systemctl is-active rke2-agent)\" = active")
	w.podsRun("a1", "kube-proxy")
}

// podReachesAPI needs the network of pods, the rules of kube-proxy and the scheduler.
func (w *rke2Walk) podReachesAPI() {
	const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "caller"}, "spec": {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": "a1"},
  "containers": [{"name": "caller", "image": "` + rke2standin.BusyboxImage + `", "imagePullPolicy": "Never",
    "command": ["sh", "-c", "until nc -w 3 10.43.0.1 443 </dev/null; do sleep 1; done"]}]}}`
	must(w.T, w.hosts["s1"].WriteFile(w.ctx, "/srv/caller.json", []byte(pod), 0o644))
	w.await("s1", "the pod to be taken", kubectl("apply -f /srv/caller.json"))
	w.await("s1", "the pod to reach the API", fmt.Sprintf(`test "$(%s)" = "Succeeded a1"`, kubectl("get pod caller -o jsonpath='{.status.phase} {.spec.nodeName}'")))
}

// running is what of a host changes when the service, and when etcd, is started anew.
func (w *rke2Walk) running(name string) (service, etcd string) {
	return w.sh(name, "systemctl show -P MainPID rke2-server"), w.sh(name, "pgrep -o -x etcd")
}

func (w *rke2Walk) restart() {
	service, etcd := w.running("s1")
	w.sh("s1", "systemctl restart rke2-server") // waits until it is ready
	w.ready("s1", rke2standin.Older)
	if now, still := w.running("s1"); now == service || still != etcd {
		w.Errorf("the service was %s and is %s, etcd was %s and is %s", service, now, etcd, still)
	}
	if out, err := w.hosts["s1"].Sh(w.ctx, "systemctl start rke2-agent"); err == nil {
		w.Errorf("an agent was started beside the server: %s", out)
	}
	w.sh("s1", "systemctl stop rke2-agent; systemctl reset-failed rke2-agent || true")
}

func (w *rke2Walk) sameStamp() {
	service, _ := w.running("s1")
	w.plan("s1", rke2standin.Older, w.serverConfig(nil), "RESTART_STAMP=one", "DRAIN_HASH=other")
	if now, _ := w.running("s1"); now != service {
		w.Errorf("the service was process %s and is %s", service, now)
	}
}

func (w *rke2Walk) upgrade() {
	_, etcd := w.running("s1")
	w.plan("s1", rke2standin.Version, w.serverConfig(nil), "RESTART_STAMP=two")
	w.ready("s1", rke2standin.Version)
	w.await("s1", "the service", "test \"$(systemctl is-active rke2-server)\" = active")
	w.podsRun("s1", parts...)
	if _, now := w.running("s1"); now == etcd {
		w.Error("etcd runs from the image of the old version")
	}
	if stamp := w.sh("s1", "cat "+rke2Data+"/system-agent-installer/rke2_restart_stamp"); stamp != "two" {
		w.Errorf("the stamp is %q", stamp)
	}
	if out := w.sh("s1", "rke2 --version"); !strings.HasPrefix(out, "rke2 version "+rke2standin.Version+" (standin)") {
		w.Errorf("the version is %q", out)
	}
}

// nothingRuns looks whether nothing of RKE2 is left among the processes, mounts and links of a host.
func (w *rke2Walk) nothingRuns(name string) {
	w.Helper()
	for what, script := range map[string]string{
		"processes": "pgrep -l 'rke2|containerd|kubelet|etcd|kube-' || true",
		"mounts":    "grep -E ' (/run/k3s|/var/lib/kubelet/pods|/run/netns/cni-)' /proc/self/mounts || true",
		"links":     "ip -o link | grep -E 'cni0|flannel|veth' || true",
		"rules":     "iptables-save | grep -E 'KUBE-|CNI-|FLANNEL' || true",
	} {
		if left := w.sh(name, script); left != "" {
			w.Errorf("%s are left:\n%s", what, left)
		}
	}
}

func (w *rke2Walk) killAll() {
	w.sh("s2", "rke2-killall.sh")
	w.nothingRuns("s2")
	w.sh("s2", "test -d "+rke2Data+"/server/db/etcd; test -z \"$(ls "+rke2Data+"/agent/pod-manifests)\"")
	w.sh("s2", "systemctl --no-block start rke2-server")
	w.await("s2", "the service", "test \"$(systemctl is-active rke2-server)\" = active")
	w.podsRun("s2", parts...)
}

func (w *rke2Walk) uninstall() {
	w.sh("a1", "mkdir -p /var/lib/rancher/capr; rke2-uninstall.sh")
	w.nothingRuns("a1")
	left := strings.Fields(w.sh("a1", "ls -d /etc/rancher/* /var/lib/rancher/* /usr/local/bin/* /var/lib/kubelet/* /usr/local/lib/systemd/system/* 2>/dev/null || true"))
	want := []string{
		"/etc/rancher/agent", "/usr/local/bin/rancher-system-agent", "/usr/local/bin/rancher-system-agent-uninstall.sh",
		"/var/lib/rancher/agent", "/var/lib/rancher/capr", "/var/lib/rancher/system-agent",
	}
	if slices.Sort(left); !slices.Equal(left, want) {
		w.Errorf("left is %q, want %q", left, want)
	}
}

// etcdAlone is the first host of a cluster without an API server yet: its own supervisor says where its etcd is.
func (w *rke2Walk) etcdAlone() {
	w.start("e1")
	began := time.Now()
	config := w.serverConfig(map[string]any{
		"disable-apiserver": true, "disable-controller-manager": true, "disable-scheduler": true,
		"node-taint": []string{"node-role.kubernetes.io/etcd:NoExecute"},
	})
	w.plan("e1", rke2standin.Version, config, "RESTART_STAMP=one")
	w.await("e1", "the service", "test \"$(systemctl is-active rke2-server)\" = active")
	w.Logf("etcd alone is up after %.1f s", time.Since(began).Seconds())
	w.token = w.sh("e1", "cat "+rke2Data+"/server/token")
	w.await("e1", "the supervisor's word on etcd", `curl --fail --silent --show-error --cacert `+rke2Data+`/server/tls/server-ca.crt https://localhost:9345/db/info |
	grep -F "\"name\":\"$(cat `+rke2Data+`/server/db/etcd/name)\"" | grep -F 'clientURLs":["https://`+w.hosts["e1"].IP()+`:2379'`)
	w.await("e1", "the probes", "curl --fail --silent --show-error http://127.0.0.1:2381/health http://127.0.0.1:10248/healthz")
}

func (w *rke2Walk) controlPlaneAlone() {
	w.start("c1")
	began := time.Now()
	config := map[string]any{
		"token": w.token, "server": "https://" + w.hosts["e1"].IP() + ":9345", "cni": "calico", "disable-etcd": true,
		"node-taint": []string{"node-role.kubernetes.io/control-plane:NoSchedule"},
	}
	for component, port := range map[string]string{"kube-controller-manager": "10257", "kube-scheduler": "10259"} {
		dir := rke2Data + "/server/tls/" + component
		config[component+"-arg"] = []string{"cert-dir=" + dir, "secure-port=" + port}
		config[component+"-extra-mount"] = []string{dir + ":" + dir}
	}
	w.plan("c1", rke2standin.Version, config, "RESTART_STAMP=one")
	w.ready("c1", rke2standin.Version)
	w.ready("e1", rke2standin.Version)
	w.Logf("both are ready after %.1f s", time.Since(began).Seconds())
	w.podsRun("c1", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
	w.podsRun("e1", "etcd", "kube-proxy")
	if out := w.sh("c1", "ls "+rke2Data+"/agent/pod-manifests"); strings.Contains(out, "etcd") {
		w.Errorf("the control plane has the pods %q", out)
	}
	w.await("c1", "the roles", fmt.Sprintf(`test "$(%s | wc -l)" = 2`,
		kubectl("get nodes --no-headers --selector '!node-role.kubernetes.io/worker' | grep -E '^(c1 .* control-plane |e1 .* etcd )'")))
}

// rotates looks whether new certificates reach the processes that use them.
func (w *rke2Walk) rotates() {
	const served = `echo | openssl s_client -connect 127.0.0.1:6443 2>/dev/null | openssl x509 -noout -serial`
	before := w.sh("c1", served)
	w.sh("c1", "systemctl stop rke2-server; "+served) // the pods run on
	w.sh("c1", "rke2 certificate rotate; systemctl restart rke2-server")
	w.await("c1", "another certificate of the API server", `test "$(`+served+`)" != "`+before+`"`)
	w.podsRun("c1", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	w.ready("c1", rke2standin.Version)
}

// restores takes the way of a plan: everything is killed, etcd's data put aside, and the reset ends by itself.
func (w *rke2Walk) restores() {
	namespace := func(name string) { // the API server may be restarting with its new certificate
		w.await("c1", "a namespace", kubectl("get namespace "+name)+" || "+kubectl("create namespace "+name))
	}
	namespace("before")
	w.sh("e1", "rke2 etcd-snapshot save --name walk")
	namespace("after")
	w.sh("c1", "rke2-killall.sh; rm -rf "+rke2Data+"/server/tls "+rke2Data+"/server/cred")
	w.sh("e1", "rke2-killall.sh; rm -rf "+rke2Data+"/server/tls "+rke2Data+"/server/cred "+rke2Data+"/server/db/etcd")
	began := time.Now()
	w.sh("e1", `rke2 server --cluster-reset --etcd-arg=advertise-client-urls=https://127.0.0.1:2379 --etcd-disable-snapshots=false --etcd-s3=false \
--cluster-reset-restore-path="db/snapshots/$(ls `+rke2Data+`/server/db/snapshots | grep ^walk)" >/srv/reset.log 2>&1`)
	w.Logf("the reset took %.1f s", time.Since(began).Seconds())
	if left := w.sh("e1", "pgrep -lx 'rke2|containerd|kubelet|etcd' || true"); left != "" {
		w.Errorf("after the reset there are\n%s", left)
	}
	w.sh("e1", "test -e "+rke2Data+"/server/db/reset-flag; systemctl --no-block start rke2-server")
	w.sh("c1", "systemctl --no-block start rke2-server")
	w.ready("e1", rke2standin.Version)
	w.ready("c1", rke2standin.Version)
	w.await("c1", "what the snapshot had", kubectl("get namespace before"))
	if out := w.sh("c1", kubectl("get namespaces --output name")); strings.Contains(out, "/after") {
		w.Errorf("what came after the snapshot is there: %s", out)
	}
}
