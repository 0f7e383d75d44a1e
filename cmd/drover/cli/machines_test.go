package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server"
)

// live is a whole server in this process with the command line beside it.
type live struct {
	*testing.T
	dir, url string
	client   *http.Client
}

func startLive(t *testing.T) *live {
	t.Helper()
	l := &live{T: t, dir: t.TempDir()}
	assets := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	l.url = "https://" + address
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- Main(ctx, []string{"server", "--data-dir", l.dir, "--listen", address, "--assets", assets, "--log-level", "error"},
			Streams{In: strings.NewReader(""), Out: io.Discard, Err: os.Stderr}, func(string) string { return "" }, server.Run)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 && code != 130 {
			t.Errorf("the server ended with %d", code)
		}
	})
	l.await("the server's authority", func() bool {
		pem, err := os.ReadFile(filepath.Join(l.dir, "tls", "ca.crt"))
		if err != nil {
			return false
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		l.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
		response, err := l.client.Get(l.url + "/ping")
		if err == nil {
			_ = response.Body.Close()
		}
		_, tokenErr := os.Stat(filepath.Join(l.dir, "admin-token"))
		return err == nil && tokenErr == nil
	})
	return l
}

func (l *live) await(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if ok() {
			return
		}
		select {
		case <-l.Context().Done():
		case <-time.After(25 * time.Millisecond):
		}
	}
	l.Fatalf("%s did not come", what)
}

// drover runs a command of the server's own host.
func (l *live) drover(args ...string) string {
	l.Helper()
	var out, errOut bytes.Buffer
	environ := func(name string) string { return map[string]string{"DROVER_DATA_DIR": l.dir, "HOME": l.dir}[name] }
	if code := Main(l.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errOut}, environ, nil); code != 0 {
		l.Fatalf("drover %v: %d %s", args, code, errOut.String())
	}
	return out.String()
}

func (l *live) request(method, path, token string, headers map[string]string, body []byte) (int, []byte) {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), method, l.url+path, bytes.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	response, err := l.client.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		l.Fatal(err)
	}
	return response.StatusCode, answer
}

// agent plays a host: it registers and then reads and writes its plan Secret.
type agent struct {
	*live
	path, token string
	joining     string // the registration token
	connection  string // what the server answered to the registration
}

func (l *live) register(cluster string) *agent {
	l.Helper()
	return l.join(l.drover("clusters", "join-command", cluster, "--all-roles"), map[string]string{
		"X-Cattle-Id": strings.Repeat("a1", 31), "X-Cattle-Role-Etcd": "true", "X-Cattle-Role-Control-Plane": "true", "X-Cattle-Role-Worker": "true",
		"X-Cattle-Internal-Address": "192.0.2.10",
	})
}

// join registers by a join command, with what a host says of itself.
func (l *live) join(line string, host map[string]string) *agent {
	l.Helper()
	given := regexp.MustCompile(`CATTLE_TOKEN=(\w+)`).FindStringSubmatch(line)
	if given == nil {
		l.Fatal("the join command has no token")
	}
	token := given[1]
	code, body := l.request(http.MethodGet, "/v3/connect/agent", token, host, nil)
	var info struct{ Namespace, SecretName, KubeConfig string }
	if err := json.Unmarshal(body, &info); err != nil || code != http.StatusOK {
		l.Fatalf("register: %d %s %v", code, body, err)
	}
	var config struct {
		Users []struct{ User struct{ Token string } }
	}
	if err := yaml.Unmarshal([]byte(info.KubeConfig), &config); err != nil || len(config.Users) != 1 {
		l.Fatalf("kubeconfig: %v", err)
	}
	return &agent{live: l, joining: token, path: fmt.Sprintf("/api/v1/namespaces/%s/secrets/%s", info.Namespace, info.SecretName), token: config.Users[0].User.Token, connection: string(body)}
}

// TestLabel: labels are set, replaced and taken off; what is refused changes nothing.
func TestLabel(t *testing.T) {
	l := startLive(t)
	l.drover("apply", "-f", "../../../examples/k3s.yaml")
	a := l.register("harbour")
	name := regexp.MustCompile(`(?m)^custom-\w+`).FindString(l.drover("machines", "ls"))
	if out := l.drover("machines", "label", name, "rack=a", "zone="); !regexp.MustCompile(`(?m)^` + name + ` +rack=a,zone=$`).MatchString(out) {
		t.Errorf("set:\n%s", out)
	}
	if out := l.drover("machines", "label", name, "rack=b", "zone-", "absent-"); !regexp.MustCompile(`(?m)^` + name + ` +rack=b$`).MatchString(out) {
		t.Errorf("changed:\n%s", out)
	}
	_, secret := l.request(http.MethodGet, a.path, a.token, nil, nil)
	if !strings.Contains(string(secret), `"rke.cattle.io/labels":"{\"rack\":\"b\"}"`) {
		t.Errorf("the plan Secret is %s", secret)
	}
	for _, c := range []struct{ arg, want string }{
		{"rack", `"rack" is neither KEY=VALUE nor KEY-`}, {"=a", "is neither KEY=VALUE nor KEY-"}, {"-", "is neither KEY=VALUE nor KEY-"},
		{"rke.cattle.io/etcd-role=true", "belongs to the server"}, {"cattle.io/os-", "it says what the host runs"},
	} {
		if out := l.fails("machines", "label", name, "more=1", "--", c.arg); !strings.Contains(out, c.want) {
			t.Errorf("%s: %s", c.arg, out)
		}
	}
	if out := l.drover("machines", "show", name); strings.Contains(out, "more") {
		t.Errorf("what was refused is there:\n%s", out)
	}
}

// TestRejoin: a registration that does not prove to come from the machine's host is refused and
// shown, and taken once after the owner allowed it.
func TestRejoin(t *testing.T) {
	l := startLive(t)
	l.drover("apply", "-f", "../../../examples/k3s.yaml")
	a := l.register("harbour")
	watch, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.url+strings.Replace(a.path, "/secrets/", "/secrets?watch=true&fieldSelector=metadata.name%3D", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	watch.Header.Set("Authorization", "Bearer "+a.token)
	open, err := l.client.Do(watch)
	if err != nil || open.StatusCode != http.StatusOK {
		t.Fatal(err, open)
	}
	defer open.Body.Close()
	again := func() (int, string) {
		code, body := l.request(http.MethodGet, "/v3/connect/agent", a.joining, map[string]string{"X-Cattle-Id": strings.Repeat("a1", 31)}, nil)
		return code, string(body)
	}
	l.await("the machine to be held", func() bool { code, _ := again(); return code == http.StatusConflict })
	name := regexp.MustCompile(`(?m)^custom-\w+`).FindString(l.drover("machines", "ls"))
	if show := l.drover("machines", "show", name); !regexp.MustCompile(`(?m)^refused +127\.0\.0\.1/32 asked for this machine's place at .* without this machine's token\. .*drover machines rejoin `+name).MatchString(show) || strings.Contains(show, "\nrejoin ") {
		t.Errorf("show:\n%s", show)
	}
	if out := l.drover("machines", "rejoin", name); !strings.Contains(out, "the next registration of machine "+name+" needs no token of it, until ") || !strings.Contains(out, "drover clusters join-command harbour") {
		t.Errorf("rejoin: %s", out)
	}
	if show := l.drover("machines", "show", name); !strings.Contains(show, "\nrejoin ") {
		t.Errorf("show after it was allowed:\n%s", show)
	}
	if code, body := again(); code != http.StatusOK {
		t.Errorf("allowed: %d %s", code, body)
	}
	if show := l.drover("machines", "show", name); strings.Contains(show, "\nrejoin ") || strings.Contains(show, "\nrefused ") {
		t.Errorf("show after the registration:\n%s", show)
	}
	if code, body := again(); code != http.StatusConflict {
		t.Errorf("a second time: %d %s", code, body)
	}
}

func (a *agent) secret() map[string]any {
	a.Helper()
	code, body := a.request(http.MethodGet, a.path, a.token, nil, nil)
	var secret map[string]any
	if err := json.Unmarshal(body, &secret); err != nil || code != http.StatusOK {
		a.Fatalf("get the plan: %d %s", code, body)
	}
	return secret
}

// report changes the outcome in the Secret, as an agent does.
func (a *agent) report(change func(*plans.Outcome)) {
	a.Helper()
	secret := a.secret()
	encoded, err := json.Marshal(secret["data"])
	if err != nil {
		a.Fatal(err)
	}
	var data map[string][]byte
	if err := json.Unmarshal(encoded, &data); err != nil {
		a.Fatal(err)
	}
	outcome, err := plans.ReadOutcome(data)
	if err != nil {
		a.Fatal(err)
	}
	change(&outcome)
	if err := outcome.Write(data); err != nil {
		a.Fatal(err)
	}
	secret["data"] = data
	body, err := json.Marshal(secret)
	if err != nil {
		a.Fatal(err)
	}
	if code, answer := a.request(http.MethodPut, a.path, a.token, nil, body); code != http.StatusOK {
		a.Fatalf("report: %d %s", code, answer)
	}
}

func TestMachinesShowSaysWhyAndSinceWhen(t *testing.T) {
	l := startLive(t)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	text := `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.drover("apply", "-f", file)
	host := l.register("harbour")
	l.await("the plan", func() bool {
		data, _ := host.secret()["data"].(map[string]any)
		return data["plan-state"] == "cGVuZGluZw=="
	})
	name := strings.TrimSuffix(host.path[strings.LastIndex(host.path, "/")+1:], "-machine-plan")
	expect := func(words ...string) {
		t.Helper()
		shown := ""
		l.await(strings.Join(words, ", "), func() bool {
			shown = l.drover("machines", "show", name)
			for _, word := range words {
				if !strings.Contains(shown, word) {
					return false
				}
			}
			return true
		})
		if !strings.Contains(shown, "since ") || strings.Contains(shown, host.token) {
			t.Errorf("shown:\n%s", shown)
		}
	}
	expect("Applying plan", "its agent has not connected", "192.0.2.10")
	host.report(func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, 1 })
	expect("Applying plan", "is applying plan")
	host.report(func(o *plans.Outcome) {
		o.State, o.FailureCount = plans.StateFailed, 1
		o.FailedOutput = map[string][]byte{"install": []byte("step one\nthe disk is full\n")}
	})
	expect("Error", "the disk is full", "last failure", "instruction install of plan", "next try", "step one")
	if out := l.drover("machines", "show", name, "-o", "json"); !strings.Contains(out, `"lastFailure"`) || !strings.Contains(out, `"state": "Error"`) {
		t.Errorf("as JSON:\n%s", out)
	}
	if out := l.drover("machines", "ls"); !strings.Contains(out, "Error") || !strings.Contains(out, "harbour") {
		t.Errorf("list:\n%s", out)
	}
	l.drover("machines", "rm", name, "--yes", "--force")
	l.await("the machine to go", func() bool { return !strings.Contains(l.drover("machines", "ls"), name) })
	if code, _ := host.request(http.MethodGet, host.path, host.token, nil, nil); code != http.StatusUnauthorized {
		t.Errorf("the token of a removed machine answers %d", code)
	}
}

// TestRotateJoin: by the token before a rotation no host joins any more; one that has joined needs neither.
func TestRotateJoin(t *testing.T) {
	l := startLive(t)
	l.drover("apply", "-f", "../../../examples/k3s.yaml")
	a := l.register("harbour")
	line := l.drover("clusters", "join-command", "harbour", "--all-roles", "--rotate")
	if now := l.drover("clusters", "join-command", "harbour", "--all-roles"); now != line {
		t.Errorf("after the rotation the command is\n%s\nand the rotation printed\n%s", now, line)
	}
	other := map[string]string{"X-Cattle-Id": strings.Repeat("c3", 31), "X-Cattle-Role-Worker": "true"}
	if code, body := l.request(http.MethodGet, "/v3/connect/agent", a.joining, other, nil); code != http.StatusUnauthorized {
		t.Errorf("by the old token: %d %s", code, body)
	}
	if code, body := l.request(http.MethodGet, a.path, a.token, nil, nil); code != http.StatusOK {
		t.Errorf("the machine that had joined: %d %s", code, body)
	}
	l.join(line, other)
}
