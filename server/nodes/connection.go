// A connection to one cluster's API: credentials fetched from the control-plane
// host, and a transport whose every dial goes through that host's tunnel.

package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/drover-project/drover/installers/k3s"
	"github.com/drover-project/drover/tunnel"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// agentService is the name under which drover's agent serves the tunnel itself, in process.
	agentService   = "drover-agent:80"
	handshakeLimit = 10 * time.Second
	maxKubeconfig  = 1 << 20
)

// apiAddress is where a control-plane host serves the Kubernetes API to itself.
var apiAddress = net.JoinHostPort("127.0.0.1", fmt.Sprint(k3s.APIPort))

// connection is a working way to one cluster's API.
type connection struct {
	machineKey string
	config     *rest.Config
	client     *kubernetes.Clientset
	transport  http.RoundTripper
	close      func()
}

// connect fetches the credentials and makes a client. Nothing was asked of the API yet.
func (w *watcher) connect(ctx context.Context) (*connection, error) {
	machineKey, err := w.manager.pick(w.key)
	if err != nil {
		return nil, err
	}
	text, err := w.kubeconfig(ctx, machineKey)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		// The text holds a private key, and the library's error may quote it.
		return nil, fmt.Errorf("the kubeconfig on %s cannot be read as one", machineKey)
	}
	config.Host = "https://" + apiAddress
	config.Timeout = 0
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return w.manager.Tunnels.Dial(ctx, machineKey, network, apiAddress)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig on %s has no usable certificate: %w", machineKey, err)
	}
	base := purposes{
		plain: transport(config.Dial, tlsConfig),
		upgrades: transport(func(ctx context.Context, network, address string) (net.Conn, error) {
			return config.Dial(tunnel.Patient(ctx), network, address)
		}, tlsConfig),
	}
	wrapped, err := rest.HTTPWrappersForConfig(&rest.Config{BearerToken: config.BearerToken, Username: config.Username, Password: config.Password}, base)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig on %s has no usable credentials: %w", machineKey, err)
	}
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: config.Host, QPS: -1}, &http.Client{Transport: wrapped})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", machineKey, err)
	}
	return &connection{machineKey: machineKey, config: config, client: client, transport: wrapped, close: base.CloseIdleConnections}, nil
}

// purposes keeps the connections apart on which a person may pause (exec, port-forward) from
// those on which nobody should.
type purposes struct{ plain, upgrades *http.Transport }

// RoundTrip implements http.RoundTripper.
func (p purposes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return p.upgrades.RoundTrip(r)
	}
	return p.plain.RoundTrip(r)
}

// CloseIdleConnections closes what nobody uses.
func (p purposes) CloseIdleConnections() {
	p.plain.CloseIdleConnections()
	p.upgrades.CloseIdleConnections()
}

// transport dials through the tunnel and closes what nobody uses. It speaks HTTP/1.1: a
// second multiplexing over the tunnel's own would only add a queue behind a queue, and an
// upgrade (exec, port-forward) needs a connection of its own.
func transport(dial func(context.Context, string, string) (net.Conn, error), config *tls.Config) *http.Transport {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	return &http.Transport{
		DialContext: dial, TLSClientConfig: config, TLSHandshakeTimeout: handshakeLimit,
		IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 1000,
	}
}

// kubeconfig asks the agent on the host for the administrator's kubeconfig.
func (w *watcher) kubeconfig(ctx context.Context, machineKey string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	response, err := w.manager.AskAgent(ctx, machineKey, "/v1/kubeconfig?runtime="+w.runtime)
	if err != nil {
		return nil, fmt.Errorf("get the kubeconfig: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKubeconfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig from %s: %w", machineKey, err)
	case len(body) > maxKubeconfig:
		return nil, fmt.Errorf("read the kubeconfig from %s: more than %d bytes", machineKey, maxKubeconfig)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the agent on %s gives no kubeconfig: %.200s", machineKey, body)
	}
	return body, nil
}

// withoutURL takes the made-up URL out of an error; it says nothing to a reader.
func withoutURL(err error) error {
	var e interface{ Unwrap() error }
	if errors.As(err, &e) && e.Unwrap() != nil {
		return e.Unwrap()
	}
	return err
}
