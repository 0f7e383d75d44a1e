// Files the server writes for its components and for people.

package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	clientcmd "k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/test/standin/atomicfile"
	"github.com/drover-project/drover/test/standin/config"
)

// writeKubeconfigs writes the components' kubeconfigs, which name files, and the administrator's, which carries them.
func writeKubeconfigs(s *config.Server, l layout) error {
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ListenPort))
	for name, cert := range map[string]string{
		"controller": l.tls("client-controller"), "scheduler": l.tls("client-scheduler"), "supervisor": l.tls("client-supervisor"),
	} {
		if err := writeKubeconfig(l.credential(name), fileKubeconfig(url, l.tls("server-ca.crt"), cert), 0o600); err != nil {
			return err
		}
	}
	kubelet := fileKubeconfig(url, l.agent("server-ca.crt"), l.agent("client-kubelet"))
	if err := writeKubeconfig(l.agent("kubelet.kubeconfig"), kubelet, 0o600); err != nil {
		return err
	}
	admin := fileKubeconfig(url, l.tls("server-ca.crt"), l.tls("client-admin"))
	if err := clientapi.FlattenConfig(&admin); err != nil {
		return fmt.Errorf("gather the administrator's certificates: %w", err)
	}
	if err := writeKubeconfig(l.credential("admin"), admin, 0o600); err != nil {
		return err
	}
	return writeKubeconfig(s.Kubeconfig, admin, s.KubeconfigMode)
}

func fileKubeconfig(url, ca, cert string) clientapi.Config {
	c := *clientapi.NewConfig()
	c.Clusters["default"] = &clientapi.Cluster{Server: url, CertificateAuthority: ca}
	c.AuthInfos["default"] = &clientapi.AuthInfo{ClientCertificate: cert + ".crt", ClientKey: cert + ".key"}
	c.Contexts["default"] = &clientapi.Context{Cluster: "default", AuthInfo: "default"}
	c.CurrentContext = "default"
	return c
}

func writeKubeconfig(path string, c clientapi.Config, mode os.FileMode) error {
	content, err := clientcmd.Write(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, content, mode)
}

// writeEtcdConfig writes etcd's configuration where the real one has it. The user's etcd-arg go in as they are.
func writeEtcdConfig(s *config.Server, l layout) error {
	if err := os.MkdirAll(l.etcd(), 0o700); err != nil {
		return err
	}
	name, err := etcdName(s.NodeName, l)
	if err != nil {
		return err
	}
	local, node := netip.AddrFrom4([4]byte{127, 0, 0, 1}), s.NodeIPs[0]
	metrics := url("http", local, 2381)
	if s.EtcdExposeMetrics {
		metrics += "," + url("http", node, 2381)
	}
	security := func(ca, cert string) map[string]any {
		return map[string]any{
			"trusted-ca-file": l.tls(ca), "cert-file": l.tls(cert + ".crt"), "key-file": l.tls(cert + ".key"), "client-cert-auth": true,
		}
	}
	c := map[string]any{
		"name": name, "data-dir": l.etcd(), "logger": "zap", "log-level": "warn", "log-outputs": []string{"stderr"},
		"listen-client-urls": both("https", local, node, 2379), "advertise-client-urls": url("https", node, 2379),
		"listen-peer-urls": both("https", local, node, 2380), "initial-advertise-peer-urls": url("https", node, 2380),
		"initial-cluster": name + "=" + url("https", node, 2380), "initial-cluster-state": "new", "listen-metrics-urls": metrics,
		"warning-unary-request-duration": 1_000_000_000, // ns; without it every request is worth a warning
		"client-transport-security":      security("etcd/server-ca.crt", "etcd/server-client"),
		"peer-transport-security":        security("etcd/peer-ca.crt", "etcd/peer-server-client"),
	}
	for _, arg := range s.EtcdArgs {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		var typed any = value
		if json.Unmarshal([]byte(value), &typed) != nil { // numbers and switches keep their type
			typed = value
		}
		c[name] = typed
	}
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(l.etcdConfig(), content, 0o600)
}

func url(scheme string, host netip.Addr, port uint16) string {
	return scheme + "://" + netip.AddrPortFrom(host, port).String()
}

func both(scheme string, a, b netip.Addr, port uint16) string {
	if a == b {
		return url(scheme, a, port)
	}
	return url(scheme, a, port) + "," + url(scheme, b, port)
}

// etcdName is the member's name, made once: <node>-<8 characters>.
func etcdName(node string, l layout) (string, error) {
	path := filepath.Join(l.etcd(), "name")
	content, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(content)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := node + "-" + strings.ToLower(rand.Text()[:8])
	return name, atomicfile.Write(path, []byte(name), 0o600)
}
