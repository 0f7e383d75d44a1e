//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// rkeServer is an RKE1 cluster of a server: hosts whose node agents have their tunnels there.
type rkeServer struct {
	*dockyard
	yard   *rkeYard
	server *replica
}

func newRKEServer(t *testing.T, ctx context.Context) *rkeServer {
	t.Helper()
	return newRKEServerOf(t, ctx, rke1images.Version, "rke-s")
}

// newRKEServerOf starts a server, and hosts with the images of a version.
func newRKEServerOf(t *testing.T, ctx context.Context, version string, names ...string) *rkeServer {
	t.Helper()
	y := newRKEYard(t, ctx, version, names...)
	module, err := filepath.Abs("../..")
	must(t, err)
	d := &dockyard{T: t, ctx: ctx, dir: t.TempDir(), module: module, bed: y.bed}
	d.bin, err = y.bed.Build(ctx, "github.com/drover-project/drover/cmd/drover", "github.com/drover-project/drover/cmd/rancher-agent")
	must(t, err)
	address, err := y.bed.FreeAddress(ctx)
	must(t, err)
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	d.url = "https://" + net.JoinHostPort(y.bed.Engine.Gateway().String(), port)
	ready := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r := &replica{letter: "A", dataDir: filepath.Join(d.dir, "server")}
	r.options = process.Options{
		Path: filepath.Join(d.bin, "drover"), LogFile: filepath.Join(d.dir, "logs", "server.log"), ReadyURL: d.url + "/ping", Client: ready,
		Args: []string{"server", "--data-dir", r.dataDir, "--listen", strings.TrimPrefix(d.url, "https://"), "--server-url", d.url},
	}
	d.servers[0] = r
	t.Cleanup(func() {
		if t.Failed() {
			d.evidence()
		}
	})
	d.start(r)
	d.archive = d.image()
	d.drover(r, "settings", "set", "agent-image", agentImage)
	return &rkeServer{dockyard: d, yard: y, server: r}
}

// document is the document of the cluster, in the words of cluster.yml.
func (s *rkeServer) document(more string) string {
	s.Helper()
	s.yard.write(nil, more)
	text, err := os.ReadFile(filepath.Join(s.yard.dir, "cluster.yml"))
	must(s.T, err)
	var b strings.Builder
	b.WriteString("apiVersion: management.cattle.io/v3\nkind: Cluster\nmetadata: {name: yard}\nspec:\n  rancherKubernetesEngineConfig:\n")
	for line := range strings.Lines(string(text)) {
		b.WriteString("    " + line)
	}
	file := filepath.Join(s.dir, "cluster.yaml")
	must(s.T, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

// cluster is the cluster as the server shows it.
func (s *rkeServer) cluster(ctx context.Context) (apitypes.Cluster, error) {
	var c apitypes.Cluster
	out, err := s.tryDrover(ctx, s.server, "clusters", "show", "yard", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &c)
	}
	return c, err
}

// awaitCluster waits until the cluster is as wanted.
func (s *rkeServer) awaitCluster(what string, limit time.Duration, is func(apitypes.Cluster) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	must(s.T, bed.Await(ctx, "the cluster to be "+what, time.Second, func(ctx context.Context) error {
		c, err := s.cluster(ctx)
		if err == nil && !is(c) {
			err = fmt.Errorf("it is %s: %s", c.State, c.Message)
		}
		return err
	}))
}

// operations are those of the cluster, without tasks.
func (s *rkeServer) operations(ctx context.Context) ([]apitypes.OperationSummary, error) {
	var all []apitypes.OperationSummary
	out, err := s.tryDrover(ctx, s.server, "operations", "ls", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	return all, err
}

// kubectl runs kubectl with the server's kubeconfig.
func (s *rkeServer) kubectl(args ...string) (string, error) {
	file := filepath.Join(s.dir, "kubeconfig")
	if err := os.WriteFile(file, []byte(s.drover(s.server, "clusters", "kubeconfig", "yard")), 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(s.ctx, s.yard.kit.Kubectl(s.yard.version), append([]string{"--kubeconfig", file}, args...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// ours are the containers of the cluster's hosts without the agent's.
func (s *rkeServer) ours() map[string]string {
	all := s.yard.containers()
	for key := range all {
		if strings.HasSuffix(key, " "+agentName) {
			delete(all, key)
		}
	}
	return all
}

// midway waits until the cluster's operation has brought up etcd, and is not through.
func (s *rkeServer) midway() apitypes.OperationSummary {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	var under apitypes.OperationSummary
	must(s.T, bed.Await(ctx, "an operation to be in its middle", 200*time.Millisecond, func(ctx context.Context) error {
		all, err := s.operations(ctx)
		if err != nil {
			return err
		}
		for _, o := range all {
			if o.State == operations.Running && o.Done >= 6 {
				under = o
				return nil
			}
		}
		return fmt.Errorf("operations: %+v", all)
	}))
	return under
}

// TestRKEServer makes an RKE1 cluster of one host over the tunnel of its node agent, by a server that is killed in the middle, adds a
// worker, exports the cluster and takes it up again, and takes it off both.
func TestRKEServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	s := newRKEServer(t, ctx)
	h := s.yard.hosts[0]
	s.drover(s.server, "apply", "-f", s.document(""))
	s.awaitCluster("waiting for roles", time.Minute, func(c apitypes.Cluster) bool {
		return c.State == "pending" && strings.Contains(c.Message, "no host with the role etcd has registered")
	})
	must(t, h.LoadImage(ctx, s.archive))
	began := time.Now()
	_, err := h.Sh(ctx, s.joinLine(s.server, "yard"))
	if err != nil {
		t.Fatal(redact(err.Error()))
	}
	under := s.midway()
	s.kill(s.server)
	s.start(s.server)
	s.awaitCluster("active", 20*time.Minute, func(c apitypes.Cluster) bool { return c.State == "active" && c.Ready })
	t.Logf("MEASURE rke over the tunnel, one host, the server killed once: %s", time.Since(began).Round(time.Second))
	all, err := s.operations(ctx)
	must(t, err)
	if len(all) != 1 || all[0].ID != under.ID || all[0].State != operations.Succeeded {
		t.Errorf("the operation that was under way when the server was killed is %s; now there are %+v", under.ID, all)
	}
	if c, err := s.cluster(ctx); err != nil || c.Distribution != apitypes.RKE1 || c.KubernetesVersion != rke1images.Version || c.Version == "" {
		t.Errorf("%v: %+v", err, c)
	}
	if out, err := s.kubectl("get", "nodes", "--no-headers"); err != nil || !strings.Contains(out, h.Name()+"   Ready") {
		t.Errorf("%v: %s", err, out)
	}
	s.again()
	s.repairs()
	s.handover()
	s.drover(s.server, "clusters", "rm", "yard", "--uninstall", "--yes")
	must(t, bed.Await(ctx, "the cluster to be gone", time.Second, func(ctx context.Context) error {
		if c, err := s.cluster(ctx); err == nil {
			return fmt.Errorf("it is %s: %s", c.State, c.Message)
		}
		return nil
	}))
	if left := s.ours(); len(left) > 0 {
		t.Errorf("left on the host: %v", left)
	}
}

// repairs adds a worker, whose agent gets what belongs there and brings it back while the server is away.
func (s *rkeServer) repairs() {
	s.Helper()
	first := s.ours()
	h := s.yard.addHost("rke-w")
	must(s.T, h.LoadImage(s.ctx, s.archive))
	line := strings.TrimSpace(s.drover(s.server, "clusters", "join-command", "yard", "--docker", "--worker"))
	line = strings.Replace(line, " sudo --preserve-env=CATTLE_TOKEN docker run ", " docker run --name "+agentName+" ", 1)
	if _, err := h.Sh(s.ctx, line); err != nil {
		s.Fatal(redact(err.Error()))
	}
	var brought map[string]string
	ctx, cancel := context.WithTimeout(s.ctx, 8*time.Minute)
	defer cancel()
	must(s.T, bed.Await(ctx, "the worker to be active and its agent to have its node config", time.Second, func(ctx context.Context) error {
		var all []apitypes.Machine
		out, err := s.tryDrover(ctx, s.server, "machines", "ls", "--cluster", "yard", "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &all)
		}
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.NodeName == h.Name() && m.State == "Active" {
				if brought == nil {
					brought = s.ours()
				}
				if m.Docker.AppliedNodeConfig > 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("machines: %s", out)
	}))
	now := s.ours()
	if diff := cmp.Diff(brought, now); diff != "" {
		s.Errorf("the agent changed containers that the engine had made: %s", diff)
	}
	for key := range now {
		if strings.HasPrefix(key, h.Name()+" ") {
			delete(now, key)
		}
	}
	if diff := cmp.Diff(first, now); diff != "" {
		s.Errorf("the new worker changed containers of the other host: %s", diff)
	}
	s.kill(s.server)
	if _, err := h.Docker(s.ctx, "rm", "--force", "kubelet"); err != nil {
		s.Error(err)
	}
	must(s.T, bed.Await(ctx, "the agent to bring the kubelet back without the server", time.Second, func(ctx context.Context) error {
		out, err := h.Docker(ctx, "inspect", "--format", "{{.State.Running}}", "kubelet")
		if err == nil && strings.TrimSpace(out) != "true" {
			err = fmt.Errorf("running: %s", out)
		}
		return err
	}))
	s.start(s.server)
	s.awaitCluster("active", 5*time.Minute, func(c apitypes.Cluster) bool { return c.State == "active" && c.Ready && c.Message == "" })
}

// succeeded is how many operations of the cluster have.
func (s *rkeServer) succeeded() (n int) {
	s.Helper()
	all, err := s.operations(s.ctx)
	must(s.T, err)
	for _, o := range all {
		if o.State == operations.Succeeded {
			n++
		}
	}
	return n
}

// calls is what the last operation's log says of its calls of Docker's API.
func (s *rkeServer) calls() string {
	s.Helper()
	all, err := s.operations(s.ctx)
	must(s.T, err)
	last := slices.MaxFunc(all, func(a, b apitypes.OperationSummary) int { return a.Created.Compare(b.Created) })
	return dockerCalls(s.drover(s.server, "operations", "show", last.ID))
}

// handover exports the cluster, has it looked at by the command line over SSH and by kubectl while the server is stopped, and has
// the server take it up again.
func (s *rkeServer) handover() {
	s.Helper()
	before := s.ours()
	dir := filepath.Join(s.dir, "exported")
	s.Logf("%s", s.drover(s.server, "clusters", "export", "yard", "--dir", dir, "--ssh-user", rke1bed.User, "--ssh-key-path", s.yard.hosts[0].KeyFile()))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		s.Errorf("%v: the directory has mode %s", err, info.Mode())
	}
	s.awaitCluster("exported", time.Minute, func(c apitypes.Cluster) bool {
		return c.State == "exported" && strings.Contains(c.Message, "drover clusters resume yard") && c.Exported != nil
	})
	if _, err := s.tryDrover(s.ctx, s.server, "apply", "-f", s.document("addon_job_timeout: 47\n")); err == nil || !strings.Contains(err.Error(), "drover clusters resume yard") {
		s.Errorf("a document of an exported cluster is applied: %v", err)
	}
	// The agent that repairs the worker is told to leave it alone, so that rke and the agent do not undo each other's work.
	must(s.T, bed.Await(s.ctx, "the worker's agent to hold still", time.Second, s.agentsStill))
	s.kill(s.server)
	kubectl := exec.CommandContext(s.ctx, s.yard.kit.Kubectl(s.yard.version), "--kubeconfig", filepath.Join(dir, "kube_config_cluster.yml"), "get", "nodes", "--no-headers")
	out, err := kubectl.CombinedOutput()
	for _, h := range s.yard.hosts {
		if err != nil || !strings.Contains(string(out), h.Name()+" ") {
			s.Errorf("kubectl with the exported kubeconfig while the server is stopped: %v: %s", err, out)
		}
	}
	// Each host of the test has a key of its own.
	s.keys(filepath.Join(dir, "cluster.yml"))
	if out, err := s.yard.rke("up", "--dry-run", "--config", filepath.Join(dir, "cluster.yml")); err != nil || !strings.HasPrefix(strings.TrimSpace(out), "0 changes") {
		s.Errorf("the command line with the exported files: %v: %s", err, out)
	}
	s.start(s.server)
	if diff := cmp.Diff(before, s.ours()); diff != "" {
		s.Errorf("containers changed while the cluster was exported: %s", diff)
	}
	must(s.T, bed.Await(s.ctx, "the cluster to be taken up", 2*time.Second, func(ctx context.Context) error {
		out, err := s.tryDrover(ctx, s.server, "clusters", "resume", "yard")
		if err == nil && !strings.Contains(out, "0 changes") {
			s.Errorf("taken up with %s", out)
		}
		return err // until the tunnels are open again
	}))
	s.awaitCluster("active", 5*time.Minute, func(c apitypes.Cluster) bool { return c.State == "active" && c.Ready && c.Exported == nil })
	if diff := cmp.Diff(before, s.ours()); diff != "" {
		s.Errorf("taking the cluster up changed containers: %s", diff)
	}
}

// agentsStill says that the node agents have acknowledged configs of a higher version than those that repair hosts had.
func (s *rkeServer) agentsStill(ctx context.Context) error {
	var all []apitypes.Machine
	out, err := s.tryDrover(ctx, s.server, "machines", "ls", "--cluster", "yard", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil {
		return err
	}
	for _, m := range all {
		if !m.Roles.Etcd && m.Docker.AppliedNodeConfig < 2 {
			return fmt.Errorf("the agent on %s has acknowledged version %d", m.NodeName, m.Docker.AppliedNodeConfig)
		}
	}
	return nil
}

// keys writes into an exported cluster.yml the key of each host, where it is not that of the first.
func (s *rkeServer) keys(file string) {
	s.Helper()
	text, err := os.ReadFile(file)
	must(s.T, err)
	c, err := config.Parse(strictyaml.Source{File: file}, text)
	must(s.T, err)
	for i, n := range c.Cluster.Nodes {
		for _, h := range s.yard.hosts {
			if h.Address() == n.Address {
				c.Cluster.Nodes[i].SSHKeyPath = h.KeyFile()
			}
		}
	}
	text, err = config.Write(c.Cluster)
	must(s.T, err)
	must(s.T, os.WriteFile(file, text, 0o600))
}

// again runs the engine once more for a document that asks for nothing else of the hosts.
func (s *rkeServer) again() {
	s.Helper()
	before := s.ours()
	file := s.document("addon_job_timeout: 46\n")
	if out := s.drover(s.server, "apply", "-f", file, "--dry-run"); !strings.Contains(out, "0 changes") {
		s.Errorf("the preview of a document that changes nothing on hosts: %s", out)
	}
	were := s.succeeded()
	began := time.Now()
	s.drover(s.server, "apply", "-f", file)
	must(s.T, bed.Await(s.ctx, "another operation to succeed", 200*time.Millisecond, func(ctx context.Context) error {
		if n := s.succeeded(); n <= were {
			return fmt.Errorf("%d have succeeded, as before", n)
		}
		return nil
	}))
	s.Logf("MEASURE rke over the tunnel again, %d hosts: %s, %s", len(s.yard.hosts), time.Since(began).Round(time.Millisecond), s.calls())
	if diff := cmp.Diff(before, s.ours()); diff != "" {
		s.Errorf("a second run changed containers: %s", diff)
	}
	s.awaitCluster("active", time.Minute, func(c apitypes.Cluster) bool { return c.State == "active" })
	if out := s.drover(s.server, "apply", "-f", file); !strings.Contains(out, "unchanged") {
		s.Errorf("the same document again: %s", out)
	}
}
