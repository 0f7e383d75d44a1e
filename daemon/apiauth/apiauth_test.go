package apiauth

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/clusterauth"
)

// cluster is an API with a record of what was asked of it.
type cluster struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]any // by path
	asked   []string
	patched chan string
	status  int // of every answer, unless it is 0
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{objects: map[string]any{}, patched: make(chan string, 10)}
	c.Server = httptest.NewTLSServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	object := c.objects[r.URL.Path]
	switch {
	case r.Header.Get("Authorization") != "Bearer account":
		w.WriteHeader(http.StatusUnauthorized)
	case c.status != 0:
		w.WriteHeader(c.status)
	case object == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPatch:
		c.patched <- r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] + " " + r.Header.Get("Content-Type") + " " + string(body)
		fallthrough
	default:
		json.NewEncoder(w).Encode(object)
	}
}

// has gives ann a token.
func (c *cluster) has() {
	c.objects[clusterauth.Path(clusterauth.Tokens, "token-1")] = clusterauth.Token{UserName: "u-ann01", Enabled: true}
	c.objects[clusterauth.Path(clusterauth.Users, "u-ann01")] = clusterauth.User{Enabled: true, Groups: []string{"team://1"}, LastRefresh: "2026-11-23T11:00:00Z"}
	c.objects["/api/v1/namespaces/cattle-system/secrets/token-1"] = map[string]any{"data": map[string][]byte{"hash": []byte(clusterauth.Hash(key))}}
}

func (c *cluster) options() Options {
	return Options{
		Cluster: &Cluster{URL: c.URL, Client: c.Client(), Token: func() (string, error) { return "account", nil }},
		Logger:  slog.New(slog.DiscardHandler), Now: func() time.Time { return noon },
	}
}

// run runs the webhook and returns its URL.
func (c *cluster) run(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	o := c.options()
	o.Listen = []string{address, "203.0.113.1:6440"} // which this host does not have
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the webhook ended with %v", err)
		}
	})
	free.Close() // the pod of before has gone: the address is free only now
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get("http://" + address + HealthPath); err == nil {
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK || string(body) != "ok" {
				t.Fatalf("health: %s %s", answer.Status, body)
			}
			return "http://" + address + ReviewPath
		}
		if time.Now().After(end) {
			t.Fatal("nobody answers")
		}
	}
}

func ask(t *testing.T, url, body string) (int, string) {
	t.Helper()
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

// question is what a kube-apiserver of Kubernetes 1.34 sends.
func question(version, token string) string {
	return fmt.Sprintf(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/%s","metadata":{"creationTimestamp":null},"spec":{"token":%q,"audiences":["https://kubernetes.default.svc.cluster.local","k3s"]},"status":{"user":{}}}`+"\n", version, token)
}

func TestReviews(t *testing.T) {
	c := newCluster(t)
	c.has()
	url := c.run(t)
	for _, version := range []string{"v1", "v1beta1"} {
		want := `{"apiVersion":"authentication.k8s.io/` + version + `","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"u-ann01","uid":"u-ann01",` +
			`"groups":["team://1","system:cattle:authenticated"],"extra":{"principalid":["local://u-ann01"],"requesttokenid":["token-1"]}}}}`
		if code, got := ask(t, url, question(version, "token-1:"+key)); code != http.StatusOK || got != want {
			t.Errorf("%s: %d %s\nwant %s", version, code, got, want)
		}
	}
	for token, want := range map[string]string{
		"token-1:wrong":     "token token-1: the key of the token is wrong",
		"token-2:" + key:    "token token-2 is unknown in this cluster",
		"eyJh.eyJp.c2ln":    "it is not of the form",
		"../../../x:" + key: "it is not of the form",
	} {
		code, got := ask(t, url, question("v1beta1", token))
		var a answer
		if err := json.Unmarshal([]byte(got), &a); err != nil || code != http.StatusOK || a.Status.Authenticated || a.Status.User != nil ||
			!strings.HasPrefix(a.Status.Error, want) || strings.Contains(got, key) {
			t.Errorf("%s: %d %s, want %s", token, code, got, want)
		}
	}
	for _, bad := range []string{
		"", "{", "[]", `{"kind":"TokenReview"}`, `{"kind":"Pod","apiVersion":"v1","spec":{"token":"a:b"}}`, `{"kind":"TokenReview","apiVersion":"v1","spec":{"token":"a:b"}}`,
		`{"kind":"TokenReview","spec":{"token":"` + strings.Repeat("a", maxReview) + `"}}`,
	} {
		if code, got := ask(t, url, bad); code != http.StatusBadRequest {
			t.Errorf("%.40q: %d %s", bad, code, got)
		}
	}
	if answer, err := http.Get(url); err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v %v", answer, err)
	}
}

// What is asked of the cluster for texts that are no tokens: nothing.
func TestStrangersCostNothing(t *testing.T) {
	c := newCluster(t)
	url := c.run(t)
	ask(t, url, question("v1", "eyJh.eyJp.c2ln"))
	if len(c.asked) > 0 {
		t.Errorf("asked %v", c.asked)
	}
}

func TestAClusterThatDoesNotAnswer(t *testing.T) {
	c := newCluster(t)
	c.has()
	url := c.run(t)
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusUnauthorized} {
		c.mu.Lock()
		c.status = status
		c.mu.Unlock()
		code, got := ask(t, url, question("v1", "token-1:"+key))
		if code != http.StatusOK || !strings.Contains(got, `"authenticated":false`) || !strings.Contains(got, fmt.Sprint(status)) || strings.Contains(got, key) {
			t.Errorf("%d: %d %s", status, code, got)
		}
	}
	c.mu.Lock()
	c.status = 0
	c.mu.Unlock()
	if _, got := ask(t, url, question("v1", "token-1:"+key)); !strings.Contains(got, `"authenticated":true`) {
		t.Errorf("after that: %s", got)
	}
}

func TestUsesAreNoted(t *testing.T) {
	c := newCluster(t)
	c.has()
	c.objects["/api/v1/namespaces/cattle-system/configmaps/"+clusterauth.Debounce] = map[string]any{"data": map[string]string{"value": "300"}}
	url := c.run(t)
	if _, got := ask(t, url, question("v1", "token-1:wrong")); strings.Contains(got, `"authenticated":true`) {
		t.Fatal(got)
	}
	ask(t, url, question("v1", "token-1:"+key))
	got := []string{<-c.patched, <-c.patched}
	want := []string{`token-1 application/merge-patch+json {"lastUsedAt":"2026-11-23T12:00:00Z"}`, `u-ann01 application/merge-patch+json {"needsRefresh":true}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoAddressIsAnError(t *testing.T) {
	c := newCluster(t)
	o := c.options()
	o.Listen = []string{"203.0.113.1:6440"}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "203.0.113.1:6440") {
		t.Error(err)
	}
}

func TestTheTokenOfTheAccountFollowsNoRedirect(t *testing.T) {
	c := newCluster(t)
	gate := http.NewServeMux()
	gate.Handle("/", http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
	gate.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	c.Config.Handler = gate
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate())
	api := &Cluster{URL: c.URL, Client: clientOf(pool), Token: func() (string, error) { return "account", nil }}
	if _, err := api.do(t.Context(), http.MethodGet, "/api", nil); err == nil || !strings.Contains(err.Error(), "307") {
		t.Error(err)
	}
}

func TestOutsideOfACluster(t *testing.T) {
	if _, err := InCluster(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Error(err)
	}
	broken := errors.New("no such file")
	c := &Cluster{URL: "https://127.0.0.1:1", Client: http.DefaultClient, Token: func() (string, error) { return "", broken }}
	if _, err := c.known(t.Context(), credential{"a", "b"}); !errors.Is(err, broken) {
		t.Error(err)
	}
}
