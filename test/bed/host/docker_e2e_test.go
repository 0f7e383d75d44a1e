//go:build e2e

package host_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/bed/host"
)

// TestHostHasADockerOfItsOwn runs a privileged container on the host's network, as the node agent is run.
func TestHostHasADockerOfItsOwn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first run builds the image
	defer cancel()
	e, err := engine.Start(ctx, engine.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	h, err := host.StartWithDocker(ctx, e, host.Options{Name: "docks"})
	if err != nil {
		t.Fatal(err)
	}
	const script = `tar -C / -c bin lib lib64 usr/bin/sh usr/bin/dash usr/lib64 $(cd / && ls usr/lib/*/libc.so.6 usr/lib/*/ld-linux-* usr/lib/ld-linux-* 2>/dev/null) |
  docker import - tiny:1 >/dev/null
docker run --rm --privileged --net=host -v /var/run:/var/run tiny:1 sh -c 'read name </proc/sys/kernel/hostname; [ -S /var/run/docker.sock ] && echo "$name has Docker"'`
	out, err := h.Sh(ctx, script)
	if err != nil || out != "docks has Docker\n" {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := h.Docker(ctx, "info", "--format", "{{.Driver}} {{.Name}}"); err != nil || !strings.HasSuffix(out, " docks") {
		t.Errorf("%v: %q", err, out)
	} else {
		t.Log(out)
	}
}
