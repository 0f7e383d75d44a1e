//go:build e2e && e2e_full

package e2e

// A cluster whose runtime keeps its state elsewhere, on the real k3s: its join token is the cluster's, its datastore and its
// snapshots are where the document puts them.

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
	"github.com/drover-project/drover/test/realk3s"
)

// elsewhere lies on the volume of the host: containerd cannot stack its layers on those of a container.
const elsewhere = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: harbour}
spec:
  kubernetesVersion: ` + realk3s.Version + `
  rkeConfig:
    dataDirectories: {k8sDistro: /var/lib/rancher/elsewhere}
    etcd: {snapshotScheduleCron: "* * * * *", snapshotRetention: 2}
`

func TestADataDirectoryOfItsOwn(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
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
	file := filepath.Join(w.Dir, "elsewhere.yaml")
	must(t, os.WriteFile(file, []byte(elsewhere), 0o600))
	w.drover("apply", "-f", file)
	w.host, err = w.Host(ctx, "pier-1")
	must(t, err)
	w.join, err = w.JoinCommand(ctx, "harbour")
	must(t, err)
	started := time.Now()
	w.sh(w.join)
	w.becomesActive("joined", started)

	// k3s' token file ends with the secret that it was given.
	given := strings.TrimSpace(w.sh(`sed -n 's/^ *"token": "\([^"]*\)",*$/\1/p' /etc/rancher/k3s/config.yaml.d/50-rancher.yaml`))
	if has := strings.TrimSpace(w.sh("cat /var/lib/rancher/elsewhere/server/token")); given == "" || !strings.HasSuffix(has, ":"+given) {
		t.Error("k3s' join token is not the one of its cluster")
	}
	w.sh("test -d /var/lib/rancher/elsewhere/server/db/etcd/member && ! test -e /var/lib/rancher/k3s/server")
	must(t, bed.Await(ctx, "two snapshots", time.Second, func(ctx context.Context) error {
		out, err := w.host.Sh(ctx, "ls /var/lib/rancher/elsewhere/server/db/snapshots")
		if err == nil && strings.Count(out, "\n") < 2 {
			err = errors.New("there are " + out)
		}
		return err
	}))
}
