//go:build e2e && e2e_full

package e2e

// Day two of a cluster of many machines, on the real k3s: snapshots, the loss of two of three servers and the way back,
// certificates and keys.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/realk3s"
)

// sealedK3s encrypts Secrets in etcd.
var sealedK3s = distribution{name: "k3s", server: "k3s", agent: "k3s-agent", data: "/var/lib/rancher/k3s", supervisor: "6443", config: []string{`write-kubeconfig-mode: "0600"`, "secrets-encryption: true"}}

func TestManyMachinesSnapshots(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"three servers and a worker join", (*fleet).fourJoin},
		{"each member takes a snapshot", (*fleet).snapshots},
		{"the certificates are renewed", (*fleet).renews},
		{"the encryption key is rotated", (*fleet).rotatesKey},
		{"the server token is rotated", (*fleet).rotatesToken},
		{"a snapshot is restored on the whole cluster", (*fleet).restoresAll},
		{"two servers are lost, and the snapshot is restored", (*fleet).restoresAfterLoss},
		{"the last server is lost, and a file of it is restored on a new host", (*fleet).restoresAfterTotalLoss},
	})
}

// TestOneMachineSnapshots is the same on a cluster of one machine, which takes a tenth of the time.
func TestOneMachineSnapshots(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"a machine joins", func(f *fleet) { f.join(f.start("pier-1", []string{"--all-roles"})); f.awaitActive(1) }},
		{"it takes a snapshot", (*fleet).snapshots},
		{"the certificates are renewed", (*fleet).renews},
		{"the encryption key is rotated", (*fleet).rotatesKey},
		{"the server token is rotated", (*fleet).rotatesToken},
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

// servers are the hosts with etcd that are there.
func (f *fleet) servers() (all []*ship) {
	for _, s := range *f.ships {
		if s.server() && !s.lost {
			all = append(all, s)
		}
	}
	return all
}

// snapshot is what the tests look at of one.
type snapshot struct {
	Name, Machine, File, SHA256 string
	Hosts                       []struct{ Size int64 }
	Restorable                  bool
	Why                         string
}

func (f *fleet) listSnapshots() []snapshot {
	f.Helper()
	var list []snapshot
	must(f.T, json.Unmarshal([]byte(f.drover("snapshots", "ls", "harbour", "-o", "json")), &list))
	return list
}

// mark writes something that a restore brings back, or takes away.
func (f *fleet) mark(name string) {
	f.Helper()
	_, err := f.Kubectl(f.ctx, "--kubeconfig", f.kubeconfig(), "create", "secret", "generic", name, "--from-literal=word="+name)
	must(f.T, err)
}

func (f *fleet) marked(name string) bool {
	f.Helper()
	out, err := f.Kubectl(f.ctx, "--kubeconfig", f.kubeconfig(), "get", "secret", name, "--ignore-not-found", "-o", "name")
	must(f.T, err)
	return strings.TrimSpace(out) != ""
}

func (f *fleet) snapshots() {
	if len(f.servers()) > 1 {
		f.awaitVoters()
	}
	f.mark("before")
	began := time.Now()
	f.drover("snapshots", "create", "harbour", "--name", "e2e", "--wait")
	f.Logf("snapshots of all members: %s", time.Since(began).Round(100*time.Millisecond))
	var found []string
	for _, s := range f.listSnapshots() {
		if strings.HasPrefix(s.Name, "e2e-") {
			found = append(found, s.Name)
			if !s.Restorable || s.SHA256 == "" || len(s.Hosts) != 1 || s.Hosts[0].Size == 0 {
				f.Errorf("snapshot %+v", s)
			}
		}
	}
	if len(found) != len(f.servers()) {
		f.Errorf("there are the snapshots %q, want one of each member", found)
	}
	f.awaitActive(len(*f.ships))
	if turns := f.turns(began); len(turns) != 0 {
		f.Errorf("a snapshot started %v", turns)
	}
	f.once("save", 1)
}

// once fails unless each server has done so many errands of a verb, each once.
func (f *fleet) once(verb string, want int) {
	f.Helper()
	for _, s := range f.servers() {
		if out := f.on(s, "ls "+f.data+"/drover/errands | grep -c -- '-"+verb+"-[0-9]*\\.ended$' || true"); out != fmt.Sprint(want) {
			f.Errorf("%s did %s of %q, want %d", s.Name(), out, verb, want)
		}
	}
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

// rotatesToken gives the servers another token, with which each comes up a second time too. What is restored after it was taken
// with the token of before, which the cluster then has again.
func (f *fleet) rotatesToken() {
	token := func() string {
		var tokens struct{ Server string }
		must(f.T, json.Unmarshal([]byte(f.drover("clusters", "token", "harbour", "--reveal", "-o", "json")), &tokens))
		return tokens.Server
	}
	before := token()
	if out := f.drover("clusters", "rotate", "server-token", "harbour", "--dry-run"); strings.Count(out, "with the new server token") != len(f.servers())+1 || token() != before {
		f.Errorf("a dry run says %s", out)
	}
	began := time.Now()
	f.drover("clusters", "rotate", "server-token", "harbour", "--wait")
	f.Logf("the token of all servers: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(len(*f.ships))
	starts := map[string]int{}
	turns := f.turns(began)
	for i, t := range turns {
		starts[t.host]++
		if i > 0 && (turns[i-1].begun.IsZero() || t.begins.Before(turns[i-1].begun)) {
			f.Errorf("the unit was started on %s before it ran on %s", t.host, turns[i-1].host)
		}
	}
	after := token()
	if after == before || len(starts) != len(f.servers()) {
		f.Errorf("the token is another one: %v, and these were started: %v", after != before, starts)
	}
	for _, s := range f.servers() {
		if starts[s.Name()] != 1 {
			f.Errorf("the unit was started %d times on %s", starts[s.Name()], s.Name())
		}
		if out := f.on(s, "cat "+f.data+"/server/token"); !strings.HasSuffix(out, "::server:"+after) {
			f.Errorf("%s does not have the token of the cluster", s.Name())
		}
		// A server looks only when it starts whether what it has is what etcd has.
		f.on(s, "systemctl restart "+f.server)
	}
	f.awaitActive(len(*f.ships))
	if !f.marked("before") {
		f.Error("a Secret of before is gone")
	}
}

// of is the newest snapshot of the tests on a host.
func (f *fleet) of(s *ship) snapshot {
	f.Helper()
	machine := f.machine(s).MachineName()
	for _, one := range f.listSnapshots() {
		if one.Machine == machine && strings.HasPrefix(one.Name, "e2e-") {
			return one
		}
	}
	f.Fatalf("no snapshot of %s is listed", s.Name())
	return snapshot{}
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

// awaitNodes waits until the cluster has so many nodes: k3s looks whether a member of etcd goes with one before it lets it go.
func (f *fleet) awaitNodes(want int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 2*time.Minute)
	defer cancel()
	began := time.Now()
	must(f.T, bed.Await(ctx, "the nodes", time.Second, func(context.Context) error {
		if nodes := f.nodes(); len(nodes) != want {
			return fmt.Errorf("the cluster has %d nodes, want %d", len(nodes), want)
		}
		return nil
	}))
	f.Logf("the cluster has %d nodes after %s", want, time.Since(began).Round(time.Second))
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
	f.join(s)
	var machine string
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the new server waits", time.Second, func(ctx context.Context) error {
		m, is, err := f.machineOf(ctx, s)
		if err != nil || !is || m.Cause == "" {
			return fmt.Errorf("its machine: %v %v %q", is, err, m.Cause)
		}
		f.Logf("%s: %s: %s", s.Name(), m.DroverState, m.Cause)
		machine = m.MachineName()
		return nil
	}))
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
