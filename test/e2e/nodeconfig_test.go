//go:build e2e

package e2e

// The node config on a real Docker engine: what the stand-in of the unit tests cannot
// know is what a real one makes of a request.

import (
	"archive/tar"
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/engine"
)

func TestNodeConfigOnRealDocker(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engine.Start(ctx, engine.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	image := busyboxImage(t, e)
	docker, err := client.NewClientWithOpts(client.WithHost("unix://"+e.Socket()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	host := &nodeconfig.Engine{Docker: docker, Logger: log}
	key, value, _ := strings.Cut(e.RunLabel(), "=")
	helper, worker := "helper-"+e.RunID(), "worker-"+e.RunID()
	c := &nodeconfig.NodeConfig{Processes: map[string]nodeconfig.Process{
		helper: {Name: helper, Image: image, Command: []string{"/bin/busybox", "sleep", "1000"}, NetworkMode: "none", Labels: map[string]string{key: value}},
		worker: {Name: worker, Image: image, Command: []string{"/bin/busybox"}, Args: []string{"sleep", "1000"}, Env: []string{"A=1", "B=2"},
			Binds: []string{"/tmp:/host/tmp:ro", "/run:/host/run:rprivate"}, RestartPolicy: "always", PidMode: "host", Privileged: true, User: "0:0",
			Labels: map[string]string{key: value}, Publish: []string{"127.0.0.1:0:80/tcp"}},
	}}
	pass := func(what string, want ...nodeconfig.Kind) {
		t.Helper()
		plan, err := host.Apply(ctx, c, false)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var kinds []string
		for _, a := range plan {
			kinds = append(kinds, string(a.Kind)+" "+a.Name+" "+strings.Join(a.Reasons, ","))
		}
		if len(plan) != len(want) {
			t.Fatalf("%s: did %q, want %q", what, kinds, want)
		}
		for i, a := range plan {
			if a.Kind != want[i] {
				t.Fatalf("%s: did %q, want %q", what, kinds, want)
			}
		}
	}
	pass("from nothing", nodeconfig.Create, nodeconfig.Create)
	pass("again")
	before := id(t, e, worker)

	change := func(f func(*nodeconfig.Process)) {
		p := c.Processes[worker]
		f(&p)
		c.Processes[worker] = p
	}
	change(func(p *nodeconfig.Process) { p.Env = []string{"A=1"} })
	pass("a removed variable", nodeconfig.Replace)
	pass("after the replacement")
	replaced := id(t, e, worker)
	if replaced == before {
		t.Error("the container is the same")
	}
	change(func(p *nodeconfig.Process) { p.Command = []string{"/bin/none"} })
	if _, err := host.Apply(ctx, c, false); err == nil || !strings.Contains(err.Error(), "/bin/none") {
		t.Errorf("a program that is missing: %v", err)
	}
	if now := id(t, e, worker); now != replaced || running(t, e, worker) != "true" {
		t.Errorf("the old container was not put back: %s", now)
	}
	change(func(p *nodeconfig.Process) { p.Command = []string{"/bin/busybox"} })
	pass("as before")
	if _, err := e.Docker(ctx, "rm", "--force", worker); err != nil {
		t.Fatal(err)
	}
	pass("after a kill", nodeconfig.Create)
	if _, err := e.Docker(ctx, "stop", "--time", "0", worker); err != nil {
		t.Fatal(err)
	}
	pass("after a stop", nodeconfig.Start)
}

// busyboxImage makes an image of this machine's static busybox, with an environment of its own.
func busyboxImage(t *testing.T, e *engine.Engine) string {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := "drover-test-nodeconfig:" + e.RunID()
	cmd := e.Command(t.Context(), "import", "--change", "ENV BASE=image", "--change", "LABEL made=here", "-", name)
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { e.Docker(context.Background(), "rmi", "--force", name) })
	return name
}

func id(t *testing.T, e *engine.Engine, name string) string { return inspect(t, e, name, "{{.Id}}") }
func running(t *testing.T, e *engine.Engine, name string) string {
	return inspect(t, e, name, "{{.State.Running}}")
}

func inspect(t *testing.T, e *engine.Engine, name, format string) string {
	t.Helper()
	text, err := e.Docker(t.Context(), "inspect", "--format", format, name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
