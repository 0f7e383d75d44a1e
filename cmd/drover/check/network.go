package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpproxy"
)

// askLimit is how long an answer of the network may take.
const askLimit = 5 * time.Second

// externalStore finds members of an external etcd that do not answer, or are too old.
func externalStore(ctx context.Context, in Input) []Finding {
	if len(in.Endpoints) == 0 {
		return one(Finding{"store", OK, "the store is the server's own", ""})
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: in.Endpoints, TLS: in.EndpointTLS, DialTimeout: askLimit, Logger: zap.NewNop()})
	if err != nil {
		return one(Finding{"store", Error, fmt.Sprintf("etcd: %v", err), "correct etcd-endpoints"})
	}
	defer client.Close()
	var all []Finding
	for _, endpoint := range in.Endpoints {
		limited, cancel := context.WithTimeout(ctx, askLimit)
		status, err := client.Status(limited, endpoint)
		cancel()
		switch {
		case err != nil:
			all = append(all, Finding{"store", Error, fmt.Sprintf("etcd at %s does not answer: %v", endpoint, err), "see whether it runs, and whether etcd-ca, etcd-cert and etcd-key are its own"})
		case len(status.Errors) > 0:
			all = append(all, Finding{"store", Error, fmt.Sprintf("etcd at %s: %s", endpoint, strings.Join(status.Errors, ", ")), "look after that etcd first (etcdctl alarm list)"})
		case strings.HasPrefix(status.Version, "3.") && status.Version < "3.5":
			all = append(all, Finding{"store", Error, fmt.Sprintf("etcd at %s is %s", endpoint, status.Version), "the server needs etcd 3.5 or later"})
		default:
			all = append(all, Finding{"store", OK, fmt.Sprintf("etcd at %s is %s, with %.1f MiB", endpoint, status.Version, float64(status.DbSize)/(1<<20)), ""})
		}
	}
	return all
}

// soon is how long before its end a certificate is warned of.
const soon = 14 * 24 * time.Hour

// certificate finds a certificate that does not fit its key, its authority, the time, or the address by which hosts reach the server.
func certificate(_ context.Context, in Input) []Finding {
	own := in.CertFile == ""
	certFile, keyFile, caFile := in.CertFile, in.CertKeyFile, in.CAFile
	if own {
		certFile, keyFile, caFile = filepath.Join(in.DataDir, "tls", "server.crt"), filepath.Join(in.DataDir, "tls", "server.key"), filepath.Join(in.DataDir, "tls", "ca.crt")
		if !there(certFile) {
			return one(Finding{"certificate", OK, "the first start makes one of the server's own authority", ""})
		}
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return one(Finding{"certificate", Error, fmt.Sprintf("%s with %s: %v", certFile, keyFile, err), "give a certificate and its own key in PEM (tls-cert, tls-key)"})
	}
	leaf, now := pair.Leaf, in.Now()
	if own {
		return one(Finding{"certificate", OK, "of the server's own authority, and renewed by itself", ""})
	}
	if now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return one(Finding{"certificate", Error, fmt.Sprintf("%s counts from %s to %s", certFile, leaf.NotBefore.Format(time.DateOnly), leaf.NotAfter.Format(time.DateOnly)), "renew it, or correct the clock"})
	}
	if err := chain(pair, caFile, now); err != nil {
		return one(Finding{"certificate", Error, fmt.Sprintf("%s: %v", certFile, err), "put the intermediate certificates behind it into the same file, and give its authority as tls-ca unless that is a public one"})
	}
	if host := hostOf(in.ServerURL); host != "" {
		if err := leaf.VerifyHostname(host); err != nil {
			return one(Finding{"certificate", Error, fmt.Sprintf("%s is not good for %s, the host of server-url: %v", certFile, host, err), "hosts and people would refuse it: get one with that name, or change server-url"})
		}
	}
	if left := leaf.NotAfter.Sub(now); left < soon {
		return one(Finding{"certificate", Warning, fmt.Sprintf("%s ends in %.0f days", certFile, left.Hours()/24), "renew it, and restart the server"})
	}
	return one(Finding{"certificate", OK, fmt.Sprintf("%s, until %s", certFile, leaf.NotAfter.Format(time.DateOnly)), ""})
}

// chain verifies a certificate up to its authority, or the system's.
func chain(pair tls.Certificate, caFile string, now time.Time) error {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return err
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", caFile)
		}
	}
	between := x509.NewCertPool()
	for _, raw := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		between.AddCert(c)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	return err
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// address finds a server-url that hosts could not use.
func address(ctx context.Context, in Input) []Finding {
	if in.ServerURL == "" {
		return one(Finding{"server-url", Warning, "no address is given: hosts get this host's first one", "name the one by which hosts and people reach the server (server-url)"})
	}
	u, err := url.Parse(in.ServerURL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return one(Finding{"server-url", Error, fmt.Sprintf("%.200q is no URL such as https://drover.example.com:8443", in.ServerURL), "correct server-url"})
	}
	var all []Finding
	if _, listens, err := net.SplitHostPort(in.Listen); err == nil && u.Port() == "" && listens != "443" {
		all = append(all, Finding{"server-url", Warning, fmt.Sprintf("%s leads to port 443, and the server listens on %s", in.ServerURL, in.Listen), "add the port to server-url, unless a balancer takes it there"})
	}
	if net.ParseIP(u.Hostname()) != nil {
		return append(all, Finding{"server-url", OK, in.ServerURL, ""})
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		reason := err.Error()
		if of, ok := errors.AsType[*net.DNSError](err); ok {
			reason = of.Err
		}
		return append(all, Finding{"server-url", Error, fmt.Sprintf("%s is not known to this host's name service: %s", u.Hostname(), reason), "make the name known, or use an address"})
	}
	return append(all, Finding{"server-url", OK, fmt.Sprintf("%s is %s", u.Hostname(), strings.Join(found, ", ")), ""})
}

// proxy finds a proxy that is none, or through which the server would ask itself.
func proxy(_ context.Context, in Input) []Finding {
	value := in.Environ("HTTPS_PROXY")
	if value == "" {
		return one(Finding{"proxy", OK, "none", ""})
	}
	shown := "the proxy of HTTPS_PROXY"
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		return one(Finding{"proxy", Error, shown + " is no URL such as http://proxy.lan:3128", "correct HTTPS_PROXY"})
	}
	to, err := url.Parse(in.ServerURL)
	if err != nil || to.Host == "" {
		return one(Finding{"proxy", OK, shown + " is at " + u.Host, ""})
	}
	by, err := (&httpproxy.Config{HTTPSProxy: value, NoProxy: in.Environ("NO_PROXY")}).ProxyFunc()(to)
	if err == nil && by != nil {
		return one(Finding{"proxy", Warning, fmt.Sprintf("%s at %s would carry requests to the server itself", shown, u.Host), "add " + to.Hostname() + " to NO_PROXY"})
	}
	return one(Finding{"proxy", OK, shown + " is at " + u.Host, ""})
}
