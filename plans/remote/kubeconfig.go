// The kubeconfig of the connection information: who the server is, whom we trust and
// who we are. A field that would connect in another way than it says is refused with a
// sentence, so that a host never talks to the wrong server with the wrong identity.

package remote

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/plans/strictyaml"
)

// maxCredential bounds files that a kubeconfig names, and the kubeconfig itself.
const maxCredential = 1 << 20

// Access is a kubeconfig that was understood: how to reach a server and as whom.
type Access struct {
	// Server is the address, with a path prefix where there is one.
	Server *url.URL
	// TLS pins the CA of the kubeconfig, or trusts the system's when it has none.
	TLS *tls.Config
	// Proxy overrides the proxy of the environment; nil when the kubeconfig names none.
	Proxy *url.URL
	// Spared is the Retry-After of the server; all clients of this server share it.
	Spared backoff.Spared

	token     string
	tokenFile string
	username  string
	password  string

	resolver *net.Resolver // nil is the host's
}

type kubeconfig struct {
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	CurrentContext string `json:"current-context"`
}

type cluster struct {
	Server   string `json:"server"`
	CAFile   string `json:"certificate-authority"`
	CAData   string `json:"certificate-authority-data"`
	Insecure bool   `json:"insecure-skip-tls-verify"`
	Name     string `json:"tls-server-name"`
	Proxy    string `json:"proxy-url"`
}

type user struct {
	Token        string   `json:"token"`
	TokenFile    string   `json:"tokenFile"`
	Username     string   `json:"username"`
	Password     string   `json:"password"`
	CertFile     string   `json:"client-certificate"`
	CertData     string   `json:"client-certificate-data"`
	KeyFile      string   `json:"client-key"`
	KeyData      string   `json:"client-key-data"`
	Exec         any      `json:"exec"`
	AuthProvider any      `json:"auth-provider"`
	As           string   `json:"as"`
	AsGroups     []string `json:"as-groups"`
}

// ParseKubeconfig reads the current context of a kubeconfig. Files that it names must
// be absolute paths; a token file and client certificates are read anew when they are used.
// Its errors name the field that cannot be used, and no secret.
func ParseKubeconfig(text string) (*Access, error) {
	a, err := parseKubeconfig(text)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return a, nil
}

func parseKubeconfig(text string) (*Access, error) {
	if len(text) > maxCredential {
		return nil, fmt.Errorf("%d bytes are more than the %d allowed", len(text), maxCredential)
	}
	var k kubeconfig
	docs, err := strictyaml.Read(strictyaml.Source{Private: true}, []byte(text))
	if err != nil {
		return nil, err
	}
	if len(docs) > 0 {
		// A kubeconfig has many keys that are others' affair.
		if errs := docs[0].Decode(&k, strictyaml.Options{Ignore: strictyaml.IgnoreAll, AsWritten: true, YesNo: true}); errs != nil {
			return nil, errs[0]
		}
	}
	c, u, err := k.current()
	if err != nil {
		return nil, err
	}
	a := &Access{token: u.Token, tokenFile: u.TokenFile, username: u.Username, password: u.Password}
	if a.Server, err = c.address(); err != nil {
		return nil, err
	}
	if c.Proxy != "" {
		if a.Proxy, err = proxyURL(c.Proxy); err != nil {
			return nil, err
		}
	}
	a.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.Name}
	if a.TLS.RootCAs, err = c.roots(); err != nil {
		return nil, err
	}
	if err := u.refused(); err != nil {
		return nil, err
	}
	if a.TLS.GetClientCertificate, err = u.certificate(); err != nil {
		return nil, err
	}
	if _, err := a.credentials(); err != nil {
		return nil, err
	}
	return a, nil
}

func (k *kubeconfig) current() (c cluster, u user, err error) {
	if k.CurrentContext == "" {
		return c, u, errors.New("current-context is missing")
	}
	for _, one := range k.Contexts {
		if one.Name != k.CurrentContext {
			continue
		}
		foundCluster, foundUser := false, one.Context.User == ""
		for _, named := range k.Clusters {
			if named.Name == one.Context.Cluster {
				c, foundCluster = named.Cluster, true
			}
		}
		for _, named := range k.Users {
			if named.Name == one.Context.User {
				u, foundUser = named.User, true
			}
		}
		if !foundCluster {
			return c, u, fmt.Errorf("context %q names the cluster %q, which is not there", one.Name, one.Context.Cluster)
		}
		if !foundUser {
			return c, u, fmt.Errorf("context %q names the user %q, which is not there", one.Name, one.Context.User)
		}
		return c, u, nil
	}
	return c, u, fmt.Errorf("current-context %q is not among the contexts", k.CurrentContext)
}

func (c cluster) address() (*url.URL, error) {
	server, err := url.Parse(c.Server)
	switch {
	case c.Server == "":
		return nil, errors.New("the cluster has no server")
	case err != nil || server.Host == "":
		return nil, fmt.Errorf("server %q is no URL such as https://host:port", c.Server)
	case server.Scheme == "http":
		return nil, fmt.Errorf("server %q is not https: a plan runs as root, and a token may not travel in the clear", c.Server)
	case server.Scheme != "https":
		return nil, fmt.Errorf("server %q is not https", c.Server)
	case server.RawQuery != "" || server.Fragment != "" || server.User != nil:
		return nil, errors.New("server has more than a host, a port and a path")
	case c.Insecure:
		return nil, errors.New("insecure-skip-tls-verify is not supported: give the server's CA as certificate-authority-data")
	}
	server.Path = strings.TrimRight(server.Path, "/")
	return server, nil
}

// proxyURL reads the address of a proxy. It may hold a password, so it is not quoted.
func proxyURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return nil, errors.New("proxy-url is no URL of a proxy such as http://host:port, https:// or socks5://")
	}
	return u, nil
}

// roots is the pinned CA; nil stands for the system's.
func (c cluster) roots() (*x509.CertPool, error) {
	var pem []byte
	var err error
	switch {
	case c.CAData != "":
		if pem, err = decode("certificate-authority-data", c.CAData); err != nil {
			return nil, err
		}
	case c.CAFile != "":
		if pem, err = readCredential("certificate-authority", c.CAFile); err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificate authority holds no PEM certificate")
	}
	return pool, nil
}

// refused are the ways to log in that would need another program or another identity.
func (u user) refused() error {
	switch {
	case u.Exec != nil:
		return errors.New("the user logs in by an exec plugin: the agent runs no programs for that, use a token or a client certificate")
	case u.AuthProvider != nil:
		return errors.New("the user logs in by an auth-provider, which is not supported: use a token or a client certificate")
	case u.As != "" || len(u.AsGroups) > 0:
		return errors.New("the user acts as another user (as, as-groups), which is not supported")
	}
	return nil
}

// certificate yields the client certificate at each handshake; nil when there is none.
func (u user) certificate() (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	if u.CertData == "" && u.CertFile == "" {
		return nil, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := dataOrFile("client-certificate", u.CertData, u.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := dataOrFile("client-key", u.KeyData, u.KeyFile)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client-certificate and client-key: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }, nil
}

// Authorization is the value of the header that says who we are; empty when a client
// certificate does or no client asks. Its error is that of a token file that cannot be read.
func (a *Access) Authorization() (string, error) { return a.credentials() }

func (a *Access) credentials() (string, error) {
	token := a.token
	if token == "" && a.tokenFile != "" {
		b, err := readCredential("tokenFile", a.tokenFile)
		if err != nil {
			return "", err
		}
		token = string(bytes.TrimSpace(b))
		if token == "" {
			return "", fmt.Errorf("tokenFile %s is empty", a.tokenFile)
		}
	}
	switch {
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errors.New("the token has characters that cannot be sent in a header")
	case token != "":
		return "Bearer " + token, nil
	case a.username != "":
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth(a.username, a.password)
		return r.Header.Get("Authorization"), nil
	}
	return "", nil
}

func dataOrFile(field, data, file string) ([]byte, error) {
	switch {
	case data != "":
		return decode(field+"-data", data)
	case file != "":
		return readCredential(field, file)
	}
	return nil, fmt.Errorf("%s is missing", field)
}

func decode(field, data string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not base64", field)
	}
	return b, nil
}

func readCredential(field, path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s %q is not an absolute path", field, path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %s is not a regular file", field, path)
	}
	b, err := durable.ReadFile(path, maxCredential)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return b, nil
}
