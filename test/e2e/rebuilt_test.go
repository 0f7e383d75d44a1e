//go:build e2e && e2e_full

package e2e

// A server that is rebuilt from nothing: the documents are in a file, the snapshots in a bucket, and a person kept the server token.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/realk3s"
)

// TestARebuiltServer loses a server with its store, and all hosts of its cluster.
func TestARebuiltServer(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"snapshots go to a bucket", (*fleet).toBucket},
		{"a server and a worker join", func(f *fleet) {
			f.join(f.start("pier-1", serverFlags), f.start("pier-2", workerFlags))
			f.awaitActive(2)
		}},
		{"it takes a snapshot", (*fleet).snapshots},
		{"the bucket has it too", (*fleet).inBucket},
		{"everything is lost, and the server is rebuilt", (*fleet).rebuilds},
		{"the snapshot is restored with the token that was kept", (*fleet).restoresWithKeptToken},
		{"all servers start once more, and another one joins", (*fleet).startsOnceMore},
	})
}

// serverToken is the token that servers of the cluster join with.
func (f *fleet) serverToken() string {
	f.Helper()
	var tokens struct{ Server string }
	must(f.T, json.Unmarshal([]byte(f.drover("clusters", "token", "harbour", "--reveal", "-o", "json")), &tokens))
	return tokens.Server
}

// keptToken is the file of the server token that a person keeps.
func (f *fleet) keptToken() string { return filepath.Join(f.Dir, "harbour.token") }

// rebuilds begins with an empty data directory, the documents and the token; on new hosts comes up a cluster with tokens of its own.
func (f *fleet) rebuilds() {
	kept := f.serverToken()
	must(f.T, os.WriteFile(f.keptToken(), []byte(kept+"\n"), 0o600))
	f.mark("lost")
	for _, s := range *f.ships {
		must(f.T, s.Remove(f.ctx))
		s.lost = true
	}
	must(f.T, f.KillServer(f.ctx))
	f.DataDir = filepath.Join(f.Dir, "rebuilt")
	must(f.T, f.StartServer(f.ctx))
	f.allowBucket()
	f.drover("apply", "-f", filepath.Join(f.Dir, "keys.yaml"))
	f.applies(realk3s.Version)
	f.join(f.start("pier-8", serverFlags), f.start("pier-9", workerFlags))
	f.awaitActive(2)
	if f.serverToken() == kept {
		f.Error("the rebuilt server has the token of before")
	}
}

// restoresWithKeptToken is refused before the token is brought, and restores everything after it.
func (f *fleet) restoresWithKeptToken() {
	var one snapshot
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the new cluster lists the snapshot of before, which its distribution looks for once it runs", time.Second, func(context.Context) error {
		found := f.inS3()
		if len(found) == 0 {
			return errors.New("it lists none")
		}
		one = found[len(found)-1]
		return nil
	}))
	if one.Name == "" || one.Restorable || !strings.Contains(one.Why, "drover clusters token harbour --add FILE") {
		f.Fatalf("the snapshot of before: %+v", one)
	}
	machine := f.machine(f.servers()[0]).MachineName()
	if out, err := f.Drover(f.ctx, "snapshots", "restore", "harbour", one.Name, "--machine", machine, "--yes"); err == nil {
		f.Fatalf("it is restored without its token: %s", out)
	}
	f.drover("clusters", "token", "harbour", "--add", f.keptToken())
	kept, err := os.ReadFile(f.keptToken())
	must(f.T, err)
	out, err := f.DroverIn(f.ctx, strings.NewReader("K10"+strings.Repeat("0", 64)+"::server:"+string(kept)), "clusters", "token", "harbour", "--add", "-")
	if err != nil || !strings.Contains(out, "already") {
		f.Errorf("the same token in its other form: %s %v", out, err)
	}
	began := time.Now()
	f.drover("snapshots", "restore", "harbour", one.Name, "--machine", machine, "--yes", "--wait")
	f.Logf("the restore by a rebuilt server: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(2)
	if !f.marked("before") || f.marked("lost") {
		f.Error("the cluster does not have what the snapshot has")
	}
	if f.serverToken() != strings.TrimSpace(string(kept)) {
		f.Error("the cluster does not have the token that was kept")
	}
	f.awaitNodes(2)
	f.snapshotAfterRestore()
}

// startsOnceMore is proof that etcd holds what the servers have on their disks: each compares both when it starts.
func (f *fleet) startsOnceMore() {
	f.join(f.start("pier-10", serverFlags))
	f.awaitActive(3)
	must(f.T, bed.Await(f.ctx, "both servers to vote", time.Second, func(context.Context) error {
		if voters := f.voters(); len(voters) != 2 {
			return fmt.Errorf("etcd has the voters %v", voters)
		}
		return nil
	}))
	for _, s := range f.servers() {
		f.on(s, "systemctl restart "+f.server)
		f.awaitActive(3)
	}
	if !f.marked("before") {
		f.Error("a Secret of before is gone")
	}
}
