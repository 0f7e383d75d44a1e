//go:build e2e

package e2e

// A pod on the real k3s, reached by kubectl through the server and the host's tunnel, in both protocols that kubectl speaks.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/realk3s"
)

// servingPod serves a file over HTTP and prints a line a second; beside that it says again what it hears.
const servingPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quay"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
  {"name": "quay", "image": "` + realk3s.BusyboxImage + `", "imagePullPolicy": "Never", "command": ["sh", "-c",
   "mkdir /www && echo hello from the quay >/www/index.html && httpd -h /www && i=0 && while sleep 1; do i=$((i+1)); echo tick $i; done"]},
  {"name": "parrot", "image": "` + realk3s.BusyboxImage + `", "imagePullPolicy": "Never", "stdin": true, "command": ["sh", "-c",
   "while read line; do echo said $line; done"]}]}}`

func (w *walk) pods() {
	config := w.kubeconfig()
	file := filepath.Join(w.Dir, "pod.json")
	must(w.T, os.WriteFile(file, []byte(servingPod), 0o600))
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	must(w.T, bed.Await(ctx, "the service account of pods", time.Second, func(ctx context.Context) error {
		_, err := w.Kubectl(ctx, "--kubeconfig", config, "apply", "-f", file)
		return err
	}))
	w.kubectlAs(config, "wait", "--for=condition=Ready", "pod/quay", "--timeout=180s")
	for _, protocol := range []string{"websocket", "SPDY"} {
		w.Run(protocol, func(t *testing.T) {
			sub := *w
			sub.T = t
			sub.reachesThePod(config, protocol)
		})
	}
	w.kubectlAs(config, "delete", "pod", "quay", "--wait")
}

// kubectlAs runs kubectl with a kubeconfig, and must succeed.
func (w *walk) kubectlAs(config string, args ...string) string {
	w.Helper()
	out, err := w.Kubectl(w.ctx, append([]string{"--kubeconfig", config}, args...)...)
	must(w.T, err)
	return out
}

// reachesThePod does all that leads into a pod.
func (w *walk) reachesThePod(config, protocol string) {
	if protocol == "SPDY" {
		// What kubectl of before version 1.31 speaks, and clients in other languages.
		w.Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")
		w.Setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")
	}
	if out := w.kubectlAs(config, "exec", "quay", "-c", "quay", "--", "cat", "/www/index.html"); out != "hello from the quay\n" {
		w.Errorf("exec printed %q", out)
	}
	w.speaks(config, protocol)
	w.attaches(config)
	w.copies(config)
	w.follows(config, protocol)
	w.forwards(config, protocol)
}

// speaks holds that kubectl has not fallen back to the other protocol, which it does without a word.
func (w *walk) speaks(config, protocol string) {
	w.Helper()
	name := "exec-" + protocol
	spoken := w.start(name, config, "exec", "-v=4", "quay", "-c", "quay", "--", "echo", "spoken")
	w.line(spoken, `^spoken$`)
	_ = spoken.Kill() // it may have ended by itself
	log, err := os.ReadFile(w.kubectlLog(name))
	must(w.T, err)
	if got := strings.Contains(string(log), "The subprotocol is v5.channel.k8s.io"); got != (protocol == "websocket") {
		w.Errorf("kubectl was to speak %s and said:\n%s", protocol, log)
	}
}

// attaches speaks with a process of the pod that ran before, and leaves it running.
func (w *walk) attaches(config string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	attach := exec.CommandContext(ctx, w.K3s.Kubectl(), "--kubeconfig", config, "attach", "-i", "quay", "-c", "parrot")
	attach.Env = append(os.Environ(), "HOME="+w.Dir)
	var errOut bytes.Buffer
	attach.Stderr = &errOut
	in, err := attach.StdinPipe()
	must(w.T, err)
	out, err := attach.StdoutPipe()
	must(w.T, err)
	must(w.T, attach.Start())
	_, wrote := io.WriteString(in, "heave\n")
	line, err := bufio.NewReader(out).ReadString('\n')
	cancel()
	_ = attach.Wait() // it was killed
	if line != "said heave\n" {
		w.Errorf("attach printed %q, %v, %v: %s", line, wrote, err, errOut.String())
	}
}

// copies moves a file into the pod and out of it again.
func (w *walk) copies(config string) {
	w.Helper()
	dir := w.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	content := strings.Repeat("0123456789abcdef", 1<<16) // a MiB, so that it is not a single piece
	must(w.T, os.WriteFile(there, []byte(content), 0o600))
	w.kubectlAs(config, "cp", there, "quay:/tmp/there", "-c", "quay")
	w.kubectlAs(config, "cp", "quay:/tmp/there", back, "-c", "quay")
	got, err := os.ReadFile(back)
	must(w.T, err)
	if string(got) != content {
		w.Errorf("%d bytes went to the pod and %d came back", len(content), len(got))
	}
}

// follows reads the log of the pod while it grows.
func (w *walk) follows(config, protocol string) {
	w.Helper()
	logs := w.start("logs-"+protocol, config, "logs", "-f", "--tail=1", "quay", "-c", "quay")
	first, err := strconv.Atoi(w.line(logs, `^tick (\d+)$`)[1])
	must(w.T, err)
	w.line(logs, fmt.Sprintf(`^tick %d$`, first+2))
	must(w.T, logs.Kill())
}

// forwards asks the pod through a port of this machine, several times over one forwarding.
func (w *walk) forwards(config, protocol string) {
	w.Helper()
	forward := w.start("port-forward-"+protocol, config, "port-forward", "pod/quay", ":80")
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
		LogFile: w.kubectlLog(name),
	})
	must(w.T, err)
	return p
}

func (w *walk) kubectlLog(name string) string {
	return filepath.Join(w.Dir, "logs", fmt.Sprintf("kubectl-%s.log", name))
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
