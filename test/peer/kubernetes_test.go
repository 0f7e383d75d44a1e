//go:build e2e

// A real kube-apiserver with a real etcd, and the plan Secret, account and role that a
// Rancher makes in it for a machine.

package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/realk3s"
)

// kubernetes is the two processes.
type kubernetes struct {
	api
	dir, binary   string
	ca            []byte // PEM
	pair          tls.Certificate
	pool          *x509.CertPool
	etcd, address string
	apiserver     *process.Process
}

// startKubernetes starts etcd and kube-apiserver, built out of the parts of k3s.
func startKubernetes(t testing.TB) *kubernetes {
	t.Helper()
	k := &kubernetes{dir: t.TempDir(), address: freeAddress(t), etcd: "http://" + freeAddress(t)}
	k.TB, k.url, k.admin = t, "https://"+k.address, "an-administrator"
	kit, err := realk3s.Build(t.Context(), realk3s.Options{Module: "../..", CacheDir: cacheDir(), Components: true, Say: t.Logf})
	must(t, err)
	k.binary = kit.Components()
	k.certify()
	k.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: k.pool}}, Timeout: soon}
	t.Cleanup(func() {
		if t.Failed() && k.apiserver != nil {
			t.Logf("kube-apiserver's log:\n%s", tail(k.apiserver.LogFile(), 20))
		}
	})
	peer := "http://" + freeAddress(t)
	k.file("etcd.yaml", fmt.Appendf(nil, `name: default
data-dir: %s
listen-client-urls: %[2]s
advertise-client-urls: %[2]s
listen-peer-urls: %[3]s
initial-advertise-peer-urls: %[3]s
initial-cluster: default=%[3]s
unsafe-no-fsync: true
`, filepath.Join(k.dir, "etcd-data"), k.etcd, peer))
	k.component(t, "etcd", process.Options{Args: []string{filepath.Join(k.dir, "etcd.yaml")}, ReadyURL: k.etcd + "/health"})
	k.file("tokens.csv", []byte(k.admin+`,admin,1,"system:masters"`+"\n"))
	k.startAPI(t)
	await(t, "the default roles", func() error {
		return k.call(http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", bearer(k.admin), nil, nil)
	})
	k.create("/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
	return k
}

func (k *kubernetes) file(name string, content []byte) (path string) {
	k.Helper()
	path = filepath.Join(k.dir, name)
	must(k.TB, os.WriteFile(path, content, 0o600))
	return path
}

// component starts the binary under a name, which makes it that component, for all tests of this Kubernetes.
func (k *kubernetes) component(t testing.TB, name string, o process.Options) *process.Process {
	t.Helper()
	o.Path, o.LogFile = filepath.Join(k.dir, name), filepath.Join(k.dir, name+".log")
	if _, err := os.Lstat(o.Path); err != nil {
		must(t, os.Symlink(k.binary, o.Path))
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	p, err := process.Start(ctx, o)
	must(t, err)
	k.Cleanup(func() {
		if err := p.Kill(); err != nil {
			k.Error(err)
		}
	})
	return p
}

// restartAPI ends kube-apiserver as a power cut would and starts it again, with flags that it did not have.
func (k *kubernetes) restartAPI(t testing.TB, flags ...string) {
	t.Helper()
	must(t, k.apiserver.Kill())
	k.startAPI(t, flags...)
}

func (k *kubernetes) startAPI(t testing.TB, flags ...string) {
	t.Helper()
	host, port, err := net.SplitHostPort(k.address)
	must(t, err)
	at := func(name string) string { return filepath.Join(k.dir, name) }
	// The API server of k3s' packages keeps its loopback certificate there and does not make the directory.
	must(t, os.MkdirAll(at("certs"), 0o700))
	k.apiserver = k.component(t, "kube-apiserver", process.Options{
		Args: append([]string{
			"--etcd-servers=" + k.etcd, "--bind-address=" + host, "--secure-port=" + port, "--advertise-address=" + host, "--endpoint-reconciler-type=none",
			"--tls-cert-file=" + at("server.crt"), "--tls-private-key-file=" + at("server.key"), "--cert-dir=" + at("certs"),
			"--token-auth-file=" + at("tokens.csv"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + at("server.key"),
			"--service-account-signing-key-file=" + at("server.key"),
		}, flags...),
		ReadyURL: k.url + "/readyz", Client: k.client,
	})
}

// certify makes an authority and a certificate for loopback.
func (k *kubernetes) certify() {
	k.Helper()
	sign := func(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(k.TB, err)
		if parent == nil {
			parent, parentKey = template, key
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		must(k.TB, err)
		cert, err := x509.ParseCertificate(raw)
		must(k.TB, err)
		return cert, key
	}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	ca, caKey := sign(&x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	cert, key := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(k.TB, err)
	k.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	k.file("server.crt", certPEM)
	k.file("server.key", keyPEM)
	k.pair, err = tls.X509KeyPair(certPEM, keyPEM)
	must(k.TB, err)
	k.pool = x509.NewCertPool()
	k.pool.AddCert(ca)
}

func (k *kubernetes) create(path string, object map[string]any) {
	k.Helper()
	must(k.TB, k.call(http.MethodPost, path, bearer(k.admin), object, nil))
}

// machine makes what Rancher makes for a machine: an empty plan Secret, and an account that may get, list, watch and
// update that one Secret.
func (k *kubernetes) machine(name string) connection {
	k.Helper()
	metadata := map[string]any{"name": name}
	inNamespace := "/namespaces/" + namespace
	rbac := "/apis/rbac.authorization.k8s.io/v1" + inNamespace
	k.create("/api/v1"+inNamespace+"/secrets", map[string]any{"metadata": metadata, "type": plans.SecretType})
	k.create("/api/v1"+inNamespace+"/serviceaccounts", map[string]any{"metadata": metadata})
	k.create(rbac+"/roles", map[string]any{"metadata": metadata, "rules": []any{map[string]any{
		"apiGroups": []string{""}, "resources": []string{"secrets"}, "resourceNames": []string{name}, "verbs": []string{"get", "list", "watch", "update"},
	}}})
	k.create(rbac+"/rolebindings", map[string]any{
		"metadata": metadata, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
	})
	var request struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	must(k.TB, k.call(http.MethodPost, "/api/v1"+inNamespace+"/serviceaccounts/"+name+"/token", bearer(k.admin), map[string]any{"spec": map[string]any{}}, &request))
	return connection{Namespace: namespace, SecretName: name, KubeConfig: fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: agent
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: agent
  user:
    token: %s
contexts:
- name: agent
  context:
    cluster: agent
    user: agent
current-context: agent
`, k.url, base64.StdEncoding.EncodeToString(k.ca), request.Status.Token)}
}

// notInAName is what Kubernetes does not take in the name of an object.
var notInAName = regexp.MustCompile(`[^a-z0-9]+`)
