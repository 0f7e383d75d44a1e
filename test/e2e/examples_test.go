//go:build e2e

package e2e

// Examples that people copy, each on a host of its own: those of k3s whose settings one host can have. k3s.yaml is that of join_test.go,
// docker.yaml that of dockerhosts_test.go.

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/journey"
)

func TestExamplesBecomeActive(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	w := &walk{T: t, Journey: j, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			w.evidence()
		}
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, j.StartServer(ctx))
	for _, example := range []struct{ file, cluster string }{{"drain.yaml", "ferry"}, {"air-gapped.yaml", "island"}} {
		w.drover("apply", "-f", filepath.Join(module, "examples", example.file))
		w.host, err = w.Host(ctx, example.cluster+"-1")
		must(t, err)
		w.join, err = w.JoinCommand(ctx, example.cluster)
		must(t, err)
		w.sh(w.join)
		must(t, bed.Await(ctx, "cluster "+example.cluster+" of "+example.file+" to be active", time.Second, func(context.Context) error {
			if out := w.drover("clusters", "show", example.cluster); !strings.Contains(out, "state      active") {
				return errors.New(out)
			}
			return nil
		}))
	}
}
