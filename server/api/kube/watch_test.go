package kube

import (
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
)

// TestEventOf: what a client is sent for a change, by what it has seen and what is there now.
func TestEventOf(t *testing.T) {
	const unknown = 0
	gone := struct{}{}
	for _, c := range []struct {
		name     string
		seen     int64 // of the object before; unknown is not in the map
		complete bool  // the watch began with a list
		now      int64 // revision of the object that is there; 0 for none
		label    string
		change   subscribe.Change
		want     string
		left     int64 // what is in seen afterwards
	}{
		{"made", unknown, true, 7, "a", subscribe.Change{Revision: 7, Created: true}, "ADDED", 7},
		{"changed", 5, true, 7, "a", subscribe.Change{Revision: 7}, "MODIFIED", 7},
		{"changed, of a client that listed before", unknown, false, 7, "a", subscribe.Change{Revision: 7}, "MODIFIED", 7},
		{"seen already", 7, true, 7, "a", subscribe.Change{Revision: 7}, "", 7},
		{"overtaken by a later change", 5, true, 9, "a", subscribe.Change{Revision: 7}, "", 5},
		{"made and overtaken", unknown, false, 9, "a", subscribe.Change{Revision: 7, Created: true}, "", hidden},
		{"the change that overtook", hidden, false, 9, "a", subscribe.Change{Revision: 9}, "ADDED", 9},
		{"gone before it was shown", 5, true, 0, "", subscribe.Change{Revision: 7}, "", 5},
		{"removed", 5, true, 0, "a", subscribe.Change{Revision: 7, Removed: gone}, "DELETED", hidden},
		{"removed and never shown", hidden, true, 0, "a", subscribe.Change{Revision: 7, Removed: gone}, "", hidden},
		{"removed, of a client that listed before", unknown, false, 0, "a", subscribe.Change{Revision: 7, Removed: gone}, "DELETED", hidden},
		{"removed, and never what the client asked for", unknown, false, 0, "b", subscribe.Change{Revision: 7, Removed: gone}, "", hidden},
		{"leaves the selector", 5, true, 7, "b", subscribe.Change{Revision: 7}, "DELETED", hidden},
		{"comes into the selector", hidden, true, 7, "a", subscribe.Change{Revision: 7}, "ADDED", 7},
		{"stays outside", hidden, true, 7, "b", subscribe.Change{Revision: 7}, "", hidden},
		{"may have left the selector", unknown, false, 7, "b", subscribe.Change{Revision: 7}, "DELETED", hidden},
		{"was made outside", unknown, false, 7, "b", subscribe.Change{Revision: 7, Created: true}, "", hidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := func(revision int64) object {
				return object{key: "n/o", may: auth.OfCluster("o"), revision: revision, content: map[string]any{"metadata": map[string]any{"name": "o", "namespace": "n", "labels": map[string]any{"l": c.label}}}}
			}
			r := &Resource{Definition: definitionOf("provisioning.cattle.io", "clusters")}
			r.get = func(string) (object, bool) { return of(c.now), c.now > 0 }
			r.changed = func(change subscribe.Change) (string, *object, bool) {
				if change.Removed == nil {
					return "n/o", nil, true
				}
				last := of(5)
				return "n/o", &last, true
			}
			w := &watcher{
				Resource: r, seen: map[string]int64{}, complete: c.complete, query: listing.Options{Labels: labels.SelectorFromSet(labels.Set{"l": "a"})},
				call: &route.Call{R: httptest.NewRequest("GET", "/", nil), Who: auth.Identity{UserID: "u", Admin: true}},
			}
			if c.seen != unknown {
				w.seen["n/o"] = c.seen
			}
			e, sent := w.eventOf(c.change)
			if e.kind != c.want || sent != (c.want != "") || w.seen["n/o"] != c.left {
				t.Errorf("%q, and then %d; want %q, %d", e.kind, w.seen["n/o"], c.want, c.left)
			}
			if e.kind == "DELETED" && c.change.Removed != nil && e.object.text("resourceVersion") != "7" {
				t.Errorf("removed at %s", e.object.text("resourceVersion"))
			}
		})
	}
}

// TestLostSight: a watcher that may not see an object any more is left with its name.
func TestLostSight(t *testing.T) {
	r := &Resource{Definition: definitionOf("provisioning.cattle.io", "clusters")}
	o := object{key: "n/o", may: auth.OfCluster("o"), revision: 7, cells: []any{"o", "secret"}, content: map[string]any{"kind": "Cluster", "metadata": map[string]any{"name": "o", "namespace": "n"}, "spec": "secret"}}
	r.get = func(string) (object, bool) { return o, true }
	r.changed = func(subscribe.Change) (string, *object, bool) { return "n/o", nil, true }
	w := &watcher{Resource: r, seen: map[string]int64{"n/o": 5}, call: &route.Call{R: httptest.NewRequest("GET", "/", nil), Who: auth.Identity{UserID: "u"}}}
	e, _ := w.eventOf(subscribe.Change{Revision: 7})
	if e.kind != "DELETED" || e.object.content["spec"] != nil || e.object.text("name") != "o" || e.object.cells[1] != "" {
		t.Errorf("%+v", e)
	}
}
