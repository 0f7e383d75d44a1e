//go:build e2e

package e2e

// Snapshots of a cluster on the real k3s: on its hosts and in a bucket of a real S3 server, and the way back from there when
// no server is left.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/realk3s"
	"github.com/drover-project/drover/test/s3server"
)

// TestSnapshotsInABucket loses the only server of a cluster, whose worker stays, and begins it anew on another host from S3.
func TestSnapshotsInABucket(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"snapshots go to a bucket", (*fleet).toBucket},
		{"a server and a worker join", func(f *fleet) {
			f.join(f.start("pier-1", serverFlags), f.start("pier-2", workerFlags))
			f.awaitActive(2)
		}},
		{"it takes a snapshot", (*fleet).snapshots},
		{"the bucket has it too, and its keys are nowhere", (*fleet).inBucket},
		{"a bucket that refuses is named", (*fleet).bucketRefuses},
		{"the server is lost, and a snapshot of the bucket is restored on a new host", (*fleet).restoresFromBucket},
	})
}

// sealedK3s encrypts Secrets in etcd.
var sealedK3s = distribution{name: "k3s", server: "k3s", agent: "k3s-agent", data: "/var/lib/rancher/k3s", supervisor: "6443", config: []string{`write-kubeconfig-mode: "0600"`, "secrets-encryption: true"}}

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
		if s.Machine != "s3" && strings.HasPrefix(s.Name, "e2e-") {
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

// once fails unless each server has done so many jobs of a verb, each once.
func (f *fleet) once(verb string, want int) {
	f.Helper()
	for _, s := range f.servers() {
		if out := f.on(s, "ls "+f.data+"/drover/errands | grep -c -- '-"+verb+"-[0-9]*\\.ended$' || true"); out != fmt.Sprint(want) {
			f.Errorf("%s did %s of %q, want %d", s.Name(), out, verb, want)
		}
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

// bucketName is the bucket of the harbour.
const bucketName = "harbour"

// toBucket starts an S3 server that hosts reach, and has the cluster keep its snapshots there.
func (f *fleet) toBucket() {
	dir := f.Dir + "/s3"
	must(f.T, os.MkdirAll(dir, 0o755))
	s, ca, err := s3server.StartTLS(f.ctx, s3server.Options{Module: "../..", Dir: dir, IP: f.Bed.Engine.Gateway().String()})
	must(f.T, err)
	f.parent.Cleanup(func() { must(f.parent, s.Close()) })
	must(f.T, s.MakeBucket(bucketName))
	*f.bucket = s
	// The bucket is on the server's own host here, where the server does not look for what people name.
	f.allowBucket()
	*f.etcd = append(*f.etcd, "s3:", "  cloudCredentialName: fleet-default:harbour-s3", "  endpoint: "+s.Endpoint, "  bucket: "+bucketName, "  folder: etcd", "  region: us-east-1", "  bucketLookupType: path", "  endpointCA: |")
	for line := range strings.Lines(string(ca)) {
		*f.etcd = append(*f.etcd, "    "+strings.TrimSpace(line))
	}
	file := filepath.Join(f.Dir, "keys.yaml")
	must(f.T, os.WriteFile(file, fmt.Appendf(nil, "apiVersion: v1\nkind: Secret\nmetadata: {name: harbour-s3, namespace: fleet-default}\nstringData: {accessKey: %s, secretKey: %s}\n", s3server.AccessKey, s3server.SecretKey), 0o600))
	f.drover("apply", "-f", file)
	f.applies(realk3s.Version)
}

// inS3 are the tests' snapshots that the server sees in the bucket.
func (f *fleet) inS3() (found []snapshot) {
	f.Helper()
	for _, s := range f.listSnapshots() {
		if s.Machine == "s3" && strings.HasPrefix(s.Name, "e2e-") {
			found = append(found, s)
		}
	}
	return found
}

// allowBucket has the server ask the bucket, which is on its own host.
func (f *fleet) allowBucket() {
	f.Helper()
	f.drover("settings", "set", "outgoing-allowed-ranges", f.Bed.Engine.Gateway().String()+"/32")
}

func (f *fleet) inBucket() {
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the snapshots are listed in S3", time.Second, func(context.Context) error {
		if n := len(f.inS3()); n != len(f.servers()) {
			return fmt.Errorf("%d of %d", n, len(f.servers()))
		}
		return nil
	}))
	for _, one := range f.inS3() {
		if _, err := os.Stat((*f.bucket).File(bucketName, "etcd/"+one.Name)); err != nil || !one.Restorable {
			f.Errorf("%+v: %v", one, err)
		}
	}
	for _, s := range *f.ships {
		if out := f.on(s, "grep -rlE '"+s3server.SecretKey+"|"+s3server.AccessKey+"' /etc/rancher /var/lib/rancher/system-agent "+f.data+"/drover 2>/dev/null || true; ps -ef | grep -v grep | grep -cF "+s3server.SecretKey+" || true"); out != "0" {
			f.Errorf("keys of the bucket on %s: %s", s.Name(), out)
		}
	}
}

func (f *fleet) bucketRefuses() {
	there := (*f.bucket).File(bucketName, "")
	must(f.T, os.Rename(there, there+".away"))
	out, err := f.Drover(f.ctx, "snapshots", "create", "harbour", "--name", "refused", "--wait")
	if err == nil || !strings.Contains(out+err.Error(), "S3") {
		f.Errorf("a snapshot for a bucket that is gone: %v %s", err, out)
	}
	f.Logf("refused: %v", err)
	must(f.T, os.Rename(there+".away", there))
	f.awaitActive(len(*f.ships))
}

// restoresFromBucket has nothing but what is in the bucket, and the server's own store.
func (f *fleet) restoresFromBucket() {
	f.mark("lost")
	one := f.inS3()[0]
	for _, s := range f.servers() {
		name := f.machine(s).MachineName()
		must(f.T, s.Remove(f.ctx))
		s.lost = true
		f.drover("machines", "rm", name, "--force", "--yes")
	}
	machine := f.joinsAfterLoss(f.start("pier-8", serverFlags))
	began := time.Now()
	f.drover("snapshots", "restore", "harbour", one.Name, "--machine", machine, "--yes", "--wait")
	f.Logf("the restore from S3 on a new host: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(2)
	if !f.marked("before") || f.marked("lost") {
		f.Error("the cluster does not have what the snapshot has")
	}
	f.awaitNodes(2)
	f.snapshotAfterRestore()
}

// snapshotAfterRestore is proof that the bucket's keys are in the restored cluster, too.
func (f *fleet) snapshotAfterRestore() {
	f.drover("snapshots", "create", "harbour", "--name", "again", "--wait")
	if files, err := filepath.Glob((*f.bucket).File(bucketName, "etcd/again-*")); err != nil || len(files) != 1 {
		f.Errorf("the bucket has %q %v", files, err)
	}
}

// joinsAfterLoss joins a server to a cluster that has no etcd, and returns its machine once it waits for a restore.
func (f *fleet) joinsAfterLoss(s *ship) (machine string) {
	f.Helper()
	f.join(s)
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the new server waits", time.Second, func(ctx context.Context) error {
		m, is, err := f.machineOf(ctx, s)
		if err != nil || !is || m.Cause == "" {
			return fmt.Errorf("its machine: %v %v %q", is, err, m.Cause) //nolint:errorlint // may be none
		}
		f.Logf("%s: %s: %s", s.Name(), m.DroverState, m.Cause)
		machine = m.MachineName()
		return nil
	}))
	return machine
}
