package clusteragents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/server/clusteragents"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const office, harbour = "fleet-default/office", "fleet-default/harbour"

// bed is a store with two clusters: office, which is imported, and harbour, which the server provisions.
type bed struct {
	*testing.T
	state  *state.State
	agents *clusteragents.Agents
}

func newBed(t *testing.T) *bed {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]records.Cluster{
		office:  {Object: records.Object{Namespace: "fleet-default", Name: "office"}, ID: "c-abcde"},
		harbour: {Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-abcdefgh", Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}}},
	} {
		if _, err := s.Clusters.Create(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
	}
	set := settings.New(s.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: "https://drover.example.com", CACerts: "PEM\n", Version: "v1.0.0"})
	agents := clusteragents.New(clusteragents.Options{State: s, Settings: set, Now: time.Now, Logger: log})
	t.Cleanup(func() {
		agents.Close()
		_ = s.Close()
	})
	return &bed{t, s, agents}
}

// authority is a new one, in PEM.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// kubernetesAPI is the API of a cluster that takes what is applied, and writes down what was asked.
type kubernetesAPI struct {
	mu      sync.Mutex
	actions []string
	applied map[string]map[string]any
	ca      string
	fail    string // the path that fails
}

func (k *kubernetesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet {
		k.actions = append(k.actions, r.Method+" "+r.URL.Path)
	}
	switch {
	case k.fail != "" && strings.HasPrefix(r.URL.Path, k.fail):
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden by a rule"}`)
	case r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply"):
		var o map[string]any
		if json.NewDecoder(r.Body).Decode(&o) != nil || r.URL.Query().Get("fieldManager") != "drover" || r.URL.Query().Get("force") != "true" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		k.applied[r.URL.Path] = o
		_ = json.NewEncoder(w).Encode(o)
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		k.actions[len(k.actions)-1] += " " + string(body)
		_, _ = io.WriteString(w, `{}`)
	case r.URL.Path == "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt":
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": map[string]string{"ca.crt": k.ca}})
	case r.URL.Path == "/api/v1/namespaces/cattle-system":
		_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"cattle-system","uid":"namespace-uid"}}`)
	default:
		http.NotFound(w, r)
	}
}

func (k *kubernetesAPI) done() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.actions)
}

// controller works on a cluster by its API.
func (b *bed) controller(api *kubernetesAPI) (*Controller, kubernetes.Interface) {
	b.Helper()
	web := httptest.NewServer(api)
	b.Cleanup(web.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: web.URL})
	if err != nil {
		b.Fatal(err)
	}
	own := func(records.ClusterKey) []byte { api.mu.Lock(); defer api.mu.Unlock(); return []byte(api.ca) }
	cleared := func(context.Context, records.ClusterKey, kubernetes.Interface) error {
		api.mu.Lock()
		defer api.mu.Unlock()
		api.actions = append(api.actions, "people")
		return nil
	}
	return &Controller{Agents: b.agents, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return client, nil }, Authority: own, Clear: cleared}, client
}

func newAPI(t *testing.T) *kubernetesAPI {
	return &kubernetesAPI{applied: map[string]map[string]any{}, ca: authority(t)}
}

func (b *bed) token(id string) {
	b.Helper()
	token := records.RegistrationToken{ClusterID: id, Name: "default-token", Token: "tok123"}
	if _, err := b.state.RegistrationTokens.Create(b.Context(), token.Key(), token); err != nil {
		b.Fatal(err)
	}
}

func TestWhatAClusterIsToHave(t *testing.T) {
	imported := records.Cluster{}
	provisioned := records.Cluster{Spec: clusterspec.Spec{KubernetesVersion: "v1", RKEConfig: &clusterspec.RKEConfig{}}, Status: records.ClusterStatus{Initialized: true}}
	with := func(c records.Cluster, change func(*records.Cluster)) records.Cluster { change(&c); return c }
	leaving := func(c *records.Cluster) { c.Deleting = time.Unix(1, 0); c.Leave.Uninstall = true }
	come := records.ClusterAgent{Address: "a:1", Token: "t"}
	for _, tc := range []struct {
		name    string
		cluster records.Cluster
		agent   *records.ClusterAgent
		setting string
		want    want
	}{
		{"an import whose agent has come", imported, &come, Imported, deploying},
		{"an import without an agent", imported, nil, All, nothing},
		{"an import that leaves", with(imported, leaving), &come, Imported, cleaning},
		{"an import that is clean", with(imported, leaving), &records.ClusterAgent{Cleaned: time.Unix(1, 0)}, Imported, nothing},
		{"an import that is forgotten", with(imported, func(c *records.Cluster) { c.Deleting = time.Unix(1, 0) }), &come, Imported, nothing},
		{"a provisioned cluster", provisioned, nil, Imported, nothing},
		{"a provisioned cluster that is to have one", provisioned, nil, All, deploying},
		{"one that was never up", with(provisioned, func(c *records.Cluster) { c.Status.Initialized = false }), nil, All, nothing},
		{"one that is paused", with(provisioned, func(c *records.Cluster) { c.Paused = &records.Pause{} }), nil, All, nothing},
		{"one that was exported", with(provisioned, func(c *records.Cluster) { c.Exported = &records.Exported{} }), nil, All, nothing},
		{"one that leaves", with(provisioned, leaving), nil, All, nothing},
	} {
		var is records.ClusterAgent
		if tc.agent != nil {
			is = *tc.agent
		}
		if got := wants(tc.cluster, tc.agent != nil, is, tc.setting); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestAProvisionedClusterGetsItsAgent, whose authority is known before it comes.
func TestAProvisionedClusterGetsItsAgent(t *testing.T) {
	b := newBed(t)
	b.token("c-m-abcdefgh")
	api := newAPI(t)
	k, client := b.controller(api)
	cluster, _ := b.state.Clusters.Get(harbour)
	if err := k.deploy(t.Context(), cluster.Value, client); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/v1/namespaces/cattle-system", "/api/v1/namespaces/cattle-system/serviceaccounts/cattle", "/api/v1/namespaces/cattle-system/services/cattle-cluster-agent",
		"/apis/apps/v1/namespaces/cattle-system/deployments/cattle-cluster-agent", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cattle-admin",
	} {
		if api.applied[path] == nil {
			t.Errorf("%s was not applied; applied were %v", path, api.done())
		}
	}
	for path := range api.applied {
		if !strings.Contains(path, "/cattle-system") && !strings.Contains(path, "clusterrole") {
			t.Errorf("%s is not the server's own", path)
		}
	}
	before := len(api.done())
	if err := k.deploy(t.Context(), cluster.Value, client); err != nil || len(api.done()) != before {
		t.Errorf("deployed again though nothing changed: %v", err)
	}
	last := k.done[harbour]
	last.at = last.at.Add(-repairEvery)
	k.done[harbour] = last
	if err := k.deploy(t.Context(), cluster.Value, client); err != nil || len(api.done()) != 2*before {
		t.Errorf("what somebody may have changed is not put back: %v", err)
	}
	if err := b.agents.Settings.Set(t.Context(), "agent-image", "drover/rancher-agent:next"); err != nil {
		t.Fatal(err)
	}
	if err := k.deploy(t.Context(), cluster.Value, client); err != nil || len(api.done()) != 3*before {
		t.Errorf("another image is not deployed at once: %v", err)
	}
	if d, ok := b.state.ClusterAgents.Get(harbour); !ok || d.Value.CA != api.ca || d.Value.Ready() {
		t.Errorf("known of its agent: %+v", d.Value)
	}
	is, _ := b.state.ClusterAgents.Get(harbour)
	if is.Value.Secret == "" || is.Value.Secret == "tok123" {
		t.Errorf("the agent is deployed with the token %q, by which hosts join", is.Value.Secret)
	}
}

// TestAnImportedClusterSaysItsNextAuthority, which is pinned beside the one before; another Kubernetes' bundle is not.
func TestAnImportedClusterSaysItsNextAuthority(t *testing.T) {
	b := newBed(t)
	b.token("c-abcde")
	api := newAPI(t)
	k, client := b.controller(api)
	old, next := api.ca, authority(t)
	if _, err := b.state.ClusterAgents.Create(t.Context(), office, records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: old}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ says, want string }{{next, old}, {old + next, old + next}, {"", old + next}} {
		api.mu.Lock()
		api.ca = step.says
		api.mu.Unlock()
		if err := k.follow(t.Context(), office, client); err != nil {
			t.Fatal(err)
		}
		if is, _ := b.state.ClusterAgents.Get(office); is.Value.CA != step.want {
			t.Errorf("pinned:\n%s", is.Value.CA)
		}
	}
}

func TestAnImportedClusterIsLeftClean(t *testing.T) {
	b := newBed(t)
	api := newAPI(t)
	k, client := b.controller(api)
	if _, err := b.state.ClusterAgents.Create(t.Context(), office, records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: api.ca}); err != nil {
		t.Fatal(err)
	}
	cluster, _ := b.state.Clusters.Get(office)
	api.fail = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cattle-admin"
	if err := k.clean(t.Context(), cluster.Value, client); err == nil || !strings.Contains(err.Error(), "forbidden by a rule") {
		t.Errorf("what cannot be removed: %v", err)
	}
	if slices.ContainsFunc(api.done(), func(s string) bool { return strings.HasPrefix(s, http.MethodDelete) }) {
		t.Error("the way in was removed before what needs it")
	}
	if d, _ := b.state.ClusterAgents.Get(office); !d.Value.Cleaned.IsZero() {
		t.Error("it counts as clean")
	}
	api.fail, api.actions = "", nil
	if err := k.clean(t.Context(), cluster.Value, client); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	did := api.done()
	if len(did) != 6 || did[0] != "people" || did[5] != "DELETE /api/v1/namespaces/cattle-system" {
		t.Errorf("done: %v", did)
	}
	for _, one := range did[1:5] {
		if !strings.HasPrefix(one, "PATCH /apis/rbac.authorization.k8s.io/v1/clusterrole") || !strings.Contains(one, `"uid":"namespace-uid"`) {
			t.Errorf("%s does not end with the namespace", one)
		}
	}
	if d, _ := b.state.ClusterAgents.Get(office); d.Value.Cleaned.IsZero() {
		t.Error("it does not count as clean")
	}
}

// TestWhatIsDoneStays done, however often the cluster is looked at, until it is time to put back what was changed there.
func TestWhatIsDoneStays(t *testing.T) {
	b := newBed(t)
	b.token("c-abcde")
	api := newAPI(t)
	k, _ := b.controller(api)
	if _, err := b.state.ClusterAgents.Create(t.Context(), office, records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: api.ca}); err != nil {
		t.Fatal(err)
	}
	look := func() {
		for range 2 {
			if _, err := k.reconcile(t.Context(), office); err != nil {
				t.Fatal(err)
			}
		}
	}
	look()
	once := len(api.done())
	if once == 0 || once != len(api.applied) {
		t.Errorf("%d objects were applied in %d requests", len(api.applied), once)
	}
	k.done = map[records.ClusterKey]kept{}
	if look(); len(api.done()) != 2*once {
		t.Errorf("the next time made %d requests of %d", len(api.done())-once, once)
	}
}

// TestTheLeaderWorks: what is due is done while it leads.
func TestTheLeaderWorks(t *testing.T) {
	b := newBed(t)
	b.token("c-abcde")
	api := newAPI(t)
	k, _ := b.controller(api)
	old := api.ca
	api.ca += authority(t)
	if _, err := b.state.ClusterAgents.Create(t.Context(), office, records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: old}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, wait := reconcile.Begin(ctx, k.Worker(), slog.New(slog.DiscardHandler))
	for limit := time.Now().Add(time.Minute); len(api.done()) < 10; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("done: %v", api.done())
		}
	}
	cancel()
	wait()
	if _, ok := api.applied["/api/v1/namespaces/cattle-system/secrets/cattle-credentials-0eee7d87b5"]; !ok {
		t.Error("the credentials are not those of the manifest that people apply, so that applying it again would restart the agent")
	}
	if is, _ := b.state.ClusterAgents.Get(office); is.Value.CA != api.ca {
		t.Error("the authority that the cluster has beside the one before is not pinned")
	}
}

// TestAClusterThatIsNotReached is a wait.
func TestAClusterThatIsNotReached(t *testing.T) {
	b := newBed(t)
	b.token("c-abcde")
	k, _ := b.controller(newAPI(t))
	k.Client = func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }
	if _, err := b.state.ClusterAgents.Create(t.Context(), office, records.ClusterAgent{Address: "10.43.0.1:443", Token: "t"}); err != nil {
		t.Fatal(err)
	}
	if r, err := k.reconcile(t.Context(), office); err != nil || r.After != lookEvery || r.Wait == nil || r.Wait.Cause != "no tunnel" {
		t.Errorf("%+v, %v", r, err)
	}
}

// queued are the keys that watches add.
type queued chan string

func (q queued) Add(key string)   { q <- key }
func (q queued) Hurry(key string) { q <- key }
func (q queued) AddAll()          { q <- "all" }

// TestATokenIsOfOneCluster: each new cluster has one, and thousands that are made together do not have all clusters looked at each time.
func TestATokenIsOfOneCluster(t *testing.T) {
	b := newBed(t)
	k, _ := b.controller(newAPI(t))
	q := make(queued, 100)
	for _, w := range k.watches() {
		defer w.Start(q)()
	}
	token := records.RegistrationToken{ClusterID: "c-abcde", ClusterNamespace: "fleet-default", ClusterName: "office", Name: "default-token", Token: "tok123"}
	if _, err := b.state.RegistrationTokens.Create(t.Context(), token.Key(), token); err != nil {
		t.Fatal(err)
	}
	if err := b.state.RegistrationTokens.Delete(t.Context(), token.Key(), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if key := <-q; key != "fleet-default/office" {
			t.Errorf("%s is looked at", key)
		}
	}
}
