package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// A run that was interrupted founded etcd with one host; the next one has two. Founded with both it would be two clusters.
func TestFoundingGoesOnWithThoseWhoBegan(t *testing.T) {
	y := newYard(t, strings.ReplaceAll(yml, "role: [worker]", "role: [etcd, worker]"))
	for _, e := range y.hosts {
		e.OnStart(desired.EtcdFixPermissions, func(dockerstandin.Container) (int, string) { return 0, "" })
	}
	prepare := func(w Work) *run {
		t.Helper()
		s, _, err := Init(w, y.o.Source())
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(y.o, w)
		t.Cleanup(r.close)
		r.state = s
		if err := errors.Join(r.reach(t.Context()), r.compare(t.Context())); err != nil {
			t.Fatal(err)
		}
		for _, h := range r.with("") {
			for _, image := range h.desired.Images {
				y.hosts[h.node.Address].AddImage(image, dockerstandin.Image{})
			}
			if err := r.look(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	one := *y.work.Config
	one.Nodes = one.Nodes[:1]
	began := prepare(Work{Config: &one})
	for _, c := range began.hosts["10.0.0.1"].desired.Containers {
		if c.Plane == config.RoleEtcd {
			if err := began.hosts["10.0.0.1"].Engine().Perform(t.Context(), nodeconfig.Action{Kind: nodeconfig.Create, Name: c.Name, Process: &c.Process}); err != nil {
				t.Fatal(err)
			}
		}
	}
	was := y.hosts["10.0.0.1"].Containers()[desired.Etcd].ID

	y.o.Stop = func() error { return ErrStopped } // before the other joins
	y.work.Before = began.state
	r := prepare(y.work)
	if err := r.foundEtcd(t.Context(), r.with(config.RoleEtcd)); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
	if is := y.hosts["10.0.0.1"].Containers()[desired.Etcd].ID; is != was {
		t.Errorf("who began has another container: %s, and had %s", is, was)
	}
	if is, there := y.hosts["10.0.0.2"].Containers()[desired.Etcd]; there {
		t.Errorf("the other was founded, too: %v", is.Config.Cmd)
	}
}
