package downstream

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/observed"
)

// TestAHostThatLies answers with a kubeconfig that would have kubectl run a program, read a file of the server, or send what it
// has elsewhere. Nothing of it happens, and the cluster says what was refused.
func TestAHostThatLies(t *testing.T) {
	dir := t.TempDir()
	marker, secret := filepath.Join(dir, "marker"), filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(dir, "plugin")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o700); err != nil { // a program that the test would see run
		t.Fatal(err)
	}
	elsewhere, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	went := make(chan struct{}, 100)
	go func() {
		for {
			c, err := elsewhere.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			went <- struct{}{}
		}
	}()
	replace := func(was, is string) func(string) string {
		return func(honest string) string { return strings.Replace(honest, was, is, 1) }
	}
	user := func(field string) func(string) string { return replace("user: {client", "user: {"+field+", client") }
	cluster := func(field string) func(string) string {
		return replace("cluster: {server", "cluster: {"+field+", server")
	}
	for _, tc := range []struct {
		name  string
		lie   func(honest string) string
		cause string
	}{
		{"exec", func(honest string) string {
			before, _, _ := strings.Cut(honest, "{client-certificate-data")
			return before + "{exec: {apiVersion: client.authentication.k8s.io/v1, command: " + plugin + ", interactiveMode: Never}}}]}"
		}, "users[0].user.exec is refused: it names a program to run"},
		{"exec of another user", replace("users: [", "users: [{name: other, user: {exec: {command: "+plugin+"}}}, "), "users[0].user.exec is refused"},
		{"auth-provider", user("auth-provider: {name: gcp, config: {cmd-path: " + plugin + "}}"), "users[0].user.auth-provider is refused"},
		{"tokenFile", user("tokenFile: " + secret), "users[0].user.tokenFile is refused: it names a file"},
		{"client-key", user("client-key: " + secret), "users[0].user.client-key is refused: it names a file"},
		{"certificate-authority", cluster("certificate-authority: " + secret), "clusters[0].cluster.certificate-authority is refused: it names a file"},
		{"proxy-url", cluster("proxy-url: http://" + elsewhere.Addr().String()), "clusters[0].cluster.proxy-url is refused"},
		{"insecure", cluster("insecure-skip-tls-verify: true"), "clusters[0].cluster.insecure-skip-tls-verify is refused"},
		{"impersonation", user("as: system:admin, as-groups: [system:masters]"), "users[0].user.as is refused: it acts as another user; line 3: users[0].user.as-groups is refused"},
		{"no CA", replace("certificate-authority-data", "extensions"), "has no certificate-authority-data"},
		{"no credentials and no CA", func(string) string {
			return `{current-context: d, contexts: [{name: d, context: {cluster: d, user: d}}], clusters: [{name: d, cluster: {}}], users: [{name: d, user: {token: a}}]}`
		}, "has no certificate-authority-data"},
		{"a text without end", replace("}]}", "}]}"+strings.Repeat(" ", 300<<10)), "more than the 262144 allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t)
			h.kubeconfig, h.open = tc.lie(h.kubeconfig), true
			dialled := h.askedFor()
			m, changed := start(t, h)
			api := await(t, m, changed, func(a observed.API) bool { return strings.Contains(a.Cause, "kubeconfig") })
			if !strings.Contains(api.Cause, tc.cause) || !strings.Contains(api.Cause, "fleet-default/custom-1") || strings.Contains(api.Cause, dir) || strings.Contains(api.Cause, "hunter2") {
				t.Errorf("its cause: %s\nwant %s", api.Cause, tc.cause)
			}
			select {
			case <-dialled:
				t.Error("the API was dialled")
			case <-went:
				t.Error("another address was dialled")
			default:
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("the plug-in has run")
			}
		})
	}
}
