//go:build e2e && e2e_full

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// rkeDice are the moments of a run, which a person can have again.
func rkeDice(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("DROVER_E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("DROVER_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// step is a part of a test; those behind it need it.
func (y *rkeYard) step(name string, do func(t *testing.T)) {
	y.Helper()
	if !y.Run(name, func(t *testing.T) {
		outer := y.T
		y.T = t
		defer func() { y.T = outer }()
		began := time.Now()
		do(t)
		t.Logf("MEASURE %s: %s", name, time.Since(began).Round(time.Second))
	}) {
		y.FailNow()
	}
}

// upgradeStrategy lets one host at a time be away, after its pods have gone.
const upgradeStrategy = `upgrade_strategy:
  max_unavailable_controlplane: "1"
  max_unavailable_worker: "1"
  drain: true
  node_drain_input: {force: true, ignore_daemonsets: true, delete_local_data: true, grace_period: 5, timeout: 120}
`

// shop has three copies, of which two are there at any time.
const shop = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: shop
        image: "` + rke1images.BusyboxImage + `"
        imagePullPolicy: Never
        command: [sh, -c, "mkdir /www; echo open >/www/index.html; exec httpd -f -p 80 -h /www"]
        readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 2, selector: {matchLabels: {app: shop}}}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {type: NodePort, selector: {app: shop}, ports: [{port: 80, nodePort: 30080}]}
`

// TestRKEUpgrade brings a cluster of three hosts to the next patch and to the next minor, whose kubelets have no dockershim, host
// after host and with a drain of each, loses two hosts, restores a snapshot, has them back and rotates the CA, by a command that is
// killed again and again.
func TestRKEUpgrade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Minute)
	defer cancel()
	y := newRKEYard(t, ctx, rke1images.Older, "rke-a", "rke-b", "rke-c")
	dice := rkeDice(t)
	kit, err := rke1images.Build(ctx, rke1images.Options{Module: "../..", Engine: y.bed.Engine, Versions: []string{rke1images.Version, rke1images.Next}, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	roles := map[*rke1bed.Host]string{}
	for _, h := range y.hosts {
		roles[h] = everyRole
		for _, version := range []string{rke1images.Version, rke1images.Next} {
			if err := h.LoadImage(ctx, kit.Archive(version)); err != nil {
				t.Fatal(err)
			}
		}
	}
	y.step("three hosts", func(t *testing.T) {
		y.write(roles, upgradeStrategy)
		began := time.Now()
		y.must("up")
		y.measure("rke up of three hosts", began)
		y.ready(3)
		y.voters(y.hosts[0], 3)
		y.apply(shop)
		y.reported(rke1images.Older)
	})
	y.step("a second run changes nothing", func(*testing.T) { y.same() })
	for _, version := range []string{rke1images.Version, rke1images.Next} {
		y.step("an upgrade to "+version+" while the command is killed", func(t *testing.T) {
			y.version = version
			y.write(roles, upgradeStrategy)
			if out := y.must("up", "--dry-run"); strings.Count(out, " kubelet: replace (") != 3 || strings.Count(out, " kube-apiserver: replace (") != 3 {
				t.Errorf("the preview: %s", out)
			}
			seen := y.watchAway()
			y.strike(dice, 6, "up")
			y.must("up")
			if away := seen(); away > 1 {
				t.Errorf("%d nodes took no pods at the same time", away)
			}
			y.ready(3)
			y.voters(y.hosts[0], 3)
			y.reported(version)
			y.open()
			y.same()
		})
	}
	y.days(dice, roles)
}

// days are the days after: hosts are lost and restored, and certificates rotated.
func (y *rkeYard) days(dice *rand.Rand, roles map[*rke1bed.Host]string) {
	a, lost := y.hosts[0], y.hosts[1:]
	y.step("a snapshot, the loss of two hosts, and a restore while the command is killed", func(t *testing.T) {
		y.configMap("kept")
		y.must("etcd", "snapshot-save", "--name", "fleet")
		y.configMap("later")
		for _, h := range lost {
			if err := h.Kill(y.ctx); err != nil {
				t.Fatal(err)
			}
		}
		y.write(map[*rke1bed.Host]string{a: everyRole}, upgradeStrategy)
		y.strike(dice, 3, "etcd", "snapshot-restore", "--name", "fleet")
		y.must("etcd", "snapshot-restore", "--name", "fleet")
		y.ready(1)
		y.voters(a, 1)
		if out, err := y.kubectl("get", "configmap", "kept", "later", "--ignore-not-found", "-o", "name"); err != nil || out != "configmap/kept\n" {
			t.Errorf("of the ConfigMaps before and after the snapshot there is: %s %v", out, err)
		}
	})
	y.step("the lost hosts come back with what they had, and join anew while the command is killed", func(t *testing.T) {
		for _, h := range lost {
			if err := h.Boot(y.ctx); err != nil {
				t.Fatal(err)
			}
		}
		y.write(roles, upgradeStrategy)
		if _, err := y.rke("up"); err == nil || !strings.Contains(err.Error(), "runs an etcd that is not a member of this cluster") {
			t.Errorf("hosts with the etcd of before: %v", err)
		}
		for _, h := range lost {
			if _, err := h.Sh(y.ctx, "docker ps --all --quiet | xargs docker rm --force"); err != nil {
				t.Fatal(err)
			}
		}
		y.strike(dice, 3, "up")
		y.must("up")
		y.ready(3)
		y.voters(a, 3)
		y.open()
	})
	y.step("certificates and their CA are rotated while the command is killed", func(t *testing.T) {
		y.strike(dice, 3, "cert", "rotate", "--rotate-ca")
		y.must("cert", "rotate", "--rotate-ca")
		y.ready(3)
		y.open()
		y.same()
	})
}

// configMap makes a ConfigMap.
func (y *rkeYard) configMap(name string) {
	y.Helper()
	if out, err := y.kubectl("create", "configmap", name, "--from-literal=word="+name); err != nil {
		y.Fatal(out, err)
	}
}

// apply gives a text to the cluster.
func (y *rkeYard) apply(text string) {
	y.Helper()
	file := y.dir + "/apply.yaml"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		y.Fatal(err)
	}
	if out, err := y.kubectl("apply", "-f", file); err != nil {
		y.Fatal(out, err)
	}
	y.open()
}

// open waits until the shop has its copies, and asks it through every host.
func (y *rkeYard) open() {
	y.Helper()
	if out, err := y.kubectl("rollout", "status", "deployment", "shop", "--timeout=3m"); err != nil {
		pods, _ := y.kubectl("get", "pods", "-A", "-o", "wide")
		y.Fatal(out, err, pods)
	}
	for _, h := range y.hosts {
		if out, err := h.Sh(y.ctx, "curl --silent --show-error --fail --retry 30 --retry-connrefused --retry-delay 1 --max-time 40 http://"+h.Address()+":30080/"); err != nil || out != "open\n" {
			y.Errorf("the shop, asked through %s: %q %v", h.Name(), out, err)
		}
	}
}

// reported compares what API server and kubelets say of themselves.
func (y *rkeYard) reported(version string) {
	y.Helper()
	want, _, _ := strings.Cut(version, "-")
	out, err := y.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}{"\n"}{end}`)
	if err != nil || strings.Count(out, want+" docker://20.10.") != len(y.hosts) {
		y.Errorf("want kubelets of %s over Docker: %v\n%s", want, err, out)
	}
	y.images(version)
	if out, err := y.kubectl("get", "--raw", "/version"); err != nil || !strings.Contains(out, `"`+want+`"`) {
		y.Errorf("the API server: %v %s", err, out)
	}
}

// images looks what the containers of Kubernetes are made of.
func (y *rkeYard) images(version string) {
	y.Helper()
	for _, h := range y.hosts {
		out, err := h.Sh(y.ctx, `for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do docker inspect --format '{{.Config.Image}}' $name; done | sort -u`)
		if image := rke1images.SystemImages(version)["kubernetes"]; err != nil || strings.TrimSpace(out) != image {
			y.Errorf("the images of %s: %v %s", h.Name(), err, out)
		}
	}
}

// same runs the command once more, which changes no container.
func (y *rkeYard) same() {
	y.Helper()
	before := y.containers()
	if out := y.must("up", "--dry-run"); !strings.HasPrefix(strings.TrimSpace(out), "0 changes") {
		y.Errorf("the preview: %s", out)
	}
	began := time.Now()
	y.must("up")
	y.measure(fmt.Sprintf("rke up of %d hosts again", len(y.hosts)), began)
	if diff := cmp.Diff(before, y.containers()); diff != "" {
		y.Error(diff)
	}
}

// watchAway looks at the nodes until it is asked how many took no pods at the same time, at most.
func (y *rkeYard) watchAway() (most func() int) {
	ctx, stop := context.WithCancel(y.ctx)
	var watching sync.WaitGroup
	away := 0
	watching.Go(func() {
		for ctx.Err() == nil {
			out, err := y.kubectl("get", "nodes", "--no-headers", "--request-timeout=5s")
			if err == nil { // the API server that is asked has its turn, too
				away = max(away, strings.Count(out, "SchedulingDisabled"))
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
	return func() int {
		stop()
		watching.Wait()
		return away
	}
}
