// The texts of kubeconfigs. The bundle holds them, so that a byte that changes here is a
// change in every cluster.

package pki

import (
	"encoding/base64"
	"strings"
)

// kubeconfig is the text of one cluster, one context and one user; credentials are the lines of
// the CA, the certificate and the key, without their values' names. It ends without a newline.
func kubeconfig(cluster, name, server string, ca, certificate, key [2]string) string {
	user := name + "-" + cluster
	lines := []string{
		`apiVersion: v1`,
		`kind: Config`,
		`clusters:`,
		`- cluster:`,
		`    api-version: v1`,
		`    ` + ca[0] + `: ` + ca[1],
		`    server: "` + server + `"`,
		`  name: "` + cluster + `"`,
		`contexts:`,
		`- context:`,
		`    cluster: "` + cluster + `"`,
		`    user: "` + user + `"`,
		`  name: "` + cluster + `"`,
		`current-context: "` + cluster + `"`,
		`users:`,
		`- name: "` + user + `"`,
		`  user:`,
		`    ` + certificate[0] + `: ` + certificate[1],
		`    ` + key[0] + `: ` + key[1],
	}
	return strings.Join(lines, "\n")
}

// componentKubeconfig is that of a component: the API server, or nginx-proxy, of its own host.
func componentKubeconfig(name string) string {
	return kubeconfig("local", name, "https://127.0.0.1:6443",
		[2]string{"certificate-authority", Path(CA)},
		[2]string{"client-certificate", Path(name)},
		[2]string{"client-key", KeyPath(name)})
}

// AdminKubeconfig is the text of kube_config_<file>: kube-admin at the API server of the
// control-plane host with this address, with certificates and key in it. It is as secret as
// the cluster. While the CA is rotated it trusts both CAs.
func AdminKubeconfig(b Bundle, cluster, address string) string {
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return kubeconfig(cluster, Admin, "https://"+address+":6443",
		[2]string{caData, inside(b[CA].CertificatePEM)},
		[2]string{"client-certificate-data", inside(b[Admin].CertificatePEM)},
		[2]string{"client-key-data", inside(b[Admin].KeyPEM)})
}

const caData = "certificate-authority-data"

func inside(pem string) string { return base64.StdEncoding.EncodeToString([]byte(pem)) }

// trusting is an admin kubeconfig with other CAs in it.
func trusting(config, ca string) string {
	lines := strings.Split(config, "\n")
	for i, line := range lines {
		if before, _, found := strings.Cut(line, caData+": "); found {
			lines[i] = before + caData + ": " + inside(ca)
		}
	}
	return strings.Join(lines, "\n")
}
