// Package kube is the Kubernetes API of an RKE1 cluster: what an engine reads and writes there
// once the control plane answers. It is reached from a control-plane host itself, so that
// nothing but the way to hosts is needed.
package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/tunnel/answers"
)

// System is the namespace of what RKE keeps in a cluster.
const System = "kube-system"

const (
	// callLimit bounds one request.
	callLimit = 30 * time.Second
	// perSecond and burst bound the requests of one run.
	perSecond, burst = 50, 100
	// idleConnections is how many connections are kept for the next request.
	idleConnections = 4
	// manager is who owns the fields that are applied.
	manager = "drover"
)

// Credentials are the administrator's, in PEM.
type Credentials struct {
	CA, Certificate, Key []byte
}

// API is the API of one cluster. Its methods may be called from many goroutines.
type API struct {
	Client kubernetes.Interface

	dynamic dynamic.Interface
	mapper  meta.ResettableRESTMapper
}

// Open is ready to ask. dial opens a connection to any API server of the cluster. It returns an error for credentials that cannot be read.
func Open(c Credentials, dial func(ctx context.Context) (net.Conn, error)) (*API, error) {
	tlsConfig, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		ServerName: "kubernetes", CAData: c.CA, CertData: c.Certificate, KeyData: c.Key,
	}})
	if err != nil {
		return nil, fmt.Errorf("credentials of the cluster's API: %w", err)
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	over := &answers.Transport{From: "the cluster's API", Of: bounds.Of, Next: &http.Transport{
		// There is no other way than over a host, and none in plain text.
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return encrypted(ctx, conn, tlsConfig)
		},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("a cluster's API is asked over TLS alone")
		},
		MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: callLimit, DisableCompression: true, MaxResponseHeaderBytes: answers.HeaderBytes,
	}}
	// The address is never dialled. Every API server's certificate has the name, with any name of its host.
	config := &rest.Config{Host: "https://kubernetes.default:6443", ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}, QPS: perSecond, Burst: burst, UserAgent: manager, WarningHandler: rest.NoWarnings{}}
	asking := &http.Client{Transport: over, Timeout: callLimit}
	client, err := kubernetes.NewForConfigAndClient(config, asking)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster's API: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, asking)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster's API: %w", err)
	}
	return With(client, objects, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))), nil
}

// encrypted speaks TLS over a connection to an API server.
func encrypted(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error says more
		return nil, err
	}
	return secured, nil
}

// Reach is a client of the API that a kubeconfig leads to. Its answers are bounded, and no redirect is followed. It returns an error for an address
// or credentials that cannot be used.
func Reach(k *kubeconfig.Config) (kubernetes.Interface, error) {
	if server, err := url.Parse(k.Server); err != nil || server.Scheme != "https" || server.Host == "" {
		return nil, errors.New("the server of its cluster is no URL such as https://host:6443")
	}
	config := &rest.Config{
		Host: k.Server, Timeout: callLimit, QPS: perSecond, Burst: burst, UserAgent: manager,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}, DisableCompression: true, WarningHandler: rest.NoWarnings{}, BearerToken: k.Token, Username: k.Username, Password: k.Password,
		TLSClientConfig: rest.TLSClientConfig{ServerName: k.TLSName, CAData: k.CA, CertData: k.Certificate, KeyData: k.Key},
	}
	way, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the credentials of the kubeconfig: %w", err)
	}
	way.Transport = &answers.Transport{From: "the cluster's API", Of: bounds.Of, Next: way.Transport}
	client, err := kubernetes.NewForConfigAndClient(config, way)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster's API: %w", err)
	}
	return client, nil
}

// With is the API through these clients.
func With(client kubernetes.Interface, objects dynamic.Interface, mapper meta.ResettableRESTMapper) *API {
	return &API{Client: client, dynamic: objects, mapper: mapper}
}

// Await asks for the API's version until it answers; each is called with what it answers instead. The error is that of the last try, or the context's
// cause.
func (a *API) Await(ctx context.Context, tries int, pause time.Duration, each func(attempt int, err error)) error {
	for attempt := 1; ; attempt++ {
		_, err := a.Client.Discovery().ServerVersion()
		if err == nil {
			return nil
		}
		each(attempt, err)
		if attempt >= tries {
			return fmt.Errorf("ask the cluster's API: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ask the cluster's API: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
