//go:build e2e

package e2e

// The same two people without the server: through the cluster's authorized endpoint, while the server is stopped, and with a token
// that is taken away while the cluster is not connected.

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	// endpointImage is the agent's image, in which kube-api-auth is.
	endpointImage = "drover/rancher-agent:v9.9.9-e2e"
	// straight is the context that leads to the cluster's only host.
	straight = "harbour-pier-1"
	// refusedWithin is how long a token counts once its end can be carried to the cluster: the API server remembers for ten seconds.
	refusedWithin = 11 * time.Second
)

// document is the example's cluster with an authorized endpoint.
func (w *walk) document(more string) (file string) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.Module, "examples/k3s.yaml"))
	must(w.T, err)
	const before = "  rkeConfig:\n"
	if strings.Count(string(text), before) != 1 {
		w.Fatal("the example has another form")
	}
	changed := strings.Replace(string(text), before, "  localClusterAuthEndpoint: {enabled: true}\n"+before, 1)
	file = filepath.Join(w.Dir, "harbour.yaml")
	must(w.T, os.WriteFile(file, []byte(strings.TrimRight(changed, "\n")+"\n"+more), 0o600))
	return file
}

// carryEndpointImage gives the host the image that it would fetch otherwise.
func (w *walk) carryEndpointImage() {
	w.Helper()
	name, version, _ := strings.Cut(endpointImage, ":")
	dir := w.TempDir()
	for _, args := range [][]string{
		{"build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "rancher-agent-"+runtime.GOARCH), "./cmd/rancher-agent"},
		{"run", "./packaging/images", "-version", version, "-bin", dir, "-out", dir, filepath.Base(name)},
	} {
		cmd := exec.CommandContext(w.ctx, "go", args...)
		cmd.Dir, cmd.Env = w.Module, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	must(w.T, w.host.Copy(w.ctx, filepath.Join(dir, "image-rancher-agent-"+runtime.GOARCH+".tar"), "/var/lib/rancher/k3s/agent/images/rancher-agent.tar"))
	w.drover("settings", "set", "agent-image", endpointImage)
}

// directly runs kubectl as the person without the server.
func (p *person) directly(args ...string) error {
	return p.may(append([]string{"--context", straight}, args...)...)
}

// refused says whether the cluster itself does not know the person.
func (p *person) refused(args ...string) error {
	if err := p.directly(args...); err == nil || !strings.Contains(err.Error(), "Unauthorized") && !strings.Contains(err.Error(), "must be logged in") {
		return fmt.Errorf("%s is not refused: %w", p.name, err)
	}
	return nil
}

// withoutTheServer has ann, who reads pods of her project, and bob, who is a member of the cluster, go straight to it.
func (w *walk) withoutTheServer(ann, bob *person, cluster string) {
	w.within(time.Now(), "ann reads pods without the server", func() error { return ann.directly("get", "pods", "-n", "default") })
	must(w.T, bob.directly("get", "persistentvolumes"))
	for _, no := range [][]string{{"get", "pods", "-n", "kube-system"}, {"get", "secrets", "-n", "cattle-system"}} {
		ann.mayNot(append([]string{"--context", straight}, no...)...)
	}
	bob.mayNot("--context", straight, "get", "pods", "-n", "default")

	must(w.T, w.KillServer(w.ctx))
	must(w.T, ann.directly("get", "pods", "-n", "default"))
	must(w.T, bob.directly("get", "persistentvolumes"))
	if err := ann.may("get", "pods", "-n", "default"); err == nil {
		w.Error("ann's request came through a server that is stopped")
	}
	must(w.T, w.StartServer(w.ctx))
	w.within(time.Now(), "ann reads pods through the server again", func() error { return ann.may("get", "pods", "-n", "default") })

	// A token of ann's is removed while the cluster is not connected.
	lost := *ann
	lost.name = "ann-lost"
	lost.fetchKubeconfig(cluster)
	must(w.T, lost.directly("get", "pods", "-n", "default"))
	text, err := os.ReadFile(lost.kubeconfig)
	must(w.T, err)
	_, after, _ := strings.Cut(string(text), "token: ")
	name, _, _ := strings.Cut(after, ":")
	w.sh("systemctl stop rancher-system-agent")
	if status, body := ann.ask(http.MethodDelete, "/v3/tokens/"+name, nil); status != http.StatusNoContent {
		w.Fatalf("remove the token %s: status %d: %s", name, status, body)
	}
	must(w.T, lost.directly("get", "pods", "-n", "default"))
	w.sh("systemctl start rancher-system-agent")
	w.within(time.Now(), "the connection is back", func() error { return ann.may("get", "pods", "-n", "default") })
	began := time.Now()
	w.within(began, "the removed token is refused by the cluster", func() error { return lost.refused("get", "pods", "-n", "default") })
	if took := time.Since(began); took > refusedWithin {
		w.Errorf("it was refused after %s, and has %s", took.Round(10*time.Millisecond), refusedWithin)
	}
	if err := ann.directly("get", "pods", "-n", "default"); err != nil {
		w.Errorf("ann's other token: %v", err)
	}
}

// goneDirectly waits until the cluster itself does not know a user any more.
func (w *walk) goneDirectly(p *person, args ...string) {
	w.within(time.Now(), p.name+" is refused without the server", func() error { return p.refused(args...) })
}
