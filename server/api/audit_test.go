package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

// auditedLines is the log as it is in its files, with what differs each time replaced.
func (b *bench) auditedLines(t *testing.T) string {
	t.Helper()
	found, err := b.audit.Newest(t.Context(), audit.Query{}, 1000)
	if err != nil || found.Torn > 0 {
		t.Fatal(err, found.Torn)
	}
	ids, out := map[string]string{}, &strings.Builder{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, e := range found.Entries {
		if ids[e.ID] == "" {
			ids[e.ID] = fmt.Sprint("request-", len(ids)+1)
		}
		if e.ID = ids[e.ID]; strings.HasPrefix(e.Token, "token-") && e.Token != "token-admin" && e.Token != "token-boblo" {
			e.Token = "token-xxxxx"
		}
		if e.Kind == "token" && strings.HasPrefix(e.Object, "token-") {
			e.Object = "token-xxxxx"
		}
		if err := encoder.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// raw are the bytes of all files of the log.
func (b *bench) auditedBytes(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.audit.Dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}

// TestAudit walks over the API as people do, with all levels, and holds what is recorded of it; and that no secret
// which the walk used or was given is in the log.
func TestAudit(t *testing.T) {
	for _, level := range []string{"1", "3"} {
		t.Run("level "+level, func(t *testing.T) {
			b := newBenchWith(t, benchOptions{serverURL: "https://drover.example", proxy: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pods") }})
			secrets := b.auditedWalk(t, level)
			got := b.auditedLines(t)
			path := filepath.Join("testdata", "audit-"+level+".jsonl")
			if *rewrite {
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
			all := b.auditedBytes(t)
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
func (b *bench) auditedWalk(t *testing.T, level string) []string {
	t.Helper()
	const password = "correct horse battery"
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	b.want(200, "PUT", "/v3/settings/audit-level", `{"value":"`+level+`"}`)
	b.want(200, "POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"`+password+`"}`)
	const login = "/v3-public/localProviders/local?action=login"
	b.request("POST", login, "", `{"username":"bob","password":"hunter2-guess"}`)
	b.request("POST", login, "", `{"username":"hunter2-as-a-name","password":"x"}`)
	session := b.request("POST", login, "", `{"username":"bob","password":"`+password+`"}`).text("token")
	document := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quay}\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig:\n" +
		"    machineGlobalConfig: {cni: none}\n    additionalManifest: '{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {a: hunter2-manifest}}'\n" +
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: bucket, namespace: fleet-default}\nstringData: {accessKey: hunter2-access, secretKey: hunter2-secret}\n"
	b.want(200, "POST", "/v1-drover/apply", document)
	b.want(422, "POST", "/v1-drover/apply", "password: hunter2-wrong")
	join := b.want(200, "GET", "/v1-drover/clusters/fleet-default/quay/join", "")
	revealed := b.want(200, "POST", "/v1-drover/clusters/fleet-default/quay/token", "")
	kubeconfig := b.want(200, "POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", "")
	made := b.want(201, "POST", "/v3/tokens", `{"description":"hunter2-description"}`)
	b.want(200, "GET", "/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods?fieldSelector=hunter2-query", "")
	b.want(200, "GET", "/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods/p/exec?command=echo&command=hunter2-command&container=c&watch=true", "")
	b.request("DELETE", "/k8s/clusters/c-m-h4rb0r55/api/v1/namespaces/default/pods/p", b.admin, "", "Impersonate-User", "bob")
	b.want(200, "GET", "/v1-drover/clusters", "")
	b.want(200, "GET", "/api/v1/secrets", "")
	b.request("GET", "/v1-drover/fleets", session, "")
	b.request("DELETE", "/v3/settings/ui-pl", session, "")
	for range 3 {
		b.request("GET", "/v3/clusters", "token-admin:hunter2-key", "")
		b.request("GET", "/v3/clusters", "hunter2-name:hunter2-key", "")
	}
	b.request("GET", "/api/v1/secrets", "drover-machine.fleet-default.custom.hunter2-machine", "")
	b.request("GET", "/v3/import/hunter2-import_c-m-h4rb0r55.yaml", "", "")
	b.want(200, "DELETE", "/v3/clusters/c-m-h4rb0r55", "")
	b.request("POST", "/v3/tokens?action=logout", session, "")
	b.pass(time.Minute)
	b.audit.Close() // which writes what was counted

	secrets := []string{"hunter2", password, key(session), key(b.admin), key(made.text("token"))}
	for _, text := range []string{join.text("command"), string(kubeconfig.raw)} {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ;=\"\\'\n:", r) }) {
			if len(word) == 54 {
				secrets = append(secrets, word)
			}
		}
	}
	for _, name := range []string{"server", "agent"} {
		if text := revealed.text(name); text != "" {
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
	b := newBench(t)
	m := b.addMachine(b.addCluster("dockyard", "c-dockk", nil), "00000000d0c4", func(m *records.Machine) { m.Docker = &records.DockerHost{} })
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	b.dial = func(context.Context, records.Subject, tunnel.Target) (net.Conn, error) {
		return net.Dial("tcp", hosts.Addr().String())
	}
	web := httptest.NewTLSServer(b.handler)
	defer web.Close()
	person := dialled(t, web, "/v1-drover/machines/"+m.Key()+"/dial?target=docker", b.admin)
	host, err := hosts.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if lines := b.auditedLines(t); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, `"stage":"begin","user":"user-admin"`) {
		t.Errorf("while it goes on:\n%s", lines)
	}
	more := b.audit.More()
	io.WriteString(host, "a longer answer")
	host.Close()
	_, _ = io.ReadAll(person)
	person.Close()
	<-more
	lines := strings.Split(b.auditedLines(t), "\n")
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
	b := newBench(t)
	for i := range 5 {
		b.want(200, "PUT", "/v3/settings/ui-pl", fmt.Sprintf(`{"value":"x%d"}`, i))
	}
	b.want(404, "DELETE", "/v3/clusters/nothing", "")
	for target, want := range map[string]string{
		"":                              "update update update update update remove",
		"?limit=2":                      "update remove more",
		"?kind=cluster":                 "remove",
		"?user=admin&object=ui-*":       "update update update update update",
		"?user=bob":                     "",
		"?verb=update&limit=1&since=1h": "update more",
	} {
		r := b.get("/v1-drover/audit" + target)
		var got []string
		for _, e := range r.data() {
			got = append(got, fmt.Sprint(e["verb"]))
		}
		if r.body["more"] == true {
			got = append(got, "more")
		}
		if strings.Join(got, " ") != want || r.text("server") != "bench:8443" {
			t.Errorf("%s: %s", target, r.raw)
		}
	}
	for _, target := range []string{"?limit=0", "?limit=5001", "?since=yesterday"} {
		if r := b.get("/v1-drover/audit" + target); r.status != 422 {
			t.Errorf("%s: %d %s", target, r.status, r.raw)
		}
	}
	if r := b.request("GET", "/v1-drover/audit", b.user, ""); r.status != 403 {
		t.Errorf("a user without rights: %d", r.status)
	}

	web := httptest.NewServer(b.handler)
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/v1-drover/audit?follow=true&limit=1&kind=setting", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.admin)
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
	b.want(404, "DELETE", "/v3/clusters/nothing", "")
	b.want(200, "PUT", "/v3/settings/ui-brand", `{"value":"x"}`)
	if line := next(); !strings.Contains(line, `"object":"ui-brand"`) {
		t.Errorf("then %s", line)
	}
	if err := b.auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	if line := next(); line != "" {
		t.Errorf("after the token is gone: %s", line)
	}
}

// TestAuditOfWhatPanics: a proxy that loses its cluster in the middle of an answer ends by a panic.
func TestAuditOfWhatPanics(t *testing.T) {
	b := newBenchWith(t, benchOptions{serverURL: "https://drover.example", proxy: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }})
	func() {
		defer func() { _ = recover() }()
		b.get("/k8s/clusters/c-m-h4rb0r55/version")
	}()
	if lines := b.auditedLines(t); strings.Count(lines, `"verb":"proxy"`) != 1 {
		t.Errorf("the log:\n%s", lines)
	}
}
