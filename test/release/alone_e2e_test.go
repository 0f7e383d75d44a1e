//go:build e2e_full

package release

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
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/journey"
)

// TestFromReleaseFilesAlone walks the README's quick start on two hosts that have no Go and no network but each other, from the files of a
// release and of Kubernetes alone: a command installs the server, another one joins the host, which becomes Active.
func TestFromReleaseFilesAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	r := &releases{T: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "tree"), of: map[string]string{}}
	r.copyTree(r.dir)
	r.keys()
	r.of[after] = r.build(r.dir, after)
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: r.dir, AirGapped: true, Say: t.Logf, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	image, err := host.ImageOf(ctx, j.Bed.Engine, host.Bookworm)
	if err != nil {
		t.Fatal(err)
	}
	office, err := j.Bed.Host(ctx, host.Options{Name: "office", Image: image})
	if err != nil {
		t.Fatal(err)
	}
	pier, err := j.Host(ctx, "pier-1")
	if err == nil {
		err = j.CarryArchives(ctx, pier, "/var/lib/rancher/agent/images")
	}
	if err != nil {
		t.Fatal(err)
	}
	server, joined := &machine{T: t, ctx: ctx, Host: office}, &machine{T: t, ctx: ctx, Host: pier}
	joined.sh("mkdir -p /var/lib/rancher/k3s/agent/images && mv /var/lib/rancher/agent/images/k3s-* /var/lib/rancher/k3s/agent/images/")
	for _, m := range []*machine{server, joined} {
		m.sh("! command -v go && iptables -I OUTPUT -o eth0 -d " + m.Gateway() + " -j REJECT")
	}
	archive := "drover_" + after + "_linux_amd64"
	for _, name := range []string{archive + ".tar.gz", "SHA256SUMS"} {
		if err := office.Copy(ctx, filepath.Join(r.of[after], name), "/root/"+name); err != nil {
			t.Fatal(err)
		}
	}

	began := time.Now()
	server.sh("cd /root && sha256sum --ignore-missing -c SHA256SUMS && tar -xzf " + archive + ".tar.gz")
	url := "https://" + office.IP() + ":8443"
	if out := server.sh("cd /root/" + archive + " && ./drover server install --server-url " + url); !strings.Contains(out, "the server is at "+url) || !strings.Contains(out, "log in as admin") {
		t.Errorf("the installation says %s", out)
	}
	server.sh("cd /root/" + archive + " && drover apply -f examples/k3s.yaml --dry-run && drover apply -f examples/k3s.yaml")
	// The hosts of these tests have no sudo; the shell is root's.
	line := strings.ReplaceAll(server.sh("drover clusters join-command harbour --all-roles 2>/dev/null"), "| sudo ", "| ")
	joined.sh(line)
	if err := bed.Await(ctx, "the cluster to be active", time.Second, func(context.Context) error {
		if out := server.sh("drover clusters show harbour"); !strings.Contains(out, "state      active") {
			return errors.New(out)
		}
		return nil
	}); err != nil {
		t.Fatalf("%v\n%s", err, server.sh("drover why harbour"))
	}
	t.Logf("from an archive to an active cluster in %s", time.Since(began).Round(time.Second))
	server.sh("drover machines ls | grep -q Active && drover why harbour")
	server.sh("drover clusters kubeconfig harbour >/root/kc && grep -q " + office.IP() + " /root/kc")
	joined.sh("k3s kubectl get nodes | grep -q ' Ready '")

	// What people take off again leaves their data and the cluster.
	server.sh("drover server uninstall && test ! -e /usr/local/bin/drover")
	joined.sh("k3s kubectl get nodes | grep -q ' Ready '")
}
