// A connection to one cluster's API: credentials fetched from the control-plane host, or those of
// the cluster's agent, and a transport whose every dial goes through that one's tunnel.

package downstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"
)

const (
	// kubeconfigLimit is how long the agent on a host may take to hand out the kubeconfig.
	kubeconfigLimit = 10 * time.Second
	maxKubeconfig   = 1 << 20
)

const apiHost = "127.0.0.1"

// apiAddress is where a control-plane host serves the Kubernetes API to itself.
var apiAddress = net.JoinHostPort(apiHost, fmt.Sprint(installers.APIPort))

// connection is a working way to one cluster's API.
type connection struct {
	subject records.Subject
	// place is where the API is, for errors.
	place string
	// from is who answers, for errors about an answer.
	from   string
	client *kubernetes.Clientset
	// ca is the CA of the API, in PEM.
	ca []byte
	// admin and bare are for requests of people, with the administrator's credentials and with none.
	admin, bare http.RoundTripper
	// excess has something when an answer to a question of the server's own was refused for its size.
	excess chan *answers.TooLargeError
	// tooLarge puts it there.
	tooLarge func(*answers.TooLargeError)
	// doubts has something when a request could not be sent over it.
	doubts chan struct{}
	// over ends when another connection is used, or this one is given up; its cause says which.
	over  context.Context //nolint:containedctx // is the life of the connection
	end   context.CancelCauseFunc
	close func()
}

// credentials are the administrator's: those of the cluster's state for one of RKE1, and otherwise those that the distribution
// left on the host.
func (w *watcher) credentials(ctx context.Context, subject records.Subject) (*rest.Config, error) {
	if d, ok := w.clusters.State.RKEStates.Get(string(w.key)); ok {
		return rke1Credentials(w.key, d.Value)
	}
	text, err := w.kubeconfig(ctx, subject)
	if err != nil {
		return nil, err
	}
	k, err := kubeconfig.Read(text)
	if err == nil && len(k.CA) == 0 {
		err = errors.New("its cluster has no certificate-authority-data")
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %s: %w", subject.Machine(), err)
	}
	return &rest.Config{
		BearerToken: k.Token, Username: k.Username, Password: k.Password,
		TLSClientConfig: rest.TLSClientConfig{CAData: k.CA, CertData: k.Certificate, KeyData: k.Key},
	}, nil
}

// connect gets the credentials of a way and makes a client. Nothing was asked of the API yet.
func (w *watcher) connect(ctx context.Context, subject records.Subject) (*connection, error) {
	config, address, err := w.way(ctx, subject)
	if err != nil {
		return nil, err
	}
	config.Host = "https://" + address
	config.Timeout = 0
	dial := func(patient bool) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, _ string) (net.Conn, error) {
			return w.clusters.Hosts.Dial(ctx, subject, tunnel.Target{Network: network, Address: address, Patient: patient})
		}
	}
	config.Dial = dial(false)
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("the credentials for the Kubernetes API %s have no usable certificate: %w", w.place(subject), err)
	}
	base := purposes{plain: transport(config.Dial, tlsConfig), upgrades: upgrades(dial(true), tlsConfig)}
	// A certificate would be believed before any token of a request.
	anonymous := tlsConfig.Clone()
	anonymous.Certificates, anonymous.GetClientCertificate = nil, nil
	bare := purposes{plain: transport(config.Dial, anonymous), upgrades: upgrades(dial(true), anonymous)}
	credentials := &rest.Config{BearerToken: config.BearerToken, Username: config.Username, Password: config.Password}
	wrapped, err := rest.HTTPWrappersForConfig(credentials, base)
	if err != nil {
		return nil, fmt.Errorf("the credentials for the Kubernetes API %s are not usable: %w", w.place(subject), err)
	}
	// Answers to the server's own questions are bounded, in size and in time; requests of people are streams, and may wait.
	own := transport(config.Dial, tlsConfig)
	own.ResponseHeaderTimeout = listLimit
	excess, from := make(chan *answers.TooLargeError, 1), w.from(subject)
	tooLarge := func(e *answers.TooLargeError) {
		select {
		case excess <- e:
		default:
		}
	}
	bounded := &answers.Transport{Next: own, Of: bounds.Of, From: from, Budget: w.clusters.Budget, OnTooLarge: tooLarge}
	impatient, err := rest.HTTPWrappersForConfig(credentials, bounded)
	if err != nil {
		return nil, fmt.Errorf("the credentials for the Kubernetes API %s are not usable: %w", w.place(subject), err)
	}
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: config.Host, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}, QPS: -1, WarningHandler: rest.NoWarnings{}}, &http.Client{Transport: impatient})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", subject, err)
	}
	over, end := context.WithCancelCause(context.WithoutCancel(ctx))
	closeIdle := func() { base.CloseIdleConnections(); bare.CloseIdleConnections(); own.CloseIdleConnections() }
	return &connection{
		subject: subject, place: w.place(subject), from: from, client: client, ca: config.CAData, admin: wrapped, bare: bare,
		doubts: make(chan struct{}, 1), excess: excess, tooLarge: tooLarge, over: over, end: end, close: closeIdle,
	}, nil
}

// purposes keeps the connections apart on which a person may pause (exec, port-forward) from
// those on which no request should.
type purposes struct{ plain, upgrades *http.Transport }

// RoundTrip implements http.RoundTripper.
func (p purposes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return p.upgrades.RoundTrip(r)
	}
	return p.plain.RoundTrip(r)
}

// CloseIdleConnections closes what is not in use.
func (p purposes) CloseIdleConnections() {
	p.plain.CloseIdleConnections()
	p.upgrades.CloseIdleConnections()
}

// transport dials through the tunnel and closes what is not in use. It speaks HTTP/1.1: a
// second multiplexing over the tunnel's own would only add a queue behind a queue, and an
// upgrade (exec, port-forward) needs a connection of its own. Nothing is sent in plain text, and nothing past the tunnel: there is
// no proxy.
func transport(dial func(context.Context, string, string) (net.Conn, error), config *tls.Config) *http.Transport {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	config.ServerName = cmp.Or(config.ServerName, apiHost)
	return &http.Transport{
		DialTLSContext: dialTLS(dial, config),
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			return nil, fmt.Errorf("dial %.100s: a cluster's API is asked over TLS alone", address)
		},
		// What comes compressed is passed on so, or refused.
		DisableCompression: true, MaxResponseHeaderBytes: answers.HeaderBytes,
		IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 1000,
	}
}

// upgrades is a transport for requests that ask for an upgrade. What was refused one is not used again: its other end may
// believe that it was granted.
func upgrades(dial func(context.Context, string, string) (net.Conn, error), config *tls.Config) *http.Transport {
	t := transport(dial, config)
	t.DisableKeepAlives = true
	return t
}

// kubeconfig asks the agent on the host for the administrator's kubeconfig.
func (w *watcher) kubeconfig(ctx context.Context, subject records.Subject) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeconfigLimit)
	defer cancel()
	response, err := w.clusters.Hosts.Ask(ctx, subject, "/v1/kubeconfig?runtime="+w.runtime)
	if err != nil {
		return nil, fmt.Errorf("get the kubeconfig: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKubeconfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig from %s: %w", subject.Machine(), err)
	case len(body) > maxKubeconfig:
		return nil, fmt.Errorf("read the kubeconfig from %s: more than %d bytes", subject.Machine(), maxKubeconfig)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the agent on %s gives no kubeconfig: %.200s", subject.Machine(), body)
	}
	return body, nil
}
