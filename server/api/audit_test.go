package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
	"github.com/drover-project/drover/tunnel"
)

// TestAudit walks over the API as people do, with all levels, and holds what is recorded of it; and that no secret
// which the walk used or was given is in the log.
func TestAudit(t *testing.T) {
	for _, level := range []string{"1", "3"} {
		t.Run("level "+level, func(t *testing.T) {
			b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Proxy: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pods") }})
			secrets := auditedWalk(t, b, level)
			got := b.AuditedLines(t)
			path := filepath.Join("testdata", "audit-"+level+".jsonl")
			if apibed.Rewriting() {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			all := b.AuditedBytes(t)
			for _, secret := range secrets {
				if len(secret) < 5 {
					t.Errorf("%q is no secret to look for", secret)
				}
				if strings.Contains(all, secret) {
					t.Errorf("the log has the secret %q", secret)
				}
			}
		})
	}
}

// auditedWalk returns the secrets that it used and got.
func auditedWalk(t *testing.T, b *apibed.Bed, level string) []string {
	t.Helper()
	const password = "correct horse battery"
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	b.Want(200, "PUT", "/v3/settings/audit-level", `{"value":"`+level+`"}`)
	b.Want(200, "POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"`+password+`"}`)
	const login = "/v3-public/localProviders/local?action=login"
	b.Request("POST", login, "", `{"username":"bob","password":"hunter2-guess"}`)
	b.Request("POST", login, "", `{"username":"hunter2-as-a-name","password":"x"}`)
	session := b.Request("POST", login, "", `{"username":"bob","password":"`+password+`"}`).Text("token")
	document := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quay}\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig:\n" +
		"    machineGlobalConfig: {cni: none}\n    additionalManifest: '{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {a: hunter2-manifest}}'\n" +
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: bucket, namespace: fleet-default}\nstringData: {accessKey: hunter2-access, secretKey: hunter2-secret}\n"
	b.Want(200, "POST", "/v1-drover/apply", document)
	b.Want(422, "POST", "/v1-drover/apply", "password: hunter2-wrong")
	join := b.Want(200, "GET", "/v1-drover/clusters/fleet-default/quay/join", "")
	revealed := b.Want(200, "POST", "/v1-drover/clusters/fleet-default/quay/token", "")
	kubeconfig := b.Want(200, "POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", "")
	made := b.Want(201, "POST", "/v3/tokens", `{"description":"hunter2-description"}`)
	b.Want(200, "GET", "/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods?fieldSelector=hunter2-query", "")
	b.Want(200, "GET", "/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods/p/exec?command=echo&command=hunter2-command&container=c&watch=true", "")
	b.Request("DELETE", "/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods/p", b.Admin, "", "Impersonate-User", "bob")
	b.Want(200, "GET", "/v1-drover/clusters", "")
	b.Want(200, "GET", "/api/v1/secrets", "")
	b.Request("GET", "/v1-drover/fleets", session, "")
	b.Request("DELETE", "/v3/settings/ui-pl", session, "")
	for range 3 {
		b.Request("GET", "/v3/clusters", "token-admin:hunter2-key", "")
		b.Request("GET", "/v3/clusters", "hunter2-name:hunter2-key", "")
	}
	b.Request("GET", "/api/v1/secrets", "drover-machine.fleet-default.custom.hunter2-machine", "")
	b.Request("GET", "/v3/import/hunter2-import_c-m-h4rb0r55.yaml", "", "")
	b.Want(200, "DELETE", "/v3/clusters/c-m-h4rb0r55", "")
	b.Request("POST", "/v3/tokens?action=logout", session, "")
	b.Pass(time.Minute)
	b.Audit.Close() // which writes what was counted

	secrets := []string{"hunter2", password, key(session), key(b.Admin), key(made.Text("token"))}
	for _, text := range []string{join.Text("command"), string(kubeconfig.Raw)} {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ;=\"\\'\n:", r) }) {
			if len(word) == 54 {
				secrets = append(secrets, word)
			}
		}
	}
	for _, name := range []string{"server", "agent"} {
		if text := revealed.Text(name); text != "" {
			secrets = append(secrets, text)
		}
	}
	if len(secrets) != 9 {
		t.Fatalf("the walk got %d secrets, want 9", len(secrets))
	}
	return secrets
}

func key(token string) string { _, key, _ := strings.Cut(token, ":"); return key }

// TestAuditOfAConnection: an entry at its begin and one at its end, with what it carried.
func TestAuditOfAConnection(t *testing.T) {
	b := apibed.New(t)
	m := b.AddMachine(b.AddCluster("dockyard", "c-dockk", nil), "00000000d0c4", func(m *records.Machine) { m.Docker = &records.DockerHost{} })
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	b.Dial = func(context.Context, records.Subject, tunnel.Target) (net.Conn, error) {
		return net.Dial("tcp", hosts.Addr().String())
	}
	web := httptest.NewTLSServer(b.Handler)
	defer web.Close()
	person := apibed.Dialled(t, web, "/v1-drover/machines/"+m.Key()+"/dial?target=docker", b.Admin)
	host, err := hosts.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if lines := b.AuditedLines(t); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, `"stage":"begin","user":"user-admin"`) {
		t.Errorf("while it goes on:\n%s", lines)
	}
	more := b.Audit.More()
	io.WriteString(host, "a longer answer")
	host.Close()
	_, _ = io.ReadAll(person)
	person.Close()
	<-more
	lines := strings.Split(b.AuditedLines(t), "\n")
	if len(lines) != 3 {
		t.Fatal(lines)
	}
	for _, want := range []string{`"id":"request-1"`, `"stage":"end"`, `"status":101`, `"verb":"dial","kind":"node","object":"` + m.Key() + `"`, `"query":{"target":"docker"}`, `"bytesIn":6,"bytesOut":15`} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("%s is not in %s", want, lines[1])
		}
	}
}

// TestAuditIsShown to administrators, by what they want to see, and goes on where they follow.
func TestAuditIsShown(t *testing.T) {
	b := apibed.New(t)
	for i := range 5 {
		b.Want(200, "PUT", "/v3/settings/ui-pl", fmt.Sprintf(`{"value":"x%d"}`, i))
	}
	b.Want(404, "DELETE", "/v3/clusters/nothing", "")
	for target, want := range map[string]string{
		"":                              "update update update update update remove",
		"?limit=2":                      "update remove more",
		"?kind=cluster":                 "remove",
		"?user=admin&object=ui-*":       "update update update update update",
		"?user=bob":                     "",
		"?verb=update&limit=1&since=1h": "update more",
	} {
		r := b.Get("/v1-drover/audit" + target)
		var got []string
		for _, e := range r.Data() {
			got = append(got, fmt.Sprint(e["verb"]))
		}
		if r.Body["more"] == true {
			got = append(got, "more")
		}
		if strings.Join(got, " ") != want || r.Text("server") != "bench:8443" {
			t.Errorf("%s: %s", target, r.Raw)
		}
	}
	for _, target := range []string{"?limit=0", "?limit=5001", "?since=yesterday"} {
		if r := b.Get("/v1-drover/audit" + target); r.Status != 422 {
			t.Errorf("%s: %d %s", target, r.Status, r.Raw)
		}
	}
	if r := b.Request("GET", "/v1-drover/audit", b.User, ""); r.Status != 403 {
		t.Errorf("a user without rights: %d", r.Status)
	}

	web := httptest.NewServer(b.Handler)
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/v1-drover/audit?follow=true&limit=1&kind=setting", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.Admin)
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		for lines.Scan() {
			if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
				return string(text)
			}
		}
		return ""
	}
	if line := next(); !strings.Contains(line, `"object":"ui-pl"`) {
		t.Errorf("first %s", line)
	}
	b.Want(404, "DELETE", "/v3/clusters/nothing", "")
	b.Want(200, "PUT", "/v3/settings/ui-brand", `{"value":"x"}`)
	if line := next(); !strings.Contains(line, `"object":"ui-brand"`) {
		t.Errorf("then %s", line)
	}
	if err := b.Auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	if line := next(); line != "" {
		t.Errorf("after the token is gone: %s", line)
	}
}

// TestAuditOfWhatPanics: a proxy that loses its cluster in the middle of an answer ends by a panic.
func TestAuditOfWhatPanics(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Proxy: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }})
	func() {
		defer func() { _ = recover() }()
		b.Get("/k8s/clusters/c-m-h4rb0r55/version")
	}()
	if lines := b.AuditedLines(t); strings.Count(lines, `"verb":"proxy"`) != 1 {
		t.Errorf("the log:\n%s", lines)
	}
}
