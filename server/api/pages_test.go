package api

import (
	"net/url"
	"slices"
	"testing"
)

// TestPages: a list of drover's own API is cut where the query says, and says where it goes on.
func TestPages(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", nil)
	b.addMachines(cl, 25)
	var got []string
	next := ""
	for pages := 1; ; pages++ {
		r := b.get("/v1-drover/machines?limit=10" + next)
		for _, m := range r.data() {
			got = append(got, m["id"].(string))
		}
		if r.body["total"] != 25.0 {
			t.Fatalf("total %v", r.body["total"])
		}
		from := r.text("continue")
		if from == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		next = "&continue=" + url.QueryEscape(from)
	}
	if len(got) != 25 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 25 {
		t.Errorf("%d machines: %v", len(got), got)
	}
	for _, limit := range []string{"0", "-1", "x", "5001"} {
		if r := b.get("/v1-drover/machines?limit=" + limit); r.status != 422 {
			t.Errorf("limit %s: %d", limit, r.status)
		}
	}
}
