//go:build e2e

package e2e

// A site without a network: all images come in one file, saved from a registry and signed; the registry is gone then, and the host reaches the
// server's machine alone, where drover serves the file. A cluster from nothing and an upgrade.

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/bed/registry"
	"github.com/drover-project/drover/test/journey"
	"github.com/drover-project/drover/test/realk3s"
)

func TestASiteFromOneFile(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, AirGapped: true, Versions: []string{realk3s.Older, realk3s.Version},
		Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
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
	site, key := filepath.Join(w.Dir, "site.tar"), filepath.Join(w.Dir, "site-key")
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.saveSite(site, key)
	if out := w.drover("airgap", "verify", site, "--key", key+".pub"); !strings.Contains(out, "is whole") {
		t.Errorf("verify says %s", out)
	}

	must(t, j.StartServer(ctx))
	address, err := j.Bed.FreeAddress(ctx)
	must(t, err)
	_, err = j.Bed.Run(ctx, process.Options{
		Path: filepath.Join(j.Bin, "drover"), Args: []string{"airgap", "serve", site, "--listen", address}, LogFile: filepath.Join(w.Dir, "logs", "airgap.log"), ReadyURL: "http://" + address + "/v2/",
	})
	must(t, err)
	w.host, err = w.Host(ctx, "pier-1")
	must(t, err)
	w.sh("iptables -I OUTPUT -o eth0 ! -d " + w.host.Gateway() + " -j REJECT")
	mirrors := "mirrors:\n  \"*\":\n    endpoint: [\"http://" + address + "\"]\n"
	must(t, w.host.WriteFile(ctx, "/etc/rancher/agent/registries.yaml", []byte(mirrors), 0o600))
	for _, version := range []string{realk3s.Older, realk3s.Version} {
		began := time.Now()
		file := filepath.Join(w.Dir, "harbour.yaml")
		must(t, os.WriteFile(file, []byte("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  kubernetesVersion: "+version+
			"\n  rkeConfig:\n    machineGlobalConfig: {disable: [traefik, servicelb, metrics-server, local-storage]}\n    registries:\n      mirrors: {\"*\": {endpoint: [\"http://"+address+"\"]}}\n"), 0o600))
		w.drover("apply", "-f", file)
		if w.join == "" {
			w.join, err = w.JoinCommand(ctx, "harbour")
			must(t, err)
			w.sh(w.join)
		}
		must(t, bed.Await(ctx, "the cluster to run "+version, time.Second, func(context.Context) error {
			if out := w.drover("clusters", "show", "harbour"); !strings.Contains(out, "state      active") || !strings.Contains(out, "version    "+version) {
				return errors.New(out)
			}
			return nil
		}))
		t.Logf("%s from the file: %s", version, time.Since(began).Round(time.Second))
	}
	config, pod := w.kubeconfig(), filepath.Join(w.Dir, "pod.json")
	must(t, os.WriteFile(pod, []byte(strings.ReplaceAll(servingPod, `"Never"`, `"Always"`)), 0o600))
	must(t, bed.Await(ctx, "the service account of pods", time.Second, func(context.Context) error {
		_, err := w.Kubectl(ctx, "--kubeconfig", config, "apply", "-f", pod)
		return err
	}))
	w.kubectlAs(config, "wait", "--for=condition=Ready", "pod/quay", "--timeout=180s")
}

// saveSite saves what the versions need from a registry that is there for that long alone.
func (w *walk) saveSite(site, key string) {
	images, err := registry.New(filepath.Join(w.Dir, "upstream"))
	must(w.T, err)
	for _, version := range w.Versions {
		must(w.T, images.PushInstaller(w.ctx, realk3s.InstallerRef(version), w.K3s.Installer(version)))
	}
	var names []string
	for _, archive := range w.K3s.Images() {
		must(w.T, images.PushArchive(w.ctx, archive))
		manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
		must(w.T, err)
		for _, image := range manifest {
			names = append(names, image.RepoTags...)
		}
	}
	list := filepath.Join(w.Dir, "k3s-images.txt")
	must(w.T, os.WriteFile(list, []byte(strings.Join(names, "\n")+"\n"), 0o600))
	listener, err := new(net.ListenConfig).Listen(w.ctx, "tcp", "127.0.0.1:0")
	must(w.T, err)
	ctx, stop := context.WithCancel(w.ctx)
	served := make(chan error, 1)
	go func() { served <- images.Serve(ctx, listener) }()
	began := time.Now()
	w.drover("airgap", "save", site, "--kubernetes", strings.Join(w.Versions, ","), "--images-file", list, "--mirror", "docker.io=http://"+listener.Addr().String(), "--sign-key", key)
	w.Logf("saved in %s", time.Since(began).Round(time.Millisecond))
	stop()
	must(w.T, <-served)
}
