package steps

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
)

const newHash = "00000000000000000000000000000000000000000000000000000000000000aa"

// newCABed is a bed of such a rotation, whose hosts say which CAs they have made.
func newCABed(t *testing.T, r Request, roles ...string) *bed {
	t.Helper()
	b := newBed(t, operations.KindRotateCA, r, roles...)
	b.in.Answers = true
	b.does = func(m *Machine, task operations.Task) {
		if task.Step == "newcas" {
			m.Output = []byte("made\n" + `{"ca":"` + newHash + `"}`)
		}
	}
	return b
}

// TestTheOrderOfNewCAs: a snapshot, one server makes them and etcd takes them, servers restart one after the other, workers as many at a
// time as the cluster says; what the first server kept goes last.
func TestTheOrderOfNewCAs(t *testing.T) {
	for name, c := range map[string]struct {
		roles []string
		ask   Request
		want  []string
	}{
		"one machine": {[]string{"ecw"}, Request{}, []string{"guard m0", "newcas m0", "takecas m0", "reload m0", "tidy m0"}},
		"roles apart": {
			[]string{"c", "e", "e", "w", "w", "w"}, Request{},
			[]string{"guard m1", "newcas m1", "takecas m1", "reload m1", "reload m0", "reload m2", "renew m3, renew m4", "renew m5", "tidy m1"},
		},
		"without a snapshot": {[]string{"ec", "w"}, Request{NoSnapshot: true}, []string{"newcas m0", "takecas m0", "reload m0", "renew m1", "tidy m0"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCABed(t, c.ask, c.roles...)
			if diff := cmp.Diff(c.want, b.run()); diff != "" {
				t.Error(diff)
			}
			r, err := ReadRequest(b.in.Operation)
			if err != nil || r.CA != newHash || b.in.Operation.State != operations.Succeeded {
				t.Errorf("%v, %+v; the operation is %s", err, r, b.in.Operation.State)
			}
		})
	}
}

// TestNewCAsThatCannotBegin says why.
func TestNewCAsThatCannotBegin(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bed)
		want    string
	}{
		"no answer":       {func(b *bed) { b.in.Answers = false }, "no snapshot can be taken before it, as the cluster's API does not answer; mend that, or ask for it with --no-snapshot"},
		"no etcd":         {func(b *bed) { b.in.Machines = b.in.Machines[1:] }, "no server with etcd has a plan"},
		"a server is off": {func(b *bed) { b.machine("m0").Connected, b.machine("m0").Absent = false, "its agent is gone" }, "m0 is a server, and its agent is gone; it would stay with the CAs of now. Bring it back, or remove it by drover machines rm m0"},
		"a server does not work": {
			func(b *bed) { b.machine("m0").Works, b.machine("m0").Cause = false, "its node is not ready" },
			"m0 is a server, and does not work: its node is not ready. All of them have to, as they restart with the new CAs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCABed(t, Request{}, "ec", "c", "w")
			c.prepare(b)
			if steps := b.run(); len(steps) > 0 || b.in.Operation.State != operations.Failed || b.in.Operation.Reason != c.want {
				t.Errorf("%q; the operation is %s: %s", steps, b.in.Operation.State, b.in.Operation.Reason)
			}
		})
	}
}

// TestNewCAsNobodyKnows: what a host does not say is not taken to etcd, and neither is what was forgotten.
func TestNewCAsNobodyKnows(t *testing.T) {
	b := newCABed(t, Request{}, "ec")
	b.does = nil
	if b.run(); b.in.Operation.State != operations.Failed || !strings.Contains(b.in.Operation.Reason, `"" is not a SHA-256 in hex`) {
		t.Errorf("the operation is %s: %s", b.in.Operation.State, b.in.Operation.Reason)
	}
	b = newCABed(t, Request{}, "ec")
	for range 3 {
		b.step() // the guard and the CAs are made
	}
	b.in.Operation = needing(b.in.Operation, Request{})
	for range 20 {
		b.step()
	}
	if b.in.Operation.State != operations.Failed || !strings.Contains(b.in.Operation.Reason, "it is not known any more which CAs were made") {
		t.Errorf("the operation is %s: %s", b.in.Operation.State, b.in.Operation.Reason)
	}
}

// TestAWorkerThatKeepsItsCA: one that cannot be restarted is named in the end, and holds no other up.
func TestAWorkerThatKeepsItsCA(t *testing.T) {
	b := newCABed(t, Request{}, "ec", "w", "w")
	made := b.does
	b.does = func(m *Machine, task operations.Task) {
		made(m, task)
		if m.Name == "m1" {
			m.Failed, m.Fault = true, "no space left on device"
		}
	}
	b.run()
	renewed, _ := b.in.Operation.Task("renew m2")
	tidied, _ := b.in.Operation.Task("tidy m0")
	if o := b.in.Operation; o.State != operations.Failed || o.Reason != "renew the certificates of m1: no space left on device" || renewed.State != operations.TaskSucceeded || tidied.State != operations.TaskSucceeded {
		t.Errorf("the operation is %s: %s; %+v %+v", o.State, o.Reason, renewed, tidied)
	}
}
