// What the API behind the tunnel of an agent has to prove before anything else is carried there: that its certificate is of the
// authorities that are pinned and for the name that is, and that it takes the token that the agent sent.

package clusteragents

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

const (
	// askWithin bounds one question, maxAnswer what is read of its answer and maxBundle the authorities that are kept, in bytes.
	askWithin = 10 * time.Second
	maxAnswer = 256 << 10
	maxBundle = 64 << 10
	// identity is the object whose UID a cluster has for its whole life, and authorities where it says which authorities its API
	// server has. Source: Kubernetes 1.20 (kube-root-ca.crt); older clusters have none.
	identity    = "/api/v1/namespaces/kube-system"
	authorities = identity + "/configmaps/" + RootCA
)

// fault is why an API is not the one that it should be, in words that hold nothing of what its other end says.
type fault string

const (
	foreign fault = "the certificate of its API server is not of the authority that the cluster is known by"
	renamed fault = "the certificate of its API server is for another name than the one that the cluster was let in by"
	denied  fault = "its API server does not take the token that the agent sent"
	silent  fault = "its API server does not answer as one does"
)

// seen is what was seen of an API.
type seen struct {
	fault  fault
	detail string // more of the fault, for the agent alone
	uid    string
	// ca are the authorities that the API says it has, in PEM; empty when it says none, or none that its own certificate is of.
	ca string
}

type dialer = func(context.Context, tunnel.Target) (net.Conn, error)

// ask asks the API that an agent announces, through the agent's own tunnel. The connection is verified by what is pinned in the record;
// by what the agent says only while nothing is.
func ask(ctx context.Context, dial dialer, is, said records.ClusterAgent) *seen {
	pin := is
	pin.CA = cmp.Or(pin.CA, said.CA)
	if pin.ServerName() == "" {
		pin.Address = said.Address
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: pin.ServerName(), MinVersion: tls.VersionTLS12}
	known, _ := connect.Certificates(pin.CA) // none that can be read verifies nothing
	for _, one := range append(known, trusted(pin.CA, said.CA)...) {
		config.RootCAs.AddCert(one)
	}
	api := question{address: said.Address, token: said.Token}
	transport := &http.Transport{MaxResponseHeaderBytes: maxAnswer, MaxIdleConnsPerHost: 1, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		raw, err := dial(ctx, tunnel.Target{Network: "tcp", Address: said.Address})
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // what the handshake failed with is worth more
			return nil, err
		}
		return conn, nil
	}}
	defer transport.CloseIdleConnections()
	api.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	var cluster struct{ Metadata struct{ UID string } }
	if _, err := api.get(ctx, identity, &cluster); err != nil {
		return faulty(err)
	}
	if cluster.Metadata.UID == "" || len(cluster.Metadata.UID) > 64 {
		return &seen{fault: silent, detail: ": its namespace kube-system has no UID"}
	}
	found := &seen{uid: cluster.Metadata.UID}
	var bundle struct{ Data map[string]string }
	if chain, err := api.get(ctx, authorities, &bundle); err == nil && verifies(bundle.Data["ca.crt"], chain, config.ServerName) {
		found.ca = bundle.Data["ca.crt"]
	}
	return found
}

// question is a way to one API.
type question struct {
	client         *http.Client
	address, token string
}

// statusError is an answer other than 200.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("it answers with status %d", e.status) }

// get reads an object and returns the certificates that the API has shown.
func (q question) get(ctx context.Context, path string, into any) ([]*x509.Certificate, error) {
	ctx, done := context.WithTimeout(ctx, askWithin)
	defer done()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+q.address+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+q.token)
	r.Header.Set("Accept", "application/json")
	answer, err := q.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, &statusError{answer.StatusCode}
	case answer.TLS == nil:
		return nil, errors.New("it does not speak TLS")
	}
	if json.Unmarshal(text, into) != nil {
		return nil, errors.New("its answer is no object of Kubernetes")
	}
	return answer.TLS.PeerCertificates, nil
}

// faulty is what an error says of an API. Only errors of our own are told in more words.
func faulty(err error) *seen {
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	name, isName := errors.AsType[x509.HostnameError](err)
	status, isStatus := errors.AsType[*statusError](err)
	switch {
	case isName:
		return &seen{fault: renamed, detail: ", " + name.Host}
	case isUnknown, isInvalid && invalid.Reason != x509.Expired:
		return &seen{fault: foreign}
	case isInvalid:
		return &seen{fault: silent, detail: ": its certificate has expired or is not valid yet"}
	case isStatus && (status.status == http.StatusUnauthorized || status.status == http.StatusForbidden):
		return &seen{fault: denied}
	case isStatus:
		return &seen{fault: silent, detail: ": " + status.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &seen{fault: silent, detail: fmt.Sprintf(": no answer within %s", askWithin)}
	}
	return &seen{fault: silent}
}

// verifies says whether a certificate is of the authorities of a bundle.
func verifies(bundle string, chain []*x509.Certificate, name string) bool {
	all, err := connect.Certificates(bundle)
	if err != nil || len(bundle) > maxBundle || len(chain) == 0 {
		return false
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: name}
	for _, one := range all {
		options.Roots.AddCert(one)
	}
	for _, one := range chain[1:] {
		options.Intermediates.AddCert(one)
	}
	_, err = chain[0].Verify(options)
	return err == nil
}

// trusted are the authorities of a bundle that are pinned, or that have been signed with the key of a pinned one.
func trusted(pinned, bundle string) []*x509.Certificate {
	pins, err := connect.Certificates(pinned)
	if err != nil {
		return nil
	}
	all, err := connect.Certificates(bundle)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(one *x509.Certificate) bool {
		return !slices.ContainsFunc(pins, func(pin *x509.Certificate) bool {
			return pin.Equal(one) || one.IsCA && one.CheckSignatureFrom(pin) == nil
		})
	})
}

// RootCA is the ConfigMap in which each namespace has the authority of the API server. Source: Kubernetes 1.20.
const RootCA = "kube-root-ca.crt"

// Follow is a pinned bundle with those authorities that a cluster itself says it has beside them. One of what it says has to be pinned, or
// signed by one that is; else the bundle stays as it is.
func Follow(pinned, said string) string {
	all, err := connect.Certificates(said)
	if err != nil || len(trusted(pinned, said)) == 0 {
		return pinned
	}
	return encode(all, pinned)
}

// encode is a bundle with further authorities in it, those that it has already left out. A bundle that would be too large stays as it is.
func encode(more []*x509.Certificate, bundle string) string {
	known, err := connect.Certificates(bundle)
	if err != nil {
		return bundle
	}
	text := strings.Builder{}
	text.WriteString(bundle)
	for _, one := range more {
		if slices.ContainsFunc(known, one.Equal) {
			continue
		}
		if !strings.HasSuffix(text.String(), "\n") {
			text.WriteString("\n")
		}
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: one.Raw}) // which a Builder takes
	}
	if text.Len() > maxBundle {
		return bundle
	}
	return text.String()
}
