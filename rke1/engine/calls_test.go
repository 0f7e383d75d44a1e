package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
)

// A run that changes nothing asks each host once for what it is, what runs there and what lies there. Over SSH every call of Docker's API costs a
// round trip, and three hosts are to be through in five seconds.
func TestCallsOfARunThatChangesNothing(t *testing.T) {
	y, first, _ := deployedYard(t, yml)
	if err := plane.DeployFiles(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	r := run.New(y.o, y.work)
	t.Cleanup(r.Close)
	r.State = y.work.Before
	if err := errors.Join(reach.All(t.Context(), r), reach.Compare(t.Context(), r), reach.Check(t.Context(), r), reach.Images(t.Context(), r), plane.DeployFiles(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.With("") {
		if todo := plane.Differences(r, h, config.RoleEtcd, config.RoleControlPlane, config.RoleWorker); len(todo) > 0 {
			t.Errorf("%s: %v", h.Node.Address, todo)
		}
		containers, images := len(h.Found.Containers), len(slices.Compact(slices.Sorted(slices.Values(h.Desired.Images))))
		// Version and engine; the list of containers and each of them; each image; a container for the files, which is made, read and removed.
		if want := int64(2 + 1 + containers + images + 3); h.Calls() != want {
			t.Errorf("host %s with %d containers of %d images: %d calls, want %d", h.Node.Address, containers, images, h.Calls(), want)
		}
	}
}
