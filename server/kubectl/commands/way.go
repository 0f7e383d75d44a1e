// The way of the commands to the cluster: no kubeconfig, no cache on a disk, no variable of the environment.

package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apinet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Requests in a second, on average and at once. Discovery has many.
const (
	requests = 50
	burst    = 300
)

// server is the address of the cluster's API in requests. It is never looked up: each connection goes to the server that
// has started the process.
const server = "http://cluster"

// way is the RESTClientGetter of all commands.
type way struct {
	transport *http.Transport
	namespace string
	as        rest.ImpersonationConfig

	once       sync.Once
	discovered discovery.CachedDiscoveryInterface
	err        error
}

// addFlags adds the flags that all commands have.
func (w *way) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&w.namespace, "namespace", "n", "", "The namespace")
	f.StringVar(&w.as.UserName, "as", "", "As whom to act, for who owns the cluster")
	f.StringArrayVar(&w.as.Groups, "as-group", nil, "As a member of which group to act; can be repeated")
	f.StringVar(&w.as.UID, "as-uid", "", "As whom to act, by uid")
}

// ToRESTConfig implements genericclioptions.RESTClientGetter. Each caller changes what it gets.
func (w *way) ToRESTConfig() (*rest.Config, error) {
	return &rest.Config{
		Host: server, Impersonate: w.as, QPS: requests, Burst: burst, UserAgent: "drover terminal", Transport: w.transport,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return straight{outspoken{next}} },
	}, nil
}

// straight refuses answers that send the client elsewhere, which the clients of the library would follow.
type straight struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err != nil || answer.StatusCode < 300 || answer.StatusCode >= 400 {
		return answer, err
	}
	_ = answer.Body.Close() // nothing of it is read
	return nil, fmt.Errorf("the API of the cluster answers with a redirect (status %d), which is not followed", answer.StatusCode)
}

// outspoken has the first request of all, which asks what there is, say why it was refused: the library shows "unknown" for
// that, and the warnings that an answer has.
type outspoken struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outspoken) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest || answer.Header.Get("Warning") != "" || r.URL.Path != "/api" && r.URL.Path != "/apis" {
		return answer, err
	}
	const most = 64 << 10 // of a sentence with its envelope
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	_ = answer.Body.Close() // it was read as far as it matters
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		return answer, nil
	}
	if warning, err := apinet.NewWarningHeader(299, "drover", status.Message); err == nil {
		answer.Header.Set("Warning", warning)
	}
	return answer, nil
}

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (w *way) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	w.once.Do(func() {
		config, _ := w.ToRESTConfig() // has no error
		client, err := discovery.NewDiscoveryClientForConfig(config)
		w.discovered, w.err = memory.NewMemCacheClient(client), err
	})
	return w.discovered, w.err
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (w *way) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := w.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter.
func (w *way) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["cluster"] = &clientcmdapi.Context{Cluster: "cluster", Namespace: w.namespace}
	config.CurrentContext = "cluster"
	// A namespace that the user names is an override: kubectl tells it from that of a context.
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: w.namespace}}
	return clientcmd.NewDefaultClientConfig(*config, overrides)
}
