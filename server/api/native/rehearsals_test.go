package native_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestScheduleOfRehearsals is set, shown with what it waits for and how the last one ended, refused with a sentence, and ended.
func TestScheduleOfRehearsals(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const path = "/v1-drover/clusters/fleet-default/harbour/rehearsals"
	if _, err := b.State.Fleets.Create(t.Context(), "drover-fleets/spare", records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "spare"}, ID: "f-spare000"}); err != nil {
		t.Fatal(err)
	}
	if r := b.Get(path); r.Text("type") != "rehearsals" || r.Body["every"] != nil || r.Body["next"] != nil {
		t.Errorf("without one: %s", r.Raw)
	}
	if _, err := b.State.ClusterSecrets.Create(t.Context(), "fleet-default/harbour", records.ClusterSecrets{ServerToken: "word"}); err != nil {
		t.Fatal(err)
	}
	for want, body := range map[string]string{
		"the body is not of the form": `[]`, "every is missing": `{"fleet": "spare"}`, "on which fleet?": `{"every": "24h"}`, `"daily" is not a time such as 24h`: `{"every": "daily", "fleet": "spare"}`,
		`"-1h" is not a time`: `{"every": "-1h", "fleet": "spare"}`, `there is no fleet "none"`: `{"every": "24h", "fleet": "none"}`, "a rehearsal every 1s is not possible": `{"every": "1s", "fleet": "spare"}`,
		"a fleet without a time": `{"every": "", "fleet": "spare"}`, `"by" is neither`: `{"every": "24h", "fleet": "spare", "by": "x"}`, "every is missing; an empty one": `null`,
	} {
		if r := b.Want(http.StatusUnprocessableEntity, "POST", path+"/set", body); !strings.Contains(r.Text("message"), want) {
			t.Errorf("%s: %s", body, r.Raw)
		}
	}
	for _, c := range []struct {
		token string
		want  int
	}{{"", 401}, {b.User, 404}, {b.Token("user-admin", records.Token{ClusterID: "c-m-h4rb0r55"}), 401}} {
		if r := b.Request("POST", path+"/set", c.token, `{"every": "24h", "fleet": "spare"}`); r.Status != c.want {
			t.Errorf("%q: %d %s", c.token, r.Status, r.Raw)
		}
	}
	if n := len(b.State.Rehearsals.List()); n != 0 {
		t.Fatalf("%d schedules are kept", n)
	}
	shown := func(r apibed.Result) (is apitypes.Rehearsals) {
		t.Helper()
		if err := json.Unmarshal(r.Raw, &is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	is := shown(b.Want(http.StatusOK, "POST", path+"/set", `{"every": "36h", "fleet": "spare"}`))
	want := apitypes.Rehearsals{Type: "rehearsals", Every: "36h0m0s", Fleet: "spare", By: "user-admin", Since: is.Since, Next: is.Since, Waits: "cluster harbour has no snapshot"}
	if diff := cmp.Diff(want, is); diff != "" || is.Since.IsZero() {
		t.Error(diff)
	}
	end := records.RehearsalEnd{Operation: "op-1", State: "succeeded", At: is.Since, Snapshot: "one", Machine: "s1", Counted: "3 nodes, 412 objects"}
	if _, err := b.State.Rehearsals.Modify(t.Context(), "fleet-default/harbour", func(r records.Rehearsals) (records.Rehearsals, error) { r.Last, r.Good = &end, &end; return r, nil }); err != nil {
		t.Fatal(err)
	}
	want.Next, want.Waits, want.Last, want.Good = is.Since.Add(36*time.Hour), "", &end, &end
	if diff := cmp.Diff(want, shown(b.Get(path))); diff != "" {
		t.Error(diff)
	}
	if events := fmt.Sprint(b.Get("/v1-drover/events?cluster=c-m-h4rb0r55&limit=1000").Data()); !strings.Contains(events, "kind:rehearsal") || !strings.Contains(events, "3 nodes, 412 objects") {
		t.Errorf("events are %s", events)
	}
	is = shown(b.Want(http.StatusOK, "POST", path+"/set", `{"every": ""}`))
	if diff := cmp.Diff(apitypes.Rehearsals{Type: "rehearsals", Last: &end, Good: &end}, is); diff != "" {
		t.Error(diff)
	}
	b.Want(http.StatusNotFound, "GET", "/v1-drover/clusters/fleet-default/none/rehearsals", "")
}
