package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// A run that was interrupted founded etcd with one host; the next one has two. Founded with both it would be two clusters.
func TestFoundingGoesOnWithThoseWhoBegan(t *testing.T) {
	y := newYard(t, strings.ReplaceAll(yml, "role: [worker]", "role: [etcd, worker]"))
	for _, e := range y.hosts {
		e.OnStart(desired.EtcdFixPermissions, func(dockerstandin.Container) (int, string) { return 0, "" })
	}
	prepare := func(w run.Work) *run.Run {
		t.Helper()
		s, _, err := run.Init(w, y.o.Source())
		if err != nil {
			t.Fatal(err)
		}
		r := run.New(y.o, w)
		t.Cleanup(r.Close)
		r.State = s
		if err := errors.Join(reach.All(t.Context(), r), reach.Compare(t.Context(), r)); err != nil {
			t.Fatal(err)
		}
		for _, h := range r.With("") {
			for _, image := range h.Desired.Images {
				y.hosts[h.Node.Address].AddImage(image, dockerstandin.Image{})
			}
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	one := *y.work.Config
	one.Nodes = one.Nodes[:1]
	began := prepare(run.Work{Config: &one})
	for _, c := range began.Hosts["10.0.0.1"].Desired.Containers {
		if c.Plane == config.RoleEtcd {
			if err := began.Hosts["10.0.0.1"].Engine().Perform(t.Context(), nodeconfig.Action{Kind: nodeconfig.Create, Name: c.Name, Process: &c.Process}); err != nil {
				t.Fatal(err)
			}
		}
	}
	was := y.hosts["10.0.0.1"].Containers()[desired.Etcd].ID

	y.o.Stop = func() error { return run.ErrStopped } // before the other joins
	y.work.Before = began.State
	r := prepare(y.work)
	if err := plane.FoundEtcd(t.Context(), r, r.With(config.RoleEtcd)); !errors.Is(err, run.ErrStopped) {
		t.Errorf("got %v", err)
	}
	if is := y.hosts["10.0.0.1"].Containers()[desired.Etcd].ID; is != was {
		t.Errorf("who began has another container: %s, and had %s", is, was)
	}
	if is, there := y.hosts["10.0.0.2"].Containers()[desired.Etcd]; there {
		t.Errorf("the other was founded, too: %v", is.Config.Cmd)
	}
}
