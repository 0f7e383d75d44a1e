package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keyPair is a self-signed certificate and its key, as PEM.
func keyPair(t testing.TB) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b}))
}

// config is a kubeconfig of one cluster and one user, given as YAML flow mappings.
func config(cluster, user string) string {
	return fmt.Sprintf(`
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, cluster, user)
}

func TestKubeconfigAccepted(t *testing.T) {
	cert, key := keyPair(t)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const https = "server: https://mgmt.example:8443"
	for _, tc := range []struct {
		name, text, server, authorization string
		pinned, certificate               bool
	}{
		{"token", config(https, "token: abc"), "https://mgmt.example:8443", "Bearer abc", false, false},
		{"path prefix", config("server: https://h/k8s/clusters/c-1/", "token: abc"), "https://h/k8s/clusters/c-1", "Bearer abc", false, false},
		{"pinned CA", config(https+", certificate-authority-data: "+b64(cert), "token: abc"), "https://mgmt.example:8443", "Bearer abc", true, false},
		{"CA file", config(https+", certificate-authority: "+file("ca.crt", cert), "token: abc"), "https://mgmt.example:8443", "Bearer abc", true, false},
		{"token file", config(https, "tokenFile: "+file("token", "from-file\n")), "https://mgmt.example:8443", "Bearer from-file", false, false},
		{"the token wins over its file", config(https, "token: abc, tokenFile: /nowhere"), "https://mgmt.example:8443", "Bearer abc", false, false},
		{"client certificate", config(https, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key)), "https://mgmt.example:8443", "", false, true},
		{"client certificate files", config(https, "client-certificate: "+file("c", cert)+", client-key: "+file("k", key)), "https://mgmt.example:8443", "", false, true},
		{"password", config(https, "username: me, password: pw"), "https://mgmt.example:8443", "Basic bWU6cHc=", false, false},
		{"as JSON, with fields of later releases", `{"apiVersion":"v1","kind":"Config","later":1,"clusters":[{"name":"c","cluster":{"server":"https://h","later":true}}],
			"users":[{"name":"u","user":{"token":"abc"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, "https://h", "Bearer abc", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := ParseKubeconfig(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			authorization, err := a.Authorization()
			if err != nil || authorization != tc.authorization {
				t.Errorf("Authorization() = %q, %v", authorization, err)
			}
			if a.Server.String() != tc.server {
				t.Errorf("server %s", a.Server)
			}
			if a.TLS.InsecureSkipVerify || (a.TLS.RootCAs != nil) != tc.pinned || (a.TLS.GetClientCertificate != nil) != tc.certificate {
				t.Errorf("TLS: pinned %t, certificate %t", a.TLS.RootCAs != nil, a.TLS.GetClientCertificate != nil)
			}
		})
	}
}

func TestKubeconfigRefused(t *testing.T) {
	cert, _ := keyPair(t)
	const https = "server: https://h"
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "current-context"},
		{"no YAML", "{", "not YAML"},
		{"a list", "clusters: 7", "line 1"},
		{"unknown context", strings.Replace(config(https, "token: a"), "current-context: x", "current-context: y", 1), `"y"`},
		{"unknown cluster", strings.Replace(config(https, "token: a"), "cluster: c,", "cluster: z,", 1), `cluster "z"`},
		{"unknown user", strings.Replace(config(https, "token: a"), "user: u}", "user: z}", 1), `user "z"`},
		{"no server", config("x: y", "token: a"), "no server"},
		{"http", config("server: http://h", "token: a"), "not https"},
		{"http without a token", config("server: http://h", ""), "not https"},
		{"another scheme", config("server: unix:///x", "token: a"), "no URL"},
		{"query", config("server: 'https://h/?a=b'", "token: a"), "more than a host"},
		{"no verification", config(https+", insecure-skip-tls-verify: true", "token: a"), "insecure-skip-tls-verify"},
		{"CA that is not base64", config(https+", certificate-authority-data: '%'", "token: a"), "certificate-authority-data"},
		{"truncated CA", config(https+", certificate-authority-data: "+b64(cert[:60]), "token: a"), "no PEM certificate"},
		{"relative CA file", config(https+", certificate-authority: ca.crt", "token: a"), "absolute"},
		{"missing token file", config(https, "tokenFile: /nowhere/token"), "tokenFile"},
		{"token file that is a device", config(https, "tokenFile: /dev/zero"), "regular file"},
		{"token with a line break", config(https, `token: "a\nb"`), "header"},
		{"certificate without key", config(https, "client-certificate-data: "+b64(cert)), "client-key is missing"},
		{"exec plugin", config(https, "exec: {command: get-token}"), "exec plugin"},
		{"auth provider", config(https, "auth-provider: {name: gcp}"), "auth-provider"},
		{"another user", config(https, "token: a, as: admin"), "another user"},
		{"proxy that is none", config(https+", proxy-url: ':'", "token: a"), "proxy-url"},
		{"too long", strings.Repeat("#", 2<<20), "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseKubeconfig(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "kubeconfig: ") {
				t.Errorf("err = %v, want one about %q", err, tc.want)
			}
		})
	}
}

func TestKubeconfigErrorsHoldNoSecrets(t *testing.T) {
	for _, text := range []string{
		config("server: https://h", "token: [hunter2]"),
		config("server: https://h", "token: hunter2\n  x"),
		"hunter2: [",
		config("server: https://h", `token: "hunter2\u0007"`),
		config("server: https://h", `client-certificate-data: "hunter2%"`),
	} {
		if _, err := ParseKubeconfig(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("err = %v", err)
		}
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add(config("server: https://h", "token: abc"))
	f.Add(config("server: http://h", "exec: {}"))
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseKubeconfig(text)
		if err == nil && (a.Server.Scheme != "https" || a.Server.Host == "" || a.TLS.InsecureSkipVerify) {
			t.Errorf("accepted %s", a.Server)
		}
	})
}
