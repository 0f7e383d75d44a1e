package decide

import (
	"testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// bring is a token of another server that a person adds.
func (w *world) bring(token string) {
	w.Helper()
	next, known, err := w.s.Secrets.Bringing(token)
	if err != nil || known {
		w.Fatal(known, err)
	}
	w.s.Secrets = &next
}

// restartsAll restarts all servers, each of which has to come up.
func (w *world) restartsAll() {
	w.Helper()
	w.jobs = map[string]int{}
	w.ask(operations.KindRotateCertificates, steps.Request{})
	w.settle()
	w.ended(operations.Succeeded)
	w.s.Operation = nil
	w.settle()
	w.active()
}

// restoresBrought restores a snapshot that was taken with a token and an agent token of another server.
func (w *world) restoresBrought(token, target string, r steps.Request) {
	w.Helper()
	w.jobs = map[string]int{}
	w.outage, w.taken, w.then = true, installers.HashServerToken(token), "old-agent-token"
	r.Target = target
	w.ask(operations.KindRestore, r)
	w.settle()
	w.ended(operations.Succeeded)
	w.s.Operation, w.outage = nil, false
	w.settle()
	w.active()
	if w.s.Secrets.ServerToken != token || w.s.Secrets.AgentToken != "agent-token" || w.agents != "agent-token" || w.count("seal") != 1 {
		w.fail("the secrets are %+v, etcd has the agent token %s, %d jobs wrote it", w.s.Secrets, w.agents, w.count("seal"))
	}
}

// TestARebuiltServerRestores a snapshot of before it was lost, on hosts that have a cluster of the same document already: it has the
// token that was brought, each server comes up a second time, and hosts join as ever. Its own snapshot can be restored again after it.
func TestARebuiltServerRestores(t *testing.T) {
	for name, c := range map[string]struct {
		roles []records.Roles
		ask   steps.Request
	}{
		"one host":           {[]records.Roles{allInOne}, steps.Request{Snapshot: "/root/snapshot"}},
		"several hosts":      {[]records.Roles{allInOne, etcdControl, etcdControl, workerOnly, workerOnly}, steps.Request{Snapshot: "/root/snapshot"}},
		"etcd on its own":    {[]records.Roles{etcdOnly, etcdOnly, controlPlane, workerOnly}, steps.Request{Snapshot: "/root/snapshot"}},
		"the hash was known": {[]records.Roles{allInOne, workerOnly}, steps.Request{Snapshot: "/root/snapshot", TokenHash: installers.HashServerToken("old-token")}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range orders(2) {
				w := newWorld(t, seed, minimal, c.roles...)
				w.limit = 100
				w.settle()
				w.active()
				w.late = int(seed % 2)
				w.bring("older-token")
				w.bring("old-token")
				w.restoresBrought("old-token", "m0", c.ask)
				w.restartsAll()
				w.add("m7", allInOne)
				w.add("m8", workerOnly)
				w.settle()
				w.active()
				w.restartsAll()
				w.restoresBrought("old-token", "m0", c.ask)
				w.restartsAll()
				w.jobs, w.outage, w.taken, w.then = map[string]int{}, true, installers.HashServerToken("server-token"), "agent-token"
				w.ask(operations.KindRestore, steps.Request{Snapshot: "/root/its-own", Target: "m0"})
				w.settle()
				w.ended(operations.Succeeded)
				if w.s.Secrets.ServerToken != "server-token" || w.count("seal") != 0 {
					w.fail("the secrets are %+v, %d jobs wrote the agent token", w.s.Secrets, w.count("seal"))
				}
			}
		})
	}
}
