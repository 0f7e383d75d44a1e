package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// logged is all that a server has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestSecretsAreInNoLog scans all that a server logs at debug over its life: credentials
// that are good, and ones that are refused, in each way in which they can be sent.
func TestSecretsAreInNoLog(t *testing.T) {
	s := startWhole(t, "", "")
	admin := s.administrator()
	s.apply(admin, strings.Replace(harbour, "rkeConfig: {}", "agentEnvVars: [{name: HTTPS_PROXY, value: 'http://user:hush-proxy@192.0.2.1'}], rkeConfig: {additionalManifest: '# hush-manifest'}", 1))
	machine, namespace, secret := s.register(admin)
	stop, _ := s.watch(machine, namespace, secret)
	plan := "/api/v1/namespaces/" + namespace + "/secrets/" + secret
	_, tokens := s.ask(admin, http.MethodGet, "/v3/clusterRegistrationTokens", "")
	var list struct {
		Data []struct{ Token, ClusterID string }
	}
	if err := json.Unmarshal([]byte(tokens), &list); err != nil || len(list.Data) != 1 {
		t.Fatal(err, tokens)
	}
	_, created := s.ask(admin, http.MethodPost, "/v3/tokens", `{"description":"one more"}`)
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(created), &token); err != nil || token.Token == "" {
		t.Fatal(err, created)
	}
	const login = "/v3-public/localProviders/local?action=login"
	s.ask("", http.MethodPost, login, `{"username":"admin","password":"a long first password"}`)
	s.ask("", http.MethodPost, login, `{"username":"admin","password":"hush-guess"}`)
	s.ask("", http.MethodPost, login, `{"username":"admin","password":"hush-broken`)
	s.ask(admin, http.MethodPost, "/v3/clusters/"+list.Data[0].ClusterID+"?action=generateKubeconfig", "")
	s.ask(admin, http.MethodPost, "/v1-drover/apply", "kind: Cluster\nspec: {hush-document: [}")
	for _, bearer := range []string{"hush-bearer", "token-hush:hush-bearer", list.Data[0].Token, machine} {
		for _, path := range []string{
			"/v3/clusters", "/v1/provisioning.cattle.io.clusters", "/v1-drover/machines", "/k8s/clusters/c-m-nowhere/version",
			plan, "/v3/connect", "/v3/connect/agent", "/v3/connect/register", "/metrics",
		} {
			s.ask(bearer, http.MethodGet, path, "")
		}
	}
	s.ask(machine, http.MethodPut, plan, `{"data":{"applied-checksum":"hush-data"`)
	stop()
	s.stop()

	_, stored, _ := strings.Cut(token.Token, ":")
	logs := s.logged.String()
	if !strings.Contains(logs, "machine registered") || !strings.Contains(logs, "level=DEBUG") {
		t.Fatalf("this is not what a server logs at debug:\n%s", logs)
	}
	for what, text := range map[string]string{
		"the administrator's token": after(admin), "a token": stored, "the machine's token": machine, "the registration token": list.Data[0].Token,
		"the password": "a long first password", "what was sent": "hush",
	} {
		if text == "" {
			t.Errorf("%s is not known to the test", what)
		}
		for line := range strings.Lines(logs) {
			if strings.Contains(line, text) {
				t.Errorf("the log has %s: %s", what, line)
			}
		}
	}
}

// after is the secret half of a token.
func after(token string) string {
	if _, secret, ok := strings.Cut(token, ":"); ok {
		return secret
	}
	return token
}
