package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/drover-project/drover/rke1/config"
)

// A run that changes nothing asks each host once for what it is, what runs there and what lies there. Over SSH every call of Docker's API costs a
// round trip, and three hosts are to be through in five seconds.
func TestCallsOfARunThatChangesNothing(t *testing.T) {
	y, first, _ := deployedYard(t, yml)
	if err := first.deployFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := newRun(y.o, y.work)
	t.Cleanup(r.close)
	r.state = y.work.Before
	if err := errors.Join(r.reach(t.Context()), r.compare(t.Context()), r.checkHosts(t.Context()), r.pullImages(t.Context()), r.deployFiles(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.with("") {
		if todo := r.differences(h, config.RoleEtcd, config.RoleControlPlane, config.RoleWorker); len(todo) > 0 {
			t.Errorf("%s: %v", h.node.Address, todo)
		}
		containers, images := len(h.found.Containers), len(slices.Compact(slices.Sorted(slices.Values(h.desired.Images))))
		// Version and engine; the list of containers and each of them; each image; a container for the files, which is made, read and removed.
		if want := int64(2 + 1 + containers + images + 3); h.Calls() != want {
			t.Errorf("host %s with %d containers of %d images: %d calls, want %d", h.node.Address, containers, images, h.Calls(), want)
		}
	}
}
