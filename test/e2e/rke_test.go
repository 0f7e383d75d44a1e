//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// rkeYard is hosts with Docker and sshd, and the command line.
type rkeYard struct {
	*testing.T
	ctx     context.Context
	dir     string // with cluster.yml
	version string
	program string
	kit     rke1images.Kit
	bed     *bed.Bed
	hosts   []*rke1bed.Host
	said    string // the log of the last command
}

// newRKEYard starts hosts; their roles are the cluster's matter.
func newRKEYard(t *testing.T, ctx context.Context, version string, names ...string) *rkeYard {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	y := &rkeYard{T: t, ctx: ctx, dir: t.TempDir(), version: version, program: filepath.Join(t.TempDir(), "drover")}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", y.program, module+"/cmd/drover").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := bed.Start(ctx, bed.Options{Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			y.evidence()
		}
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	y.bed = b
	y.kit, err = rke1images.Build(ctx, rke1images.Options{Module: module, Engine: b.Engine, Versions: []string{version}, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		y.addHost(name)
	}
	return y
}

func (y *rkeYard) addHost(name string) *rke1bed.Host {
	y.Helper()
	h, err := rke1bed.Start(y.ctx, y.bed, y.kit, y.dir, rke1bed.Options{Name: name, Versions: []string{y.version}})
	if err != nil {
		y.Fatal(err)
	}
	y.hosts = append(y.hosts, h)
	known, err := os.OpenFile(filepath.Join(y.dir, "known_hosts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		y.Fatal(err)
	}
	defer known.Close()
	if _, err := fmt.Fprintln(known, strings.TrimSpace(h.KnownHosts())); err != nil {
		y.Fatal(err)
	}
	return h
}

// evidence prints what a person would look at first.
func (y *rkeYard) evidence() {
	after := *y
	after.ctx = context.WithoutCancel(y.ctx) // the test's own has ended
	out, err := after.kubectl("get", "pods", "-A", "-o", "wide", "--request-timeout=10s")
	y.Logf("%v\n%s", err, out)
	for _, h := range y.hosts {
		out, err := h.Sh(context.WithoutCancel(y.ctx), `docker ps -a
for id in $(docker ps --quiet --filter name=k8s_shop); do echo "== the shop's container $id"; docker exec $id sh -c 'ls -la / /www; ip address'; docker logs --tail 5 $id 2>&1; done
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do echo "== $name"; docker logs --tail 15 $name 2>&1 || true; done`)
		y.Logf("%s: %v\n%s", h.Address(), err, out)
	}
}

// write writes cluster.yml for hosts with these roles, and more lines.
func (y *rkeYard) write(roles map[*rke1bed.Host]string, more string) {
	y.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "kubernetes_version: %s\ncluster_name: yard\nnetwork: {plugin: none}\ndns: {provider: none}\ningress: {provider: none}\nmonitoring: {provider: none}\n", y.version)
	fmt.Fprintln(&b, "nodes:")
	for _, h := range y.hosts {
		if roles[h] != "" {
			fmt.Fprintf(&b, "- {address: %s, user: %s, ssh_key_path: %s, hostname_override: %s, role: [%s]}\n", h.Address(), rke1bed.User, h.KeyFile(), h.Name(), roles[h])
		}
	}
	fmt.Fprintln(&b, "services:\n  etcd: {snapshot: false}\n  kubelet:\n    extra_args:")
	for key, value := range rke1bed.KubeletArgs() {
		fmt.Fprintf(&b, "      %s: %q\n", key, value)
	}
	fmt.Fprintln(&b, "system_images:")
	images := rke1images.SystemImages(y.version)
	for _, key := range slices.Sorted(func(yield func(string) bool) {
		for key := range images {
			if !yield(key) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "  %s: %s\n", key, images[key])
	}
	fmt.Fprintln(&b, "addons: |")
	for line := range strings.Lines(rke1images.Network(y.version) + "\n---\n" + rke1images.DNS(y.version)) {
		fmt.Fprint(&b, "  "+line)
	}
	if err := os.WriteFile(filepath.Join(y.dir, "cluster.yml"), []byte(b.String()+"\n"+more), 0o600); err != nil {
		y.Fatal(err)
	}
}

// rke runs `drover rke` in the directory and returns its standard output.
func (y *rkeYard) rke(args ...string) (string, error) {
	cmd := exec.CommandContext(y.ctx, y.program, append([]string{"rke"}, args...)...)
	cmd.Dir = y.dir
	cmd.Args = append(cmd.Args, "--known-hosts", filepath.Join(y.dir, "known_hosts"))
	var errs strings.Builder
	cmd.Stderr = &errs
	began := time.Now()
	out, err := cmd.Output()
	y.said = errs.String()
	y.Logf("drover rke %s: %s, %v\n%s%s", strings.Join(args, " "), time.Since(began).Round(time.Millisecond), err, errs.String(), out)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return string(out), err
}

// measure prints how long the command took that has just ended, and how often it called Docker.
func (y *rkeYard) measure(what string, began time.Time) {
	y.Helper()
	y.Logf("MEASURE %s: %s, %s", what, time.Since(began).Round(time.Millisecond), dockerCalls(y.said))
}

// dockerCalls is what a run's log says of its calls of Docker's API.
func dockerCalls(log string) string {
	return regexp.MustCompile(`\d+ calls of the Docker API of \d+ hosts|$`).FindString(log)
}

// must runs `drover rke`, which has to succeed.
func (y *rkeYard) must(args ...string) string {
	y.Helper()
	out, err := y.rke(args...)
	if err != nil {
		y.Fatalf("drover rke %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// containers are the containers of all hosts by name, with their IDs and starts.
func (y *rkeYard) containers() map[string]string {
	y.Helper()
	all := map[string]string{}
	for _, h := range y.hosts {
		out, err := h.Sh(y.ctx, `docker ps -a --no-trunc --format '{{.Names}}' | grep -v ^k8s_ | while read -r name; do echo "$name $(docker inspect --format '{{.Id}} {{.State.StartedAt}} {{.State.Status}}' "$name")"; done`)
		if err != nil {
			y.Fatal(err)
		}
		for line := range strings.Lines(out) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if rest == "" || strings.HasPrefix(name, nodeconfig.LinkerPrefix) && strings.HasSuffix(rest, " running") {
				continue // it is gone by now, or soon
			}
			if name == desired.ControllerManager || name == desired.Scheduler {
				rest, _, _ = strings.Cut(rest, " ") // on a busy machine they lose their lease, end by themselves, and Docker starts them
			}
			all[h.Name()+" "+name] = rest
		}
	}
	return all
}

// kubectl runs kubectl on this machine with the kubeconfig that was written.
func (y *rkeYard) kubectl(args ...string) (string, error) {
	cmd := exec.CommandContext(y.ctx, y.kit.Kubectl(y.version), append([]string{"--kubeconfig", filepath.Join(y.dir, "kube_config_cluster.yml")}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// TestRKEUp makes a cluster of one host over SSH, and makes it again, which changes nothing.
func TestRKEUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	y := newRKEYard(t, ctx, rke1images.Version, "rke-a")
	y.write(map[*rke1bed.Host]string{y.hosts[0]: "controlplane, etcd, worker"}, "")

	preview := y.must("up", "--dry-run")
	if !strings.Contains(preview, "joins the cluster") || !strings.Contains(preview, "kube-apiserver: create") {
		t.Errorf("the preview of a new cluster: %s", preview)
	}
	if is := y.containers(); len(is) != 0 {
		t.Errorf("containers after a preview: %v", is)
	}
	began := time.Now()
	y.must("up")
	y.measure("rke up of one host", began)
	if out, err := y.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=3m"); err != nil {
		t.Fatalf("%v %s", err, out)
	}

	before := y.containers()
	if out := y.must("up", "--dry-run"); !strings.HasPrefix(strings.TrimSpace(out), "0 changes") {
		t.Errorf("the preview after a run: %s", out)
	}
	began = time.Now()
	y.must("up")
	y.measure("rke up of one host again", began)
	if diff := cmp.Diff(before, y.containers()); diff != "" {
		t.Errorf("a second run changed containers: %s", diff)
	}
}
