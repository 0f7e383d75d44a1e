//go:build e2e && e2e_full

package e2e

// Day two of a cluster of many machines, on the real k3s: snapshots, the loss of two of three servers and the way back,
// certificates and keys, and the loss of all.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/realk3s"
)

func TestManyMachinesSnapshots(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"snapshots go to a bucket", (*fleet).toBucket},
		{"three servers and a worker join", (*fleet).fourJoin},
		{"each member takes a snapshot", (*fleet).snapshots},
		{"the certificates are renewed", (*fleet).renews},
		{"the encryption key is rotated", (*fleet).rotatesKey},
		{"a snapshot is restored on the whole cluster", (*fleet).restoresAll},
		{"two servers are lost, and the snapshot is restored", (*fleet).restoresAfterLoss},
		{"the last server is lost, and a snapshot of the bucket is restored on a new host", (*fleet).restoresFromBucket},
	})
}

// TestOneMachineSnapshots is the same on a cluster of one machine, which takes a tenth of the time.
func TestOneMachineSnapshots(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"a machine joins", func(f *fleet) { f.join(f.start("pier-1", []string{"--all-roles"})); f.awaitActive(1) }},
		{"it takes a snapshot", (*fleet).snapshots},
		{"the certificates are renewed", (*fleet).renews},
		{"the encryption key is rotated", (*fleet).rotatesKey},
		{"the snapshot is restored", (*fleet).restoresAll},
	})
}

// TestTotalLoss is the way back of a cluster whose only server is gone, with a worker that stays.
func TestTotalLoss(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"a server and a worker join", func(f *fleet) {
			f.join(f.start("pier-1", serverFlags), f.start("pier-2", workerFlags))
			f.awaitActive(2)
		}},
		{"it takes a snapshot", (*fleet).snapshots},
		{"the server is lost, and a file of it is restored on a new host", (*fleet).restoresAfterTotalLoss},
	})
}

func (f *fleet) renews() {
	dates := `for c in $(ls /var/lib/rancher/k3s/server/tls/*.crt /var/lib/rancher/k3s/server/tls/kube-scheduler/kube-scheduler.crt); do case $c in *-ca.crt|*ca.nochain.crt) ;; *) sha256sum $c ;; esac; done`
	before := map[string]string{}
	for _, s := range f.servers() {
		before[s.Name()] = f.on(s, dates)
	}
	began := time.Now()
	f.drover("clusters", "rotate", "certificates", "harbour", "--wait")
	f.Logf("certificates of all machines: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(len(*f.ships))
	f.wantOneByOne(began)
	for _, s := range f.servers() {
		after := strings.Split(f.on(s, dates), "\n")
		for _, line := range after {
			if slices.Contains(strings.Split(before[s.Name()], "\n"), line) {
				f.Errorf("%s has the old certificate %s", s.Name(), line)
			}
		}
	}
	f.once("rotate", 1)
}

func (f *fleet) rotatesKey() {
	status := "k3s secrets-encrypt status"
	first := (*f.ships)[0]
	before, err := first.Sh(f.ctx, status+" | grep '^ \\*'")
	must(f.T, err)
	before = strings.TrimSuffix(before, "\n")
	began := time.Now()
	f.drover("clusters", "rotate", "encryption-keys", "harbour", "--wait")
	f.Logf("the encryption key of all servers: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(len(*f.ships))
	for _, s := range f.servers() {
		out := f.on(s, status)
		if slices.Contains(strings.Split(out, "\n"), before) || !strings.Contains(out, "All hashes match") || !strings.Contains(out, "reencrypt_finished") {
			f.Errorf("%s says\n%s", s.Name(), out)
		}
	}
	if !f.marked("before") {
		f.Error("a Secret of before is gone")
	}
	f.once("restart", 1)
}

func (f *fleet) restoresAll() {
	f.mark("after")
	second := f.servers()[len(f.servers())/2]
	one := f.of(second)
	if !one.Restorable {
		f.Fatalf("%s cannot be restored: %s", one.Name, one.Why)
	}
	if out, err := f.Drover(f.ctx, "snapshots", "restore", "harbour", "/etc/hostname", "--machine", f.machine(second).MachineName(), "--yes", "--wait"); err == nil || !strings.Contains(err.Error()+out, "not a database of etcd") {
		f.Errorf("a file that is no snapshot: %v %s", err, out)
	}
	began := time.Now()
	f.drover("snapshots", "restore", "harbour", one.Name, "--yes", "--wait")
	f.Logf("the restore of the cluster: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(len(*f.ships))
	if len(f.servers()) > 1 {
		f.awaitVoters()
	}
	if !f.marked("before") || f.marked("after") {
		f.Error("the cluster does not have what the snapshot has")
	}
	if out := f.on(second, "ls -d "+f.data+"/server/before-* 2>/dev/null || true"); out != "" {
		f.Errorf("what the restore replaced is still there: %s", out)
	}
}

func (f *fleet) restoresAfterLoss() {
	third := (*f.ships)[2]
	one := f.of(third)
	for _, s := range (*f.ships)[:2] {
		name := f.machine(s).MachineName()
		must(f.T, s.Remove(f.ctx))
		s.lost = true
		f.drover("machines", "rm", name, "--force", "--yes")
	}
	began := time.Now()
	f.drover("snapshots", "restore", "harbour", one.Name, "--yes", "--wait")
	f.Logf("the restore on the server that is left: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(2)
	if !f.marked("before") {
		f.Error("the cluster does not have what the snapshot has")
	}
	f.awaitNodes(2)
}

// restoresAfterTotalLoss has nothing but a file of a snapshot, and the server's own store.
func (f *fleet) restoresAfterTotalLoss() {
	f.drover("snapshots", "create", "harbour", "--name", "e2e", "--wait")
	f.mark("lost")
	last := f.servers()[0]
	one := f.of(last)
	content, err := last.ReadFile(f.ctx, strings.TrimPrefix(one.File, "file://"))
	must(f.T, err)
	name := f.machine(last).MachineName()
	must(f.T, last.Remove(f.ctx))
	last.lost = true
	f.drover("machines", "rm", name, "--force", "--yes")
	s := f.start("pier-6", serverFlags)
	machine := f.joinsAfterLoss(s)
	must(f.T, s.WriteFile(f.ctx, "/root/"+one.Name, content, 0o600))
	began := time.Now()
	f.drover("snapshots", "restore", "harbour", "/root/"+one.Name, "--machine", machine, "--yes", "--wait")
	f.Logf("the restore on a new host: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(2)
	if !f.marked("before") || f.marked("lost") {
		f.Error("the cluster does not have what the snapshot has")
	}
	f.awaitNodes(2)
	f.join(f.start("pier-7", serverFlags))
	f.awaitActive(3)
}
