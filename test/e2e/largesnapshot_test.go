//go:build e2e && e2e_full

package e2e

// A snapshot of an etcd of a gigabyte on the real k3s: how long it takes, and how much of that is k3s' own.

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/test/realk3s"
)

func TestALargeSnapshot(t *testing.T) {
	walkMany(t, k3sItself, []string{realk3s.Version}, []manyStep{
		{"a machine joins", func(f *fleet) { f.join(f.start("pier-1", []string{"--all-roles"})); f.awaitActive(1) }},
		{"its etcd grows to a gigabyte", (*fleet).fill},
		{"k3s takes a snapshot of it, and drover does", (*fleet).largeSnapshot},
	})
}

// fill creates ConfigMaps of 900 KiB of random bytes, 1,200 of them.
func (f *fleet) fill() {
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(f.drover("clusters", "kubeconfig", "harbour")))
	must(f.T, err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	must(f.T, err)
	names := make(chan int)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range names {
				content := make([]byte, 900<<10)
				if _, err := rand.Read(content); err != nil {
					f.Error(err)
				}
				cargo := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cargo-", i)}, BinaryData: map[string][]byte{"cargo": content}}
				if _, err := client.CoreV1().ConfigMaps("default").Create(f.ctx, cargo, metav1.CreateOptions{}); err != nil {
					f.Error(err)
				}
			}
		})
	}
	for i := range 1200 {
		names <- i
	}
	close(names)
	all.Wait()
}

// largeSnapshot takes one by k3s alone and one by drover, in turns.
func (f *fleet) largeSnapshot() {
	pier := f.servers()[0]
	for range 2 {
		began := time.Now()
		f.on(pier, "k3s etcd-snapshot save --name alone")
		alone := time.Since(began)
		began = time.Now()
		f.drover("snapshots", "create", "harbour", "--name", "e2e", "--wait")
		whole := time.Since(began)
		size, err := strconv.ParseInt(strings.Fields(f.on(pier, "du -bc "+f.data+"/server/db/snapshots/e2e-* | sort -n | tail -2 | head -1"))[0], 10, 64)
		must(f.T, err)
		if size < 1<<30 {
			f.Errorf("the snapshot has %d bytes only", size)
		}
		f.Logf("MEASURE snapshot of %d MiB: %s, by k3s alone %s", size>>20, whole.Round(100*time.Millisecond), alone.Round(100*time.Millisecond))
	}
	for _, one := range f.listSnapshots() {
		if strings.HasPrefix(one.Name, "e2e-") && (one.SHA256 == "" || !one.Restorable) {
			f.Errorf("%+v", one)
		}
	}
}
