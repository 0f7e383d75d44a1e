package ui

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

func TestQuoted(t *testing.T) {
	for given, want := range map[string]string{"harbour": "harbour", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$(reboot)": "'$(reboot)'", "k=v:NoSchedule": "k=v:NoSchedule"} {
		if got := Quoted(given); got != want {
			t.Errorf("%q is quoted as %s, want %s", given, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for given, want := range map[time.Duration]string{0: "", -time.Hour: "", 7 * time.Second: "7s", 90 * time.Second: "1m30s", 25 * time.Hour: "1d1h", 3*time.Hour + 5*time.Minute: "3h5m"} {
		if got := span(given); got != want {
			t.Errorf("%v is %q, want %q", given, got, want)
		}
	}
}

func TestWith(t *testing.T) {
	q := Query{"/dashboard/clusters", url.Values{"q": {"a&b"}, "page": {"3"}, "seen": {"x"}, "state": {"active"}}}
	for _, c := range []struct {
		pairs []string
		want  string
	}{
		{nil, "/dashboard/clusters?q=a%26b&state=active"},
		{[]string{"state", ""}, "/dashboard/clusters?q=a%26b"},
		{[]string{"state", "", "q", ""}, "/dashboard/clusters"},
		{[]string{"page", "2"}, "/dashboard/clusters?page=2&q=a%26b&state=active"},
	} {
		if got := q.With(c.pairs...); got != c.want {
			t.Errorf("%v: %s, want %s", c.pairs, got, c.want)
		}
	}
}

// TestPicture: what is not well is in the picture however many machines there are, and the rest is a number.
func TestPicture(t *testing.T) {
	var machines []views.Machine
	for i := range 1000 {
		m := views.Machine{ID: fmt.Sprint("ns/m", i), NodeName: fmt.Sprintf("host-%04d", i), State: records.Active, Roles: records.Roles{Worker: true}}
		if i == 999 {
			m.State = records.Unavailable
		}
		machines = append(machines, m)
	}
	machines[0].Init, machines[1].Roles = true, records.Roles{Etcd: true}
	tiers := picture(machines)
	if len(tiers) != 3 || tiers[0].Title != "bootstrap" || tiers[1].Title != "etcd" || tiers[1].Small || len(tiers[0].Tiles) != 1 {
		t.Fatalf("%+v", tiers)
	}
	if w := tiers[2]; w.Tiles[0].Name != "host-0999" || !w.Small || len(w.Tiles) != mostTiles || w.More != 998-mostTiles {
		t.Errorf("%d tiles, first %+v, %d more", len(w.Tiles), w.Tiles[0], w.More)
	}
	if machines[999].State != records.Unavailable {
		t.Error("the machines were sorted in place")
	}
}

// TestTones: every state has the tone of what it means.
func TestTones(t *testing.T) {
	for state, want := range map[string]string{
		string(records.Active): "good", string(records.Failed): "bad", string(records.Disconnected): "bad", string(records.WaitingForProbes): "work", string(records.Registering): "rest",
		string(operations.Running): "work", string(operations.Queued): "rest", string(operations.Failed): "bad", string(operations.Succeeded): "good", "active": "good", "updating": "work", "pending": "rest",
	} {
		if got := tone(state); got != want {
			t.Errorf("%s is %s, want %s", state, got, want)
		}
	}
}
