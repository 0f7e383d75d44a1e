package kubeconfig_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/kubeconfig"
)

// pair is a certificate of a new key, and the key, in PEM.
func pair(t testing.TB) (certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return certificateOf(t, k), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func certificateOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "c"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// k3s is a kubeconfig as k3s and RKE2 write it.
const k3s = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: CA
    server: https://127.0.0.1:6443
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
preferences: {}
users:
- name: default
  user:
    client-certificate-data: CERTIFICATE
    client-key-data: KEY
`

// kubeadm has two contexts, and extensions as minikube writes them.
const kubeadm = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: CA
    extensions:
    - extension: {last-update: Mon, provider: minikube.sigs.k8s.io}
      name: cluster_info
    insecure-skip-tls-verify: false
    disable-compression: true
    server: https://10.0.0.1:6443
    tls-server-name: kubernetes
  name: kubernetes
contexts:
- context: {cluster: kubernetes, namespace: kube-system, user: kubernetes-admin, extensions: []}
  name: kubernetes-admin@kubernetes
- context: {cluster: kubernetes, user: other}
  name: 2
current-context: kubernetes-admin@kubernetes
extensions: []
kind: Config
preferences: {colors: true}
users:
- {name: other, user: {token: not-this-one}}
- name: kubernetes-admin
  user:
    client-certificate-data: CERTIFICATE
    client-key-data: KEY
    username: admin
    password: 12345
`

// rke1 is as RKE writes it.
const rke1 = `apiVersion: v1
kind: Config
clusters:
- cluster:
    api-version: v1
    certificate-authority-data: CA
    server: "https://203.0.113.10:6443"
  name: "prod"
contexts:
- context:
    cluster: "prod"
    user: "kube-admin-prod"
  name: "prod"
current-context: "prod"
users:
- name: "kube-admin-prod"
  user:
    client-certificate-data: CERTIFICATE
    client-key-data: KEY`

// withToken is JSON, as drover's server and service accounts have it.
const withToken = `{"apiVersion": "v1", "kind": "Config", "current-context": "agent", "contexts": [{"name": "agent", "context": {"cluster": "agent", "user": "agent"}}],
"clusters": [{"name": "agent", "cluster": {"server": "https://drover.example"}}], "users": [{"name": "agent", "user": {"token": "a:b"}}]}`

func TestRead(t *testing.T) {
	certificate, key := pair(t)
	fill := strings.NewReplacer(": CA", ": "+b64(certificate), ": CERTIFICATE", ": "+b64(certificate), ": KEY", ": "+b64(key))
	whole := kubeconfig.Config{Server: "https://127.0.0.1:6443", CA: []byte(certificate), Certificate: []byte(certificate), Key: []byte(key)}
	with := func(change func(*kubeconfig.Config)) kubeconfig.Config { c := whole; change(&c); return c }
	for name, tc := range map[string]struct {
		text string
		want kubeconfig.Config
	}{
		"k3s": {k3s, whole},
		"kubeadm": {kubeadm, with(func(c *kubeconfig.Config) {
			c.Server, c.TLSName, c.Username, c.Password, c.Others = "https://10.0.0.1:6443", "kubernetes", "admin", "12345", []string{"2"}
		})},
		"rke1":  {rke1, with(func(c *kubeconfig.Config) { c.Server = "https://203.0.113.10:6443" })},
		"token": {withToken, kubeconfig.Config{Server: "https://drover.example", CA: []byte{}, Certificate: []byte{}, Key: []byte{}, Token: "a:b"}},
	} {
		got, err := kubeconfig.Read([]byte(fill.Replace(tc.text)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(tc.want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// secret stands for values, which no error repeats.
const secret = "hunter2"

func TestWhatIsRefused(t *testing.T) {
	certificate, key := pair(t)
	_, other := pair(t)
	fill := strings.NewReplacer(": CA", ": "+b64(certificate), ": CERTIFICATE", ": "+b64(certificate), ": KEY", ": "+b64(key))
	user := func(line string) string { return k3s + "    " + line + "\n" }
	cluster := func(line string) string { return strings.Replace(k3s, "    server:", "    "+line+"\n    server:", 1) }
	instead := func(was, is string) string { return strings.Replace(k3s, was, is, 1) }
	for _, tc := range []struct{ name, text, want string }{
		{"exec", user("exec: {apiVersion: client.authentication.k8s.io/v1, command: " + secret + "}"), "line 20: users[0].user.exec is refused: it names a program to run"},
		{"nothing of exec", user("exec: {}"), "users[0].user.exec is refused"},
		{"auth-provider", user("auth-provider: {name: " + secret + "}"), "users[0].user.auth-provider is refused: it names a plug-in to run"},
		{"tokenFile", user("tokenFile: /etc/" + secret), "users[0].user.tokenFile is refused: it names a file"},
		{"client-certificate", user("client-certificate: /etc/" + secret), "users[0].user.client-certificate is refused: it names a file"},
		{"client-key", user("client-key: /etc/" + secret), "users[0].user.client-key is refused: it names a file"},
		{"as", user("as: " + secret), "users[0].user.as is refused: it acts as another user"},
		{"as-uid", user("as-uid: " + secret), "users[0].user.as-uid is refused"},
		{"as-groups", user("as-groups: [" + secret + "]"), "users[0].user.as-groups is refused"},
		{"as-user-extra", user("as-user-extra: {a: [" + secret + "]}"), "users[0].user.as-user-extra is refused"},
		{"certificate-authority", cluster("certificate-authority: /etc/" + secret), "line 5: clusters[0].cluster.certificate-authority is refused: it names a file"},
		{"proxy-url", cluster("proxy-url: http://" + secret), "clusters[0].cluster.proxy-url is refused: it leads through another machine"},
		{"insecure", cluster("insecure-skip-tls-verify: true"), "clusters[0].cluster.insecure-skip-tls-verify is refused: the API has to show a certificate"},
		{"insecure as text", cluster("insecure-skip-tls-verify: " + secret), "clusters[0].cluster.insecure-skip-tls-verify is refused"},
		{"all at once", user("exec: {}\n    tokenFile: x"), "exec is refused: it names a program to run; line 21: users[0].user.tokenFile is refused"},
		{"a user that is not current", k3s + "- name: spare\n  user: {exec: {command: " + secret + "}}\n", "users[1].user.exec is refused"},
		{"a cluster that is not current", instead("clusters:\n", "clusters:\n- {name: spare, cluster: {proxy-url: "+secret+"}}\n"), "clusters[0].cluster.proxy-url is refused"},
		{"an unknown field", user("plugin: " + secret), "users[0].user.plugin is not a field that is read"},
		{"beside the lists", k3s + "exec: {command: " + secret + "}\n", "exec is refused"},
		{"a name that is none", user(`"exec\x1b[31m` + secret + `": 1`), "users[0].user.(a name that is not repeated here) is not a field that is read"},
		{"twice", user("token: " + secret + "\n    token: x"), "users[0].user.token stands there twice"},
		{"a list as token", user("token: [" + secret + "]"), "users[0].user.token a value of another type is expected"},
		{"an alias for exec", user("token: &a " + secret + "\n    exec: *a"), "users[0].user.exec is refused"},
		{"merged", user("<<: {exec: {command: " + secret + "}}"), "a key that is not plain text"},
		{"a second document", k3s + "---\n" + k3s, "a second document"},
		{"no YAML", "a: [" + secret, "is not YAML"},
		{"text", secret, "another type"},
		{"nothing", "", "contexts has 0 entries"},
		{"too long", "#" + strings.Repeat(secret, 40_000), "more than the 262144 allowed"},
		{"too deep", k3s + "preferences: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "deep"},
		{"another kind", instead("kind: Config", "kind: "+secret), "apiVersion and kind"},
		{"no current context", instead("current-context: default\n", ""), "contexts has 0 entries"},
		{"another current context", instead("current-context: default", "current-context: "+secret), "contexts has 0 entries"},
		{"two contexts of a name", instead("contexts:\n", "contexts:\n- {name: default, context: {}}\n"), "contexts has 2 entries"},
		{"two users of a name", k3s + "- {name: default, user: {token: " + secret + "}}\n", "users has 2 entries"},
		{"no such cluster", instead("cluster: default", "cluster: "+secret), "clusters has 0 entries"},
		{"no base64", instead(": KEY", ": '"+secret+"!'"), "client-key-data is not base64"},
		{"a CA that is none", instead(": CA", ": "+b64(secret)), "certificate-authority-data has no certificate in PEM"},
		{"a CA that cannot be read", instead(": CA", ": "+b64("-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n")), "certificate-authority-data has a certificate that cannot be read"},
		{"a key without a certificate", instead("    client-certificate-data: CERTIFICATE\n", ""), "client-certificate-data has no certificate"},
		{"a certificate without a key", instead("    client-key-data: KEY\n", ""), "client-key-data is not the key"},
		{"the key of another", instead(": KEY", ": "+b64(other)), "client-key-data is not the key of client-certificate-data"},
		{"a key without end", instead(": KEY", ": "+b64(strings.Repeat("a", 20<<10))), "client-key-data is longer than 16 KiB"},
		{"a token of two lines", user(`token: "a\nX-Other: ` + secret + `"`), "token has characters that cannot be sent"},
	} {
		got, err := kubeconfig.Read([]byte(fill.Replace(tc.text)))
		if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
			continue
		}
		if strings.Contains(err.Error(), secret) || strings.ContainsRune(err.Error(), '\x1b') || len(err.Error()) > 4000 {
			t.Errorf("%s: the error repeats what it should not: %q", tc.name, err)
		}
	}
	var many strings.Builder
	for i := range 90 {
		fmt.Fprintf(&many, "    x%s: 1\n", strings.Repeat("y", i%30+1)+strings.Repeat("z", i/30))
	}
	if _, err := kubeconfig.Read([]byte(fill.Replace(k3s + many.String()))); err == nil || !strings.HasSuffix(err.Error(), "; and 80 more") {
		t.Errorf("many: %v", err)
	}
}

// TestHugeKeys: a signature by a key of 256 KiB takes hours.
func TestHugeKeys(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	huge := &rsa.PublicKey{N: new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 16384), big.NewInt(1)), E: 65537}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, huge, small)
	if err != nil {
		t.Fatal(err)
	}
	c := kubeconfig.Config{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "RSA key of more than 8192 bits") {
		t.Errorf("%v", err)
	}
	c.CA = []byte(certificateOf(t, small))
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// FuzzRead: whatever the text is, what is read of it can be used, and an error repeats nothing of it.
func FuzzRead(f *testing.F) {
	certificate, key := pair(f)
	fill := strings.NewReplacer(": CA", ": "+b64(certificate), ": CERTIFICATE", ": "+b64(certificate), ": KEY", ": "+b64(key))
	for _, text := range []string{k3s, kubeadm, rke1, withToken, k3s + "    exec: {command: " + secret + "}\n", k3s + "    tokenFile: " + secret + "\n"} {
		f.Add([]byte(fill.Replace(text)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := kubeconfig.Read(text)
		switch {
		case (c == nil) == (err == nil):
			t.Fatalf("%v and %v", c, err)
		case err != nil && (strings.Contains(err.Error(), secret) || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) || len(err.Error()) > 10_000):
			t.Errorf("%q", err)
		case err == nil && c.Check() != nil:
			t.Errorf("what was read cannot be used: %v", c.Check())
		}
	})
}
