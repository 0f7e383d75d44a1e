package packaging

// A host that registers again, at the registration of a real server.

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const proofHeader = "X-Drover-Machine-Proof"

// registering has the server register hosts as a drover server does.
func registering(t *testing.T, s *server) (*registration.Registration, *state.State) {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	cluster := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "uid"}, ID: "c-m-h4rb0r55",
		Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
	}
	token := registration.NewToken(cluster, registration.DefaultToken, time.Now())
	token.Token = testToken
	if _, err := st.Store.Commit(t.Context(), st.Clusters.Creating(cluster.Key(), cluster), st.RegistrationTokens.Creating(token.Key(), token)); err != nil {
		t.Fatal(err)
	}
	g := registration.New(registration.Options{
		State: st, Settings: settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: s.URL, CACerts: string(s.ca.pem)}),
	})
	mux := http.NewServeMux()
	g.Routes(mux)
	answers := make([]http.HandlerFunc, 20)
	for i := range answers {
		answers[i] = mux.ServeHTTP
	}
	s.on("/v3/connect/agent", answers...)
	return g, st
}

// TestTheSameHostRegistersAgain: the host of a machine proves that it has the machine's token,
// wherever its agent keeps it; another host with the same id is refused until the owner allows it.
func TestTheSameHostRegistersAgain(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	g, st := registering(t, s)
	h, other := newHost(t, shells(t)[0]), newHost(t, shells(t)[0])
	h.mustJoin(s, "--worker")
	if got := s.last("/v3/connect/agent").Get(proofHeader); got != "" {
		t.Errorf("a new host proves %q", got)
	}
	machine := st.Machines.List()[0].Value
	if _, err := st.Machines.Modify(t.Context(), machine.Key(), func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.WaitingForPlan // its agent has connected
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}

	other.env = append(other.env, "CATTLE_ID="+machine.MachineID)
	wantRefusal(t, other.join(s, "--worker"), "machine "+machine.Name+" has a host already", "`drover machines rejoin "+machine.Name+"`", "not installed")

	h.env = append(h.env, "DEBUG=1")
	for range 2 {
		res := h.mustJoin(s, "--worker")
		proof := s.last("/v3/connect/agent").Get(proofHeader)
		if len(proof) != 64 {
			t.Errorf("the host proves %q", proof)
		}
		for _, text := range append(h.logged("curl"), res.stdout, res.stderr) {
			if strings.Contains(text, "drover-machine.") || strings.Contains(text, proof) {
				t.Errorf("the machine's token, or the proof of it, is visible: %.300s", text)
			}
		}
	}
	// As an operator keeps it elsewhere.
	elsewhere := "/srv/agent/connection.json"
	h.write(h.root+elsewhere, h.read("/var/lib/rancher/agent/rancher2_connection_info.json"), 0o600)
	h.write(h.root+"/var/lib/rancher/agent/rancher2_connection_info.json", "{}", 0o600)
	config := filepath.Join(h.root, "/var/lib/rancher/system-agent/etc/config.yaml")
	h.write(config, "remoteEnabled: true\nconnectionInfoFile: \""+elsewhere+"\"\n", 0o600)
	h.mustJoin(s, "--worker")

	if _, err := g.AllowRejoin(t.Context(), machine.Key()); err != nil {
		t.Fatal(err)
	}
	other.mustJoin(s, "--worker")
}
