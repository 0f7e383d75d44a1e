package native_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestPages: a list of drover's own API is cut where the query says, and says where it goes on.
func TestPages(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	b.AddMachines(cl, 25)
	var got []string
	next := ""
	for pages := 1; ; pages++ {
		r := b.Get("/v1-drover/machines?limit=10" + next)
		for _, m := range r.Data() {
			got = append(got, m["id"].(string))
		}
		if r.Body["total"] != 25.0 {
			t.Fatalf("total %v", r.Body["total"])
		}
		from := r.Text("continue")
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
		if r := b.Get("/v1-drover/machines?limit=" + limit); r.Status != 422 {
			t.Errorf("limit %s: %d", limit, r.Status)
		}
	}
}
