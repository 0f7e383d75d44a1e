//go:build e2e && e2e_full

package e2e

// A pod on the real k3s, reached by kubectl through the server and the host's tunnel.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/realk3s"
)

// servingPod serves a file over HTTP, and prints a line a second.
const servingPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quay"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
  {"name": "quay", "image": "` + realk3s.BusyboxImage + `", "imagePullPolicy": "Never", "command": ["sh", "-c",
   "mkdir /www && echo hello from the quay >/www/index.html && httpd -h /www && i=0 && while sleep 1; do i=$((i+1)); echo tick $i; done"]}]}}`

func (w *walk) pods() {
	config := w.kubeconfig()
	kubectl := func(args ...string) string {
		w.Helper()
		out, err := w.Kubectl(w.ctx, append([]string{"--kubeconfig", config}, args...)...)
		must(w.T, err)
		return out
	}
	file := filepath.Join(w.Dir, "pod.json")
	must(w.T, os.WriteFile(file, []byte(servingPod), 0o600))
	must(w.T, bed.Await(w.ctx, "the service account of pods", time.Second, func(ctx context.Context) error {
		_, err := w.Kubectl(ctx, "--kubeconfig", config, "apply", "-f", file)
		return err
	}))
	kubectl("wait", "--for=condition=Ready", "pod/quay", "--timeout=180s")

	if out := kubectl("exec", "quay", "--", "cat", "/www/index.html"); out != "hello from the quay\n" {
		w.Errorf("exec printed %q", out)
	}
	w.copies(kubectl)
	w.follows(config)
	w.forwards(config)
	kubectl("delete", "pod", "quay", "--wait")
}

// copies moves a file into the pod and out of it again.
func (w *walk) copies(kubectl func(...string) string) {
	w.Helper()
	there, back := filepath.Join(w.Dir, "there"), filepath.Join(w.Dir, "back")
	content := strings.Repeat("0123456789abcdef", 1<<16) // a MiB, so that it is not a single piece
	must(w.T, os.WriteFile(there, []byte(content), 0o600))
	kubectl("cp", there, "quay:/tmp/there")
	kubectl("cp", "quay:/tmp/there", back)
	got, err := os.ReadFile(back)
	must(w.T, err)
	if string(got) != content {
		w.Errorf("%d bytes went to the pod and %d came back", len(content), len(got))
	}
}

// follows reads the log of the pod while it grows.
func (w *walk) follows(config string) {
	w.Helper()
	logs := w.start("logs", config, "logs", "-f", "--tail=1", "quay")
	first, err := strconv.Atoi(w.line(logs, `^tick (\d+)$`)[1])
	must(w.T, err)
	w.line(logs, fmt.Sprintf(`^tick %d$`, first+2))
	must(w.T, logs.Kill())
}

// forwards asks the pod through a port of this machine, several times over one forwarding.
func (w *walk) forwards(config string) {
	w.Helper()
	forward := w.start("port-forward", config, "port-forward", "pod/quay", ":80")
	address := w.line(forward, `^Forwarding from (127\.0\.0\.1:\d+) -> 80$`)[1]
	for range 3 {
		answer, err := http.Get("http://" + address + "/")
		must(w.T, err)
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(body) != "hello from the quay\n" {
			w.Errorf("the pod answered %q, %v", body, err)
		}
	}
	must(w.T, forward.Kill())
}

// start starts a kubectl that runs until it is killed.
func (w *walk) start(name, config string, args ...string) *process.Process {
	w.Helper()
	p, err := process.Start(w.ctx, process.Options{
		Path: w.K3s.Kubectl(), Args: append([]string{"--kubeconfig", config}, args...), Env: []string{"HOME=" + w.Dir},
		LogFile: filepath.Join(w.Dir, "logs", fmt.Sprintf("kubectl-%s.log", name)),
	})
	must(w.T, err)
	return p
}

// line waits for a line that a process prints, and returns it with its submatches.
func (w *walk) line(p *process.Process, pattern string) []string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	line, err := p.WaitLine(ctx, regexp.MustCompile(pattern))
	must(w.T, err)
	return line
}
