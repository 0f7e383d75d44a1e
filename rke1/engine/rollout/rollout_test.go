package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/runbed"
)

func TestShare(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "3": 3, "10%": 2, "25%": 5, "100%": 20, "1%": 1, " 2 ": 2} {
		if got, err := share(text, 20); err != nil || got != want {
			t.Errorf("%q of 20: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "ten", "1.5", "%"} {
		if got, err := share(text, 20); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestHostsThatMayBeAway(t *testing.T) {
	workers := []config.Node{runbed.Node("1", "worker"), runbed.Node("2", "worker"), runbed.Node("3", "worker"), runbed.Node("4", "worker")}
	for name, c := range map[string]struct {
		text string
		down int
		want int // 0: an error
	}{
		"half": {"50%", 0, 2}, "half, one is away": {"50%", 1, 1}, "half, two are away": {"50%", 2, 0}, "the default": {"", 0, 1},
		"the default, one is away": {"", 1, 0}, "wrong": {"none", 0, 0},
	} {
		r := runbed.Of(workers, workers)
		for _, n := range workers[:c.down] {
			r.Down[n.Address] = errors.New("no")
		}
		got, err := unavailable(r, config.RoleWorker, c.text, "10%")
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
	// Of hosts that have other roles, too, none counts: they have their turn with those.
	all := append([]config.Node{runbed.Node("5", "etcd", "worker"), runbed.Node("6", "controlplane", "worker")}, workers...)
	r := runbed.Of(all, all)
	r.Down["5"], r.Down["6"] = errors.New("no"), errors.New("no")
	if got, err := unavailable(r, config.RoleWorker, "50%", "10%"); got != 2 || err != nil {
		t.Errorf("beside hosts with other roles: %d, %v", got, err)
	}
}

// As many failures as may be away end the roll-out.
func TestFailuresEndARollOut(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	c := &counter{limit: 2, stop: stop}
	c.add(errors.New("one"))
	if ctx.Err() != nil {
		t.Error("one failure of two that may be ends it")
	}
	c.add(errors.New("two"))
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "two") {
		t.Errorf("after as many as may be away: %v", cause)
	}
}

// A host that is away keeps only those from changing that would be away too.
func TestRoomWhereNothingChanges(t *testing.T) {
	workers := []config.Node{runbed.Node("1", "worker"), runbed.Node("2", "worker")}
	r := runbed.Of(workers, workers)
	r.Down["2"] = errors.New("no")
	h := r.Hosts["1"]
	if limit, err := room(r, []*run.Host{h}, config.RoleWorker, "1", "1", config.RoleWorker); err != nil || limit != run.Parallel {
		t.Errorf("nothing changes: %d, %v", limit, err)
	}
	h.Desired = desired.Host{Address: "1", Containers: []desired.Container{{Process: nodeconfig.Process{Name: desired.Kubelet}, Plane: config.RoleWorker}}}
	if _, err := room(r, []*run.Host{h}, config.RoleWorker, "1", "1", config.RoleWorker); err == nil {
		t.Error("a change although as many are away as may be")
	}
}
