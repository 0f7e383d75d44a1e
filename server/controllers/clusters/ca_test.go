package clusters

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
)

// TestTheCAsAreRotated: what a host has made is remembered with the operation, by its hash, and named to those that start with it. A
// preview says what is then done, and begins nothing.
func TestTheCAsAreRotated(t *testing.T) {
	b := activeBed(t)
	asker := &etcdops.Service{State: b.state, Now: b.clock}
	ask := etcdops.Request{Kind: operations.KindRotateCA, By: "user-a"}
	draft, err := asker.Draft("fleet-default/harbour", ask)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := b.control.PreviewOperation(draft)
	if err != nil || len(b.state.OperationsOf("fleet-default/harbour")) != 0 {
		t.Fatalf("%v; the operations are %+v", err, b.state.OperationsOf("fleet-default/harbour"))
	}
	o, err := asker.Begin(t.Context(), "fleet-default/harbour", ask)
	if err != nil || o.Title != "give cluster harbour new CAs" {
		t.Fatal(err, o.Title)
	}
	hash := strings.Repeat("0a", 32)
	b.jobSays("guard", `{"file":"/d/before-rotate-ca-pier-1","size":7,"sha256":"aa"}`)
	b.jobSays("newcas", `{"ca":"`+hash+`"}`)
	for _, verb := range []string{"takecas", "reload"} {
		b.job(verb)
		if last := b.delivered().Instructions; !slices.Contains(last[len(last)-1].Args, hash) {
			t.Errorf("%s is not told which CAs they are: %q", verb, last[len(last)-1].Args[1:])
		}
	}
	b.job("tidy")
	ended := b.operation(o.ID, operations.Succeeded)
	var titles []string
	for _, task := range ended.Tasks {
		titles = append(titles, task.Title)
	}
	if !slices.Equal(titles, lines) {
		t.Errorf("the preview was %q, done was %q", lines, titles)
	}
	if r, err := steps.ReadRequest(ended); err != nil || r.CA != hash {
		t.Errorf("the operation remembers %+v, %v", r, err)
	}
}
