package registration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
)

// withFleet is a fixture with the fleet "edge" beside its clusters.
func withFleet(t *testing.T) *fixture {
	t.Helper()
	f := setUp(t, nil)
	edge := records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "edge", UID: "uid-edge"}, ID: "f-edge0000"}
	token := records.RegistrationToken{ClusterID: edge.ID, ClusterNamespace: edge.Namespace, ClusterName: edge.Name, Name: registration.DefaultToken, Token: "tokenofthefleet"}
	f.token["edge"] = token.Token
	if _, err := f.state.Store.Commit(t.Context(), f.state.Fleets.Creating(edge.Key(), edge), f.state.RegistrationTokens.Creating(token.Key(), token)); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRegistrationWithAFleet: the host becomes a machine of the fleet, with its labels and a plan Secret of its own.
func TestRegistrationWithAFleet(t *testing.T) {
	f := withFleet(t)
	a := f.register(t, "edge", map[string]string{"X-Cattle-Labels": "site=north", "X-Cattle-Node-Name": "edge-1"})
	if a.Status != http.StatusOK || a.Info.Namespace != records.FleetNamespace {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	key := records.NewMachineKey(records.FleetNamespace, "custom-"+machineHash)
	d, ok := f.state.Machines.Get(string(key))
	if !ok {
		t.Fatalf("there is no machine %s", key)
	}
	m := d.Value
	if !m.InFleet() || m.Cluster() != records.FleetKey("edge") || m.ClusterID != "f-edge0000" || m.Labels["site"] != "north" || m.Home() != "fleet edge" {
		t.Errorf("the machine is %+v", m)
	}
	secret, ok := f.state.PlanSecrets.Get(key.PlanSecret())
	if !ok || secret.Value.Cluster() != records.FleetKey("edge") {
		t.Errorf("its plan Secret is %+v, %v", secret.Value, ok)
	}
	if got, ok := f.MachineByToken(bearer(t, a)); !ok || got != key {
		t.Errorf("its token is that of %s, %v", got, ok)
	}
	if !f.KnowsToken("tokenofthefleet") {
		t.Error("the fleet's token is not known")
	}
	if _, err := f.ClusterByToken("tokenofthefleet"); err == nil || !strings.Contains(err.Error(), "fleet edge") {
		t.Errorf("a Docker host joins by the token of a fleet: %v", err)
	}
	if other := f.register(t, "lab", map[string]string{"X-Cattle-Role-Worker": "true"}); other.Status != http.StatusConflict || !strings.Contains(other.Message, "of fleet edge already and cannot join cluster lab too") {
		t.Errorf("a cluster takes it too: %d %s", other.Status, other.Message)
	}
}

func TestAFleetRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		shape  func(*records.Fleet)
		want   string
	}{
		"roles":          {header: map[string]string{"X-Cattle-Role-Worker": "true"}, want: "fleet edge is no cluster, and its machines have no roles: register without worker"},
		"taints":         {header: map[string]string{"X-Cattle-Taints": "a=b:NoSchedule"}, want: "taints are for the nodes of one"},
		"its removal":    {shape: func(e *records.Fleet) { e.Deleting = e.Created.AddDate(2026, 0, 0) }, want: "fleet edge is being removed"},
		"another's name": {shape: func(e *records.Fleet) { e.ID = "f-another0" }, want: "for another fleet, edge (f-edge0000), which does not exist any more"},
	} {
		t.Run(name, func(t *testing.T) {
			f := withFleet(t)
			if c.shape != nil {
				if _, err := f.state.Fleets.Modify(t.Context(), string(records.FleetKey("edge")), func(e records.Fleet) (records.Fleet, error) { c.shape(&e); return e, nil }); err != nil {
					t.Fatal(err)
				}
			}
			if a := f.register(t, "edge", c.header); a.Status < 400 || !strings.Contains(a.Message, c.want) {
				t.Errorf("%d %s, want %q", a.Status, a.Message, c.want)
			}
			if n := len(f.state.Machines.List()); n != 0 {
				t.Errorf("there are %d machines", n)
			}
		})
	}
}

// TestJoinCommandOfAFleet: a host joins by it without roles.
func TestJoinCommandOfAFleet(t *testing.T) {
	f := withFleet(t)
	join, err := f.JoinCommand("f-edge0000")
	if err != nil || !strings.Contains(join.Line, f.token["edge"]) {
		t.Errorf("%v: %s", err, join.Line)
	}
}
