package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const harbour = "fleet-default/harbour"

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// kept is an operation that a test begins with; its ID is its number.
type kept struct {
	kind   operations.Kind
	state  operations.State
	failed bool // one of its tasks
}

// put stores operations of the harbour, a minute after each other, and one of another cluster that runs.
func put(t *testing.T, s *state.State, all []kept) {
	t.Helper()
	write := func(o operations.Operation) {
		if _, err := s.Operations.Create(t.Context(), o.Key(), o); err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range all {
		o := operations.Operation{ID: fmt.Sprintf("op-%02d", i), Kind: k.kind, Subject: harbour, State: k.state, Created: noon().Add(time.Duration(i-1000) * time.Minute)}
		if k.state.Ended() {
			o.Ended = o.Created
		}
		if k.failed {
			o.Tasks = []operations.Task{{ID: "a", State: operations.TaskFailed}}
		}
		write(o)
	}
	write(operations.Operation{ID: "op-other", Kind: operations.KindRemoval, Subject: "fleet-default/other", State: operations.Running, Created: noon().Add(-time.Hour)})
}

// states are those of the harbour's operations by their IDs, the new one's as "new".
func states(s *state.State, made string) map[string]operations.State {
	found := map[string]operations.State{}
	for _, o := range s.OperationsOf(harbour) {
		id := o.ID
		if id == made {
			id = "new"
		}
		found[id] = o.State
	}
	return found
}

func TestBegin(t *testing.T) {
	const (
		running = operations.Running
		queued  = operations.Queued
		aborted = operations.Aborted
	)
	for _, c := range []struct {
		name    string
		before  []kept
		request admission.Request
		want    map[string]operations.State
		refused string // a part of the error
	}{
		{name: "nothing is under way", want: map[string]operations.State{"new": running}},
		{name: "what was has ended", before: []kept{{operations.KindChange, operations.Failed, true}}, want: map[string]operations.State{"op-00": operations.Failed, "new": running}},
		{name: "a change is under way", before: []kept{{operations.KindChange, running, false}}, refused: "or in its place with --replace"},
		{name: "a removal is under way", before: []kept{{operations.KindRemoval, running, false}}, refused: "or put the new one behind it with --queue"},
		{
			name: "behind a change", before: []kept{{operations.KindChange, running, false}}, request: admission.Request{Turn: admission.Queue},
			want: map[string]operations.State{"op-00": running, "new": queued},
		},
		{
			name: "in place of a change", before: []kept{{operations.KindChange, running, false}}, request: admission.Request{Turn: admission.Replace},
			want: map[string]operations.State{"op-00": aborted, "new": running},
		},
		{
			name: "in place of one that stops", before: []kept{{operations.KindUpgrade, operations.Stopping, false}}, request: admission.Request{Turn: admission.Replace},
			want: map[string]operations.State{"op-00": aborted, "new": running},
		},
		{name: "not in place of a removal", before: []kept{{operations.KindRemoval, running, false}}, request: admission.Request{Turn: admission.Replace}, refused: "op-00"},
		{name: "not in place of one that waits", before: []kept{{operations.KindChange, queued, false}}, request: admission.Request{Turn: admission.Replace}, refused: "op-00"},
		{
			name: "a correction of a change that fails", before: []kept{{operations.KindChange, running, true}},
			want: map[string]operations.State{"op-00": aborted, "new": running},
		},
		{
			name: "a correction of one that does not come to its end", before: []kept{{operations.KindUpgrade, running, false}}, request: admission.Request{Failing: true},
			want: map[string]operations.State{"op-00": aborted, "new": running},
		},
		{name: "no correction of a removal that fails", before: []kept{{operations.KindRemoval, running, true}}, refused: "op-00"},
		{
			name: "queued behind what failed, which ends", before: []kept{{operations.KindChange, running, true}}, request: admission.Request{Turn: admission.Queue},
			want: map[string]operations.State{"op-00": aborted, "new": running},
		},
		{
			name: "the last of all", before: []kept{{operations.KindChange, running, false}, {operations.KindChange, queued, false}, {operations.KindRemoval, queued, false}},
			request: admission.Request{Turn: admission.Replace, Dismiss: "the cluster is deleted"},
			want:    map[string]operations.State{"op-00": aborted, "op-01": aborted, "op-02": aborted, "new": running},
		},
		{
			name: "a full queue", before: append([]kept{{operations.KindChange, running, false}}, repeated(operations.MaxQueued, kept{operations.KindChange, queued, false})...),
			request: admission.Request{Turn: admission.Queue}, refused: "16 operations of fleet-default/harbour are queued already",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Store.Close()
			put(t, s, c.before)
			before := states(s, "")
			r := c.request
			r.Subject, r.Kind, r.By = harbour, operations.KindChange, "user-a"
			r.Tasks = []operations.Task{{ID: "one"}}
			o, ops, _, err := admission.Begin(t.Context(), s, r, noon)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("the error is %v", err)
				}
				if diff := cmp.Diff(before, states(s, "")); diff != "" {
					t.Error(diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Store.Commit(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, states(s, o.ID)); diff != "" {
				t.Error(diff)
			}
			for _, one := range s.OperationsOf(harbour) {
				if _, known := before[one.ID]; one.State == aborted && before[one.ID] == running && (!known || one.Reason != "replaced by "+o.ID) {
					t.Errorf("%s ended because %q", one.ID, one.Reason)
				}
			}
			if o.By != "user-a" || len(o.Tasks) != 1 || !o.Created.Equal(noon()) {
				t.Errorf("the record is %+v", o)
			}
			if d, ok := s.Operations.Get("fleet-default/other/op-other"); ok && d.Value.State != running {
				t.Errorf("that of another cluster is %s", d.Value.State)
			}
		})
	}
}

// TestOldOnesAreDropped: with a new record the oldest ended one beyond the bound goes, in the same writes.
func TestOldOnesAreDropped(t *testing.T) {
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Store.Close()
	put(t, s, repeated(operations.Kept+1, kept{operations.KindChange, operations.Succeeded, false}))
	o, ops, gone, err := admission.Begin(t.Context(), s, admission.Request{Subject: harbour, Kind: operations.KindChange}, noon)
	if err != nil || len(gone) != 1 || gone[0].ID != "op-00" {
		t.Fatalf("%v go, %v", gone, err)
	}
	if _, err := s.Store.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	found := states(s, o.ID)
	if _, there := found["op-00"]; there || len(found) != operations.Kept+1 || found["new"] != operations.Running {
		t.Errorf("%d are left: %v", len(found), found)
	}
}

// TestAsksTwice: two requests made of one reading do not both begin.
func TestAsksTwice(t *testing.T) {
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Store.Close()
	put(t, s, []kept{{operations.KindChange, operations.Running, false}})
	request := admission.Request{Subject: harbour, Kind: operations.KindChange, Turn: admission.Replace}
	_, first, _, err := admission.Begin(t.Context(), s, request, noon)
	if err != nil {
		t.Fatal(err)
	}
	_, second, _, err := admission.Begin(t.Context(), s, request, noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Commit(t.Context(), first...); err != nil {
		t.Fatal(err)
	}
	_, err = s.Store.Commit(t.Context(), second...)
	if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
		t.Errorf("the second one: %v", err)
	}
}

func repeated(n int, k kept) (all []kept) {
	for range n {
		all = append(all, k)
	}
	return all
}
