package registration_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	serverURL = "https://drover.example:8443"
	caPEM     = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	machineID = "f1d2d2f924e986ac86fdf7b36c94bcdf32beec15f1d2d2f924e986ac86fdf7b"
)

// clock is a time that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a registration over a real store with two clusters, "lab" and "other".
type fixture struct {
	*registration.Registration
	state    *state.State
	settings *settings.Settings
	clock    *clock
	server   *httptest.Server
	token    map[string]string // registration token by cluster name
}

func setUp(t *testing.T, assets fstest.MapFS) *fixture {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		state:    st,
		settings: settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: serverURL, CACerts: caPEM, Version: "v0.1.0"}),
		clock:    &clock{now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)},
		token:    map[string]string{},
	}
	o := registration.Options{State: st, Settings: f.settings, Now: f.clock.Now}
	if assets != nil {
		o.Assets = assets
	}
	f.Registration = registration.New(o)
	mux := http.NewServeMux()
	f.Routes(mux)
	f.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		f.server.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	for id, name := range map[string]string{"c-m-lab00000": "lab", "c-m-other000": "other"} {
		f.addCluster(t, id, name)
	}
	return f
}

func (f *fixture) addCluster(t *testing.T, id, name string) {
	t.Helper()
	c := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: name, UID: "uid-" + name},
		ID:     id,
		Spec:   clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
	}
	token := registration.NewToken(c, registration.DefaultToken, f.clock.Now())
	f.token[name] = token.Token
	if _, err := f.state.Store.Commit(t.Context(), f.state.Clusters.Creating(c.Key(), c), f.state.RegistrationTokens.Creating(token.Key(), token)); err != nil {
		t.Fatal(err)
	}
}

// deliver gives the machine's plan Secret a plan, as the cluster controller does.
func (f *fixture) deliver(t *testing.T, secretKey string) {
	t.Helper()
	_, err := f.state.PlanSecrets.Modify(t.Context(), secretKey, func(s records.PlanSecret) (records.PlanSecret, error) {
		s.Data = map[string][]byte{"plan": []byte("{}"), "plan-state": []byte("pending")}
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// answer is what a request got.
type answer struct {
	Status  int
	Header  http.Header
	Body    string
	Message string // of an error
	Info    struct{ Namespace, SecretName, KubeConfig, TunnelURL string }
}

func (f *fixture) get(t *testing.T, method, path string, header map[string]string) answer {
	t.Helper()
	a, err := f.try(t.Context(), method, path, header)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// try is get for goroutines, which must not end the test.
func (f *fixture) try(ctx context.Context, method, path string, header map[string]string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, f.server.URL+path, nil)
	if err != nil {
		return answer{}, err
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	res, err := f.server.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		var envelope struct{ Type, Message string }
		if err := errors.Join(json.Unmarshal(body, &a.Info), json.Unmarshal(body, &envelope)); err != nil {
			return answer{}, err
		}
		a.Message = envelope.Message
	}
	return a, nil
}

// register registers with the token of a cluster and these headers beside the machine id.
func (f *fixture) register(t *testing.T, cluster string, header map[string]string) answer {
	t.Helper()
	return f.get(t, http.MethodGet, "/v3/connect/agent", f.headers(cluster, header))
}

func (f *fixture) headers(cluster string, header map[string]string) map[string]string {
	all := map[string]string{"Authorization": "Bearer " + f.token[cluster], "X-Cattle-Id": machineID}
	maps.Copy(all, header)
	return all
}

// bearer is the machine token of a registration's kubeconfig.
func bearer(t *testing.T, a answer) string {
	t.Helper()
	_, rest, ok := strings.Cut(a.Info.KubeConfig, "token: ")
	if !ok {
		t.Fatalf("no token in %q", a.Info.KubeConfig)
	}
	token, _, _ := strings.Cut(rest, "\n")
	return token
}

const machineKey = "fleet-default/custom-" + machineHash

// machineHash begins the SHA-256 of machineID.
const machineHash = "bddca9895000"

func (f *fixture) machine(t *testing.T) records.Machine {
	t.Helper()
	d, ok := f.state.Machines.Get(machineKey)
	if !ok {
		t.Fatalf("there is no machine %s", machineKey)
	}
	return d.Value
}

// TestHealthzVerbose: what the server believes of itself and of the request.
func TestHealthzVerbose(t *testing.T) {
	f := setUp(t, nil)
	for target, want := range map[string]string{
		"/healthz":         "ok",
		"/healthz?verbose": "[+]store ok\nserver-url " + serverURL + "\nthis request came by http to host \"example.com\"\nok\n",
	} {
		w := httptest.NewRecorder()
		mux := http.NewServeMux()
		f.Routes(mux)
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Body.String() != want {
			t.Errorf("%s: %q, want %q", target, w.Body, want)
		}
	}
}
