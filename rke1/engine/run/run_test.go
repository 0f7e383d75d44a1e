package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/runbed"
)

func TestChangesInWords(t *testing.T) {
	none := &run.Changes{Hosts: []run.HostChanges{{Address: "1"}}}
	if !none.Empty() || !strings.HasPrefix(none.Summary(), "0 changes") || len(none.Lines()) != 0 {
		t.Errorf("%q %q", none.Summary(), none.Lines())
	}
	some := &run.Changes{
		Hosts: []run.HostChanges{
			{Address: "1", Joins: true, Files: []string{"/etc/f"}, Images: []string{"i:1"}, Containers: []diff.Difference{{Host: "1", Container: "kubelet", Kind: nodeconfig.Create}}},
			{Address: "2", Leaves: true}, {Address: "3"},
		},
		Addons: []string{"add-on rke-user-addon: apply"}, Pods: []string{"Deployment shop/web: its pods are replaced"}, Unknown: map[string]error{"4": errors.New("no route")},
	}
	want := []string{
		"1: joins the cluster", "1 file /etc/f: write", "1 image i:1: pull", "1 kubelet: create", "2: leaves the cluster; its containers and data are removed",
		"add-on rke-user-addon: apply", "Deployment shop/web: its pods are replaced", "4: cannot be reached, so that nothing is known of it: no route",
	}
	if changes := cmp.Diff(want, some.Lines()); changes != "" {
		t.Error(changes)
	}
	if got := some.Summary(); got != "1 containers change on 2 of 3 hosts, 1 add-ons change; 1 hosts cannot be reached" {
		t.Error(got)
	}
}

func TestARunStopsBetweenPhases(t *testing.T) {
	var did []string
	stop := false
	r := run.New(run.Options{Report: runbed.Quiet{}, Stop: func() error {
		if stop {
			return run.ErrStopped
		}
		return nil
	}}, run.Work{Config: &config.Cluster{}})
	one := func(name string) run.Phase {
		return run.Phase{ID: name, Title: name, Run: func(context.Context, *run.Run) error {
			did = append(did, name)
			stop = name == "b"
			return nil
		}}
	}
	if err := r.Perform(t.Context(), []run.Phase{one("a"), one("b"), one("c")}); !errors.Is(err, run.ErrStopped) || !slices.Equal(did, []string{"a", "b"}) {
		t.Errorf("did %v: %v", did, err)
	}
}

// A phase that is not for the run is named, so that people see all parts of it, and not gone through.
func TestAPhaseThatIsNotForTheRun(t *testing.T) {
	did := ""
	note := func(name string) func(context.Context, *run.Run) error {
		return func(context.Context, *run.Run) error { did += name; return nil }
	}
	is := func(yes bool) func(*run.Run) bool { return func(*run.Run) bool { return yes } }
	told := &titles{}
	r := run.New(run.Options{Report: told}, run.Work{Config: &config.Cluster{}})
	err := r.Perform(t.Context(), []run.Phase{{Title: "A", Run: note("a")}, {Title: "B", ShouldRun: is(false), Run: note("b")}, {Title: "C", ShouldRun: is(true), Run: note("c")}})
	if err != nil || did != "ac" || told.all != "ABC" {
		t.Errorf("did %q, said %q: %v", did, told.all, err)
	}
}

type titles struct {
	runbed.Quiet
	all string
}

func (t *titles) Phase(_, title string) { t.all += title }

// What fails on one host stops no other.
func TestEachGoesOnPastFailures(t *testing.T) {
	hosts := []*run.Host{{Node: runbed.Node("1")}, {Node: runbed.Node("2")}, {Node: runbed.Node("3")}}
	did := make(chan string, 3)
	err := run.Each(t.Context(), hosts, 2, func(_ context.Context, h *run.Host) error {
		did <- h.Node.Address
		if h.Node.Address == "2" {
			return errors.New("two failed")
		}
		return nil
	})
	if len(did) != 3 || err == nil || !strings.Contains(err.Error(), "two failed") {
		t.Errorf("%d hosts, %v", len(did), err)
	}
}
