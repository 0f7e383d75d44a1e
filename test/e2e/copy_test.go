//go:build e2e

package e2e

// kubectl cp of a GiB into a pod and out of it, on the real k3s: straight to its API, and through the server and the host's tunnel.
//
//	go test -tags e2e -run '^$' -bench CopyOfAGiB -benchtime 3x ./test/e2e

import (
	"context"
	"crypto/rand"
	"io"
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

// sizeOfCopy is what is copied, in bytes.
const sizeOfCopy = 1 << 30

// holdingPod keeps what is copied in memory, so that no disk is measured.
const holdingPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hold"}, "spec": {"terminationGracePeriodSeconds": 0,
 "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}],
 "containers": [{"name": "hold", "image": "` + realk3s.BusyboxImage + `", "imagePullPolicy": "Never", "command": ["sleep", "1000000"],
  "volumeMounts": [{"name": "memory", "mountPath": "/hold"}]}]}}`

func BenchmarkCopyOfAGiB(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 25*time.Minute)
	defer cancel()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	module, err := filepath.Abs("../..")
	check(err)
	dir, err := os.MkdirTemp("/dev/shm", "drover-copy-") // here, too
	check(err)
	defer os.RemoveAll(dir)
	j, err := journey.Start(ctx, journey.Options{
		Dir: b.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Say: b.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	check(err)
	b.Cleanup(func() {
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			b.Error(err)
		}
	})
	through, direct := active(b, ctx, j)
	pod := filepath.Join(dir, "pod.json")
	check(os.WriteFile(pod, []byte(holdingPod), 0o600))
	check(bed.Await(ctx, "the service account of pods", time.Second, func(ctx context.Context) error {
		_, err := j.Kubectl(ctx, "--kubeconfig", through, "apply", "-f", pod)
		return err
	}))
	_, err = j.Kubectl(ctx, "--kubeconfig", through, "wait", "--for=condition=Ready", "pod/hold", "--timeout=180s")
	check(err)

	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	file, err := os.Create(there)
	check(err)
	_, err = io.CopyN(file, rand.Reader, sizeOfCopy)
	check(err)
	check(file.Close())
	for _, way := range []struct{ name, config string }{{"direct", direct}, {"through the server", through}} {
		copies := func(b *testing.B, from, to string) {
			b.SetBytes(sizeOfCopy)
			for b.Loop() {
				if _, err := j.Kubectl(ctx, "--kubeconfig", way.config, "cp", "--retries=0", from, to); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run("into the pod/"+way.name, func(b *testing.B) { copies(b, there, "hold:/hold/there") })
		b.Run("out of the pod/"+way.name, func(b *testing.B) { copies(b, "hold:/hold/there", back) })
		info, err := os.Stat(back)
		check(err)
		if info.Size() != sizeOfCopy {
			b.Fatalf("%d bytes came back", info.Size())
		}
		check(os.Remove(back))
	}
}

// active is a cluster of one host, by the kubeconfigs of both ways to it.
func active(b *testing.B, ctx context.Context, j *journey.Journey) (through, direct string) {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	check(j.StartServer(ctx))
	_, err := j.Drover(ctx, "apply", "-f", filepath.Join(j.Module, "examples/k3s.yaml"))
	check(err)
	host, err := j.Host(ctx, "pier-1")
	check(err)
	line, err := j.JoinCommand(ctx, "harbour")
	check(err)
	_, err = host.Sh(ctx, line)
	check(err)
	_, err = j.Await(ctx, "Active", nil)
	check(err)

	through, direct = filepath.Join(j.Dir, "through"), filepath.Join(j.Dir, "direct")
	config, err := j.Drover(ctx, "clusters", "kubeconfig", "harbour")
	check(err)
	check(os.WriteFile(through, []byte(config), 0o600))
	config, err = host.Sh(ctx, "cat /etc/rancher/k3s/k3s.yaml")
	check(err)
	check(os.WriteFile(direct, []byte(strings.Replace(config, "127.0.0.1", host.IP(), 1)), 0o600))
	return through, direct
}
