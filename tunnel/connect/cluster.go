// What a cluster agent says of the cluster that it runs in.

package connect

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// StevePrefix begins the bearer token of the second tunnel of original cluster agents, before the registration token.
const StevePrefix = "stv-cluster-"

// Cluster is the Kubernetes that an agent runs in, and how the server uses its API.
type Cluster struct {
	// Address is host:port of the API server as pods reach it. An IPv6 host may come without brackets.
	Address string `json:"address"`
	// Token is that of the agent's service account; a secret.
	Token string `json:"token"`
	// CACert is base64 of the PEM of the authority that signs the API server's certificate.
	CACert string `json:"caCert"`
}

// Bounds of what a cluster agent may say, in bytes. Proxies refuse headers beyond 8 KiB.
const (
	maxToken = 8 << 10
	maxCA    = 32 << 10
)

// NewCluster is what an agent says of an API server.
func NewCluster(address, token string, ca []byte) *Cluster {
	return &Cluster{Address: address, Token: token, CACert: base64.StdEncoding.EncodeToString(ca)}
}

// CA is CACert as PEM. Only what Decode has let pass has one.
func (c Cluster) CA() string {
	text, err := base64.StdEncoding.DecodeString(c.CACert)
	if err != nil {
		return ""
	}
	return string(text)
}

// Certificates are those of a PEM bundle, in order; the error says what is wrong and quotes nothing.
func Certificates(bundle string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for rest := []byte(bundle); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("has PEM in it that is no certificate")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("has a certificate that cannot be read")
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("has no certificate")
	}
	return all, nil
}

// check refuses what is no way to an API server, and writes the address in its one form.
func (c *Cluster) check() error {
	if c.Address == "" || c.Token == "" || c.CACert == "" {
		return errors.New("invalid input, address|token|caCert empty")
	}
	address, err := apiAddress(c.Address)
	if err != nil {
		return err
	}
	switch {
	case len(c.Token) > maxToken:
		return fmt.Errorf("cluster.token is %d bytes long, at most %d are taken", len(c.Token), maxToken)
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("cluster.token has characters in it that no token has")
	case len(c.CACert) > maxCA:
		return fmt.Errorf("cluster.caCert is %d bytes long, at most %d are taken", len(c.CACert), maxCA)
	}
	if _, err := base64.StdEncoding.DecodeString(c.CACert); err != nil {
		return errors.New("cluster.caCert is not standard base64")
	}
	if _, err := Certificates(c.CA()); err != nil {
		return fmt.Errorf("cluster.caCert %w", err)
	}
	c.Address = address
	return nil
}

// apiAddress is host:port with brackets where the host is of IPv6. The host is an address or a name of DNS: what a pod is
// given as KUBERNETES_SERVICE_HOST.
func apiAddress(given string) (string, error) {
	const form = "cluster.address is not of the form host:port, as in 10.43.0.1:443"
	if err := text("cluster.address", given, maxName); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(given)
	if err != nil { // the last colon separates the port
		i := strings.LastIndexByte(given, ':')
		if i < 0 || net.ParseIP(given[:i]) == nil {
			return "", errors.New(form)
		}
		host, port = given[:i], given[i+1:]
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || host == "" {
		return "", errors.New(form)
	}
	ip := net.ParseIP(host)
	switch {
	case ip == nil && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-.") != "":
		return "", errors.New(form)
	case ip != nil && (ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()):
		return "", errors.New("cluster.address is not that of an API server: metadata services and the like are not dialled")
	}
	return net.JoinHostPort(host, strconv.FormatUint(number, 10)), nil
}

// EncodeCluster makes the value of ParamsHeader of a cluster agent. The error says what of it a server would refuse.
func EncodeCluster(c Cluster) (string, error) {
	if err := c.check(); err != nil {
		return "", fmt.Errorf("write %s: %w", ParamsHeader, err)
	}
	b, err := json.Marshal(Params{Cluster: &c})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", ParamsHeader, err)
	}
	return base64.StdEncoding.EncodeToString(b), nil
}

// OfCluster says that a value of ParamsHeader is meant to be a cluster agent's, whether Decode takes it or not.
func OfCluster(header string) bool {
	if len(header) > MaxParams {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(header))
	if err != nil {
		return false
	}
	var p struct {
		Cluster json.RawMessage `json:"cluster"`
		Node    json.RawMessage `json:"node"`
	}
	return json.Unmarshal(b, &p) == nil && len(p.Cluster) > 0 && string(p.Cluster) != "null" && len(p.Node) == 0
}
