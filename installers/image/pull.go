// Pulling an image from the first place that has it.

package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	dialTimeout   = 30 * time.Second
	answerTimeout = time.Minute
	userAgent     = "rancher-system-agent/drover"
)

// user takes an image that is read below ctx, which abort ends.
type user func(ctx context.Context, image v1.Image, abort context.CancelCauseFunc) error

// pull asks the endpoints in order and hands the image of the first that has it to use.
// An image that breaks off is tried from the next one, so use may be called again.
func (s *Stager) pull(ctx context.Context, ref name.Reference, use user) error {
	config, err := loadRegistries(s.Registries)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range config.endpoints(ref.Context().RegistryStr()) {
		err := s.pullFrom(ctx, e, config.config(e.host), ref, use)
		var fault *unpackError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &fault):
			return err // the image or this host is to blame, not the place it came from
		}
		failed = append(failed, fmt.Errorf("pull from %s: %w", e, err))
	}
	return nowhere(failed)
}

// nowhere is why each of the places did not have the image, on one line.
type nowhere []error

func (n nowhere) Error() string {
	var all []string
	for _, err := range n {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

func (n nowhere) Unwrap() []error { return n }

func (s *Stager) pullFrom(ctx context.Context, e endpoint, c registryConfig, ref name.Reference, use user) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	at, err := e.reference(ref)
	if err != nil {
		return err
	}
	transport, err := e.transport(c.TLS)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	auth, err := s.authenticator(e.host, c.Auth)
	if err != nil {
		return err
	}
	image, err := remote.Image(at, remote.WithContext(ctx), remote.WithAuth(auth), remote.WithUserAgent(userAgent),
		remote.WithTransport(&policy{endpoint: e, next: transport}),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return err
	}
	return use(ctx, image, abort)
}

// reference is the image's name at the endpoint.
func (e endpoint) reference(ref name.Reference) (name.Reference, error) {
	options := []name.Option{name.StrictValidation}
	if e.plainHTTP {
		options = append(options, name.Insecure)
	}
	registry, err := name.NewRegistry(e.host, options...)
	if err != nil {
		return nil, err
	}
	repository := registry.Repo(e.rewrites.apply(ref.Context().RepositoryStr()))
	if digest, ok := ref.(name.Digest); ok {
		return repository.Digest(digest.DigestStr()), nil
	}
	return repository.Tag(ref.Identifier()), nil
}

// authenticator uses what registries.yaml has, else the Docker configuration, else nothing.
func (s *Stager) authenticator(host string, a *registryAuth) (authn.Authenticator, error) {
	if a == nil {
		found, err := dockerAuth(s.DockerConfig, host)
		if err != nil {
			return nil, err
		}
		if found == nil {
			return authn.Anonymous, nil
		}
		return authn.FromConfig(*found), nil
	}
	config := authn.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken}
	if a.Auth != "" {
		var err error
		if config.Username, config.Password, err = splitAuth(a.Auth); err != nil {
			return nil, err // refused when the file was read
		}
	}
	return authn.FromConfig(config), nil
}

// transport is made anew for each pull, as the files may change.
func (e endpoint) transport(t *registryTLS) (*http.Transport, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   4,
	}
	if t == nil {
		return transport, nil
	}
	config := &tls.Config{InsecureSkipVerify: t.InsecureSkipVerify} //nolint:gosec // the operator's choice for this registry
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authority of %s: %w", e.host, err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the authority of %s: there is no certificate in %s", e.host, t.CAFile)
		}
		config.RootCAs = pool
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate for %s: %w", e.host, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport.TLSClientConfig = config
	return transport, nil
}

// policy sends requests where the endpoint says, and none without TLS unless it says so:
// the library would fall back to plain HTTP for any private address.
type policy struct {
	endpoint endpoint
	next     http.RoundTripper
}

// RoundTrip is of http.RoundTripper.
func (p *policy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !p.endpoint.plainHTTP {
		return nil, fmt.Errorf("%s would be asked without TLS; write http:// before the endpoint in registries.yaml if that is wanted", r.URL.Host)
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2")
	if r.URL.Host != p.endpoint.host || !ok {
		return p.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.URL.Path = p.endpoint.path + rest
	if p.endpoint.mirrorOf != "" {
		// A mirror of several registries cannot tell them apart otherwise.
		query := r.URL.Query()
		query.Set("ns", p.endpoint.mirrorOf)
		r.URL.RawQuery = query.Encode()
	}
	return p.next.RoundTrip(r)
}
