package clusteragents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

var serial atomic.Int64

// ca is an authority.
type ca struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// authority makes a new one, signed by another one or by itself.
func authority(t *testing.T, by *ca) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return certify(t, key, by)
}

// certify makes an authority of a key.
func certify(t *testing.T, key *ecdsa.PrivateKey, by *ca) *ca {
	t.Helper()
	// All have one name: what tells authorities apart is their keys.
	template := &x509.Certificate{SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: "kubernetes"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
		template.Subject.CommonName = "kubernetes-next"
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// serving is a certificate of an API server for a name.
func (c *ca) serving(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial.Add(1)), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// cluster is the API server of a Kubernetes: TLS with a certificate of its authority, and the little that an admission asks.
type cluster struct {
	address string
	token   string // that it takes

	mu       sync.Mutex
	root     *ca
	uid      string
	bundle   string // what it says its authorities are
	serving  tls.Certificate
	asked    []string // requests, with their tokens
	accepted int      // connections
	leads    string   // where it leads every caller
	padding  int      // bytes that its answers have besides
}

func newCluster(t *testing.T) *cluster { return clusterOf(t, authority(t, nil), "127.0.0.1") }

func clusterOf(t *testing.T, root *ca, name string) *cluster {
	t.Helper()
	c := &cluster{root: root, uid: fmt.Sprint("uid-", serial.Add(1)), bundle: string(root.pem), serving: root.serving(t, name), token: "account-token"}
	web := httptest.NewUnstartedServer(c)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepted++
		return &tls.Config{Certificates: []tls.Certificate{c.serving}, NextProtos: []string{"http/1.1"}}, nil
	}}
	web.StartTLS()
	t.Cleanup(web.Close)
	c.address = web.Listener.Addr().String()
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.Path+" "+r.Header.Get("Authorization"))
	switch {
	case r.Header.Get("Authorization") != "Bearer "+c.token:
		w.WriteHeader(http.StatusUnauthorized)
	case c.leads != "":
		http.Redirect(w, r, c.leads, http.StatusFound)
	case r.URL.Path == identity:
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]string{"name": "kube-system", "uid": c.uid}, "padding": strings.Repeat("x", c.padding)})
	case r.URL.Path == authorities && c.bundle != "":
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": map[string]string{"ca.crt": c.bundle}})
	default:
		http.NotFound(w, r)
	}
}

func (c *cluster) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *cluster) change(f func(c *cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// headers are those of an agent in the cluster, which says that the authorities are those of the bundles, or its root.
func (c *cluster) headers(b *bed, token string, bundles ...[]byte) http.Header {
	if len(bundles) == 0 {
		bundles = [][]byte{c.root.pem}
	}
	return b.headersOf(token, c.address, c.token, slices.Concat(bundles...))
}

// record waits until what is kept of the agent of office is as wanted.
func (b *bed) record(what string, want func(records.ClusterAgent) bool) records.ClusterAgent {
	b.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		d, _ := b.state.ClusterAgents.Get(office)
		if want(d.Value) {
			return d.Value
		}
		if time.Now().After(limit) {
			b.Fatalf("%s: kept is %+v", what, d.Value)
		}
	}
}

// TestAnAuthorityIsPinned: a stranger who has the registration token and all that is public of a cluster, which is its authority's
// certificate and its address, is not taken for the cluster: not beside it, and not after its tunnel has broken.
func TestAnAuthorityIsPinned(t *testing.T) {
	for name, lie := range map[string]func(b *bed, actual, liar *cluster) http.Header{
		"by the public authority alone": func(b *bed, actual, liar *cluster) http.Header { return liar.headers(b, "good", actual.root.pem) },
		"by both authorities": func(b *bed, actual, liar *cluster) http.Header {
			return liar.headers(b, "good", actual.root.pem, liar.root.pem)
		},
		"by an authority of the same name": func(b *bed, actual, liar *cluster) http.Header {
			return liar.headers(b, "good", liar.root.pem, actual.root.pem)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			actual, liar := newCluster(t), newCluster(t)
			liar.change(func(c *cluster) { c.uid, c.bundle = actual.uid, string(actual.root.pem)+string(c.root.pem) })
			stop := b.agent(actual.headers(b, "good"))
			b.await("c-abcde true")
			was, _ := b.state.ClusterAgents.Get(office)
			<-b.let
			b.agent(lie(b, actual, liar))
			refused := func(is records.ClusterAgent) bool { return strings.Contains(is.Refused, "another Kubernetes") }
			is := b.record("the liar is refused", refused)
			if is.Refused = ""; is != was.Value {
				t.Errorf("a liar changed what is known of the cluster:\n%+v\n%+v", is, was.Value)
			}
			stop()
			b.await("c-abcde false")
			<-b.let
			<-b.let // it tries again, and is alone now
			if _, err := b.hosts.Dial(t.Context(), "c-abcde", tunnel.Target{Network: "tcp", Address: actual.address}); err == nil {
				t.Error("a tunnel of the liar is dialled through")
			}
			if asked := liar.requests(); len(asked) > 0 {
				t.Errorf("the liar got %v", asked)
			}
			liar.mu.Lock()
			defer liar.mu.Unlock()
			if liar.accepted == 0 {
				t.Error("the liar's API was never tried, so that the test shows nothing")
			}
		})
	}
}

// TestWhoHasTheAuthorityIsNotYetTheCluster: one authority may have signed for many.
func TestWhoHasTheAuthorityIsNotYetTheCluster(t *testing.T) {
	b := newBed(t)
	actual := newCluster(t)
	b.agent(actual.headers(b, "good"))
	b.await("c-abcde true")
	for name, other := range map[string]struct {
		api  *cluster
		want string
	}{
		"for another name":     {clusterOf(t, actual.root, "api.example.com"), "for another name"},
		"of another identity":  {clusterOf(t, actual.root, "127.0.0.1"), "another Kubernetes"},
		"that takes no token":  {func() *cluster { c := clusterOf(t, actual.root, "127.0.0.1"); c.token = "its-own"; return c }(), "does not take the token"},
		"that is a web server": {func() *cluster { c := clusterOf(t, actual.root, "127.0.0.1"); c.uid = ""; return c }(), "does not answer as one does"},
	} {
		t.Run(name, func(t *testing.T) {
			b.T = t
			stop := b.agent(b.headers("good", other.api.address, actual.root.pem))
			b.record("refused", func(is records.ClusterAgent) bool {
				return strings.Contains(is.Refused, other.want) && is.Address == actual.address
			})
			stop()
		})
	}
}

// TestANewAuthorityIsProvenByTheOld: by its signature, or by the word of the API that has proved to be the cluster's.
func TestANewAuthorityIsProvenByTheOld(t *testing.T) {
	t.Run("signed", func(t *testing.T) {
		b := newBed(t)
		actual := newCluster(t)
		old := actual.root
		stop := b.agent(actual.headers(b, "good"))
		b.await("c-abcde true")
		next := authority(t, old)
		actual.change(func(c *cluster) { c.root, c.serving, c.bundle = next, next.serving(t, "127.0.0.1"), "" })
		stop()
		b.agent(actual.headers(b, "good"))
		b.record("the next authority is pinned", func(is records.ClusterAgent) bool {
			return strings.Contains(is.CA, string(next.pem)) && is.Refused == ""
		})
	})
	t.Run("said by the cluster", func(t *testing.T) {
		b := newBed(t)
		actual := newCluster(t)
		old, next := actual.root, authority(t, nil)
		stop := b.agent(actual.headers(b, "good"))
		b.await("c-abcde true")
		b.gone(stop)
		actual.change(func(c *cluster) { c.bundle = string(old.pem) + string(next.pem) })
		stop = b.agent(actual.headers(b, "good", old.pem, next.pem))
		b.record("the next authority is pinned beside the old", func(is records.ClusterAgent) bool { return is.CA == string(old.pem)+string(next.pem) })
		b.await("c-abcde true")
		b.gone(stop)
		actual.change(func(c *cluster) { c.root, c.serving, c.bundle = next, next.serving(t, "127.0.0.1"), string(next.pem) })
		b.agent(actual.headers(b, "good"))
		b.record("the old one has ended", func(is records.ClusterAgent) bool { return is.CA == string(next.pem) && is.Refused == "" })
	})
	t.Run("said by the agent alone", func(t *testing.T) {
		b := newBed(t)
		actual := newCluster(t)
		stop := b.agent(actual.headers(b, "good"))
		b.await("c-abcde true")
		b.gone(stop)
		<-b.let
		b.agent(actual.headers(b, "good", actual.root.pem, authority(t, nil).pem))
		b.await("c-abcde true")
		if is, _ := b.state.ClusterAgents.Get(office); is.Value.CA != string(actual.root.pem) {
			t.Errorf("pinned: %s", is.Value.CA)
		}
	})
}

// TestBundlesAreBounded: what a cluster or its agent says of authorities is kept up to a size, and of authorities alone.
func TestBundlesAreBounded(t *testing.T) {
	old := authority(t, nil)
	serving := old.serving(t, "127.0.0.1")
	leaf := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serving.Certificate[0]})
	next := authority(t, old)
	if got := trusted(string(old.pem), string(leaf)+string(next.pem)); len(got) != 1 || got[0].Subject.String() == "" && !got[0].IsCA {
		t.Errorf("%d certificates are taken for authorities because one has signed them", len(got))
	}
	chain, err := connect.Certificates(string(leaf))
	if err != nil {
		t.Fatal(err)
	}
	if !verifies(string(old.pem), chain, "127.0.0.1") || verifies(string(old.pem), chain, "api.example.com") || verifies(string(authority(t, nil).pem), chain, "127.0.0.1") || verifies(string(old.pem), nil, "127.0.0.1") {
		t.Error("a certificate is not verified by what its API says")
	}
	full := string(old.pem)
	for len(full) <= maxBundle-2*len(next.pem) {
		full += string(old.pem)
	}
	more, err := connect.Certificates(string(next.pem))
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(more, full); !strings.HasSuffix(got, string(next.pem)) || len(got) > maxBundle {
		t.Errorf("an authority that fits is not kept: %d bytes", len(got))
	}
	for len(full) <= maxBundle-len(old.pem) {
		full += string(old.pem)
	}
	if got := encode(more, full); got != full {
		t.Errorf("a bundle of %d bytes has become one of %d", len(full), len(got))
	}
	if full += string(old.pem); len(full) <= maxBundle || verifies(full, chain, "127.0.0.1") {
		t.Errorf("a bundle of %d bytes is kept", len(full))
	}
}

// TestATokenIsNotSentElsewhere: an API that leads on to another address is none, whether through the tunnel or by a connection that the
// server would open itself, and nothing is asked there.
func TestATokenIsNotSentElsewhere(t *testing.T) {
	plain := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { plain <- r.URL.Path }))
	t.Cleanup(web.Close)
	for name, to := range map[string]func(actual *cluster) string{
		"in TLS":        func(actual *cluster) string { return "https://" + actual.address + identity },
		"in plain text": func(*cluster) string { return web.URL + identity },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			actual := newCluster(t)
			leads := clusterOf(t, actual.root, "127.0.0.1")
			leads.change(func(c *cluster) { c.leads = to(actual) })
			b.agent(leads.headers(b, "good"))
			is := b.record("refused", func(is records.ClusterAgent) bool { return is.Refused != "" || is.Ready() })
			if is.Ready() || !strings.Contains(is.Refused, "does not answer as one does") || len(actual.requests())+len(plain) > 0 || len(leads.requests()) != 1 {
				t.Errorf("kept: %+v; elsewhere came %v and %d, and here %v", is, actual.requests(), len(plain), leads.requests())
			}
		})
	}
}

// TestAnAnswerIsBounded: what a cluster says it is called is kept for as long as the cluster is, and so no more than a UID can have; of an
// answer no more is read than a namespace can have.
func TestAnAnswerIsBounded(t *testing.T) {
	for _, c := range []struct {
		uid, padding int
		want         bool
	}{{64, 0, true}, {65, 0, false}, {64, maxAnswer / 2, true}, {64, maxAnswer, false}} {
		b := newBed(t)
		api := newCluster(t)
		api.change(func(is *cluster) { is.uid, is.padding = strings.Repeat("x", c.uid), c.padding })
		b.agent(api.headers(b, "good"))
		is := b.record("decided", func(is records.ClusterAgent) bool { return is.Refused != "" || is.Ready() })
		if is.Ready() != c.want {
			t.Errorf("an identity of %d bytes in an answer with %d more: %+v", c.uid, c.padding, is)
		}
	}
}

// TestACertificateThatHasExpired is still of the cluster's authority: the cluster's message does not say that another Kubernetes answers.
func TestACertificateThatHasExpired(t *testing.T) {
	for reason, want := range map[x509.InvalidReason]fault{x509.Expired: silent, x509.NotAuthorizedToSign: foreign} {
		if got := faulty(fmt.Errorf("shake hands: %w", x509.CertificateInvalidError{Reason: reason})); got.fault != want {
			t.Errorf("reason %d: %s", reason, got.fault)
		}
	}
}

// TestAnAPIThatNamesAnothersAuthority: what an API says its authorities are is pinned when its own certificate is of them.
func TestAnAPIThatNamesAnothersAuthority(t *testing.T) {
	b := newBed(t)
	api := newCluster(t)
	api.change(func(c *cluster) { c.bundle = string(authority(t, nil).pem) })
	b.agent(api.headers(b, "good"))
	if is := b.record("let in", func(is records.ClusterAgent) bool { return is.Ready() }); is.CA != string(api.root.pem) {
		t.Errorf("pinned is %s", is.CA)
	}
}

// gone ends an agent and waits until its tunnel is seen to have ended.
func (b *bed) gone(stop func()) {
	b.Helper()
	stop()
	b.await("c-abcde false")
}

// TestAPersonReplacesAnAuthority: what was pinned goes when the record does, which is what --replace asks for.
func TestAPersonReplacesAnAuthority(t *testing.T) {
	b := newBed(t)
	first, second := newCluster(t), newCluster(t)
	stop := b.agent(first.headers(b, "good"))
	b.await("c-abcde true")
	stop()
	b.await("c-abcde false")
	if err := b.state.ClusterAgents.Delete(t.Context(), office, 0); err != nil {
		t.Fatal(err)
	}
	b.agent(second.headers(b, "good"))
	b.await("c-abcde true")
	if is, _ := b.state.ClusterAgents.Get(office); is.Value.CA != string(second.root.pem) || is.Value.UID != second.uid {
		t.Errorf("pinned: %+v", is.Value)
	}
}

// TestAnAgentWithoutAnAPIPinsNothing, and why it is not let in is shown.
func TestAnAgentWithoutAnAPIPinsNothing(t *testing.T) {
	b := newBed(t)
	liar, other := newCluster(t), newCluster(t)
	b.agent(liar.headers(b, "good", other.root.pem))
	is := b.record("refused", func(is records.ClusterAgent) bool { return is.Refused != "" })
	if is.Ready() || is.CA != "" || !is.Spent().IsZero() {
		t.Errorf("kept: %+v", is)
	}
	b.agent(other.headers(b, "good"))
	b.await("c-abcde true")
	b.record("let in", func(is records.ClusterAgent) bool { return is.CA == string(other.root.pem) })
}

// TestADeployedAgentHasATokenOfItsOwn, and is held to what the server knows of the cluster.
func TestADeployedAgentHasATokenOfItsOwn(t *testing.T) {
	b := newBed(t)
	actual, liar := newCluster(t), newCluster(t)
	if _, err := b.state.ClusterAgents.Create(t.Context(), harbour, records.ClusterAgent{CA: string(actual.root.pem), Secret: "the-agents-own"}); err != nil {
		t.Fatal(err)
	}
	b.agent(liar.headers(b, "the-agents-own", actual.root.pem, liar.root.pem))
	<-b.let
	b.agent(actual.headers(b, "the-agents-own", actual.root.pem, liar.root.pem))
	b.await("c-m-abcdefgh true")
	is, _ := b.state.ClusterAgents.Get(harbour)
	if is.Value.CA != string(actual.root.pem) || is.Value.Address != actual.address || is.Value.Secret != "the-agents-own" || len(liar.requests()) > 0 {
		t.Errorf("kept: %+v; the liar got %v", is.Value, liar.requests())
	}
	if status, text := b.get("/v3/connect", actual.headers(b, "k3s")); status != http.StatusConflict {
		t.Errorf("a token by which hosts join: %d %s", status, text)
	}
}

// countedConn is a connection that counts itself off when it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// TestOneConnectionIsAskedAndClosed: all questions go over one connection through the agent's tunnel, of which nothing is left open.
func TestOneConnectionIsAskedAndClosed(t *testing.T) {
	api := newCluster(t)
	for name, c := range map[string]struct {
		said records.ClusterAgent
		want fault
	}{
		"let in":              {records.ClusterAgent{Address: api.address, Token: "account-token", CA: string(api.root.pem)}, ""},
		"of another token":    {records.ClusterAgent{Address: api.address, Token: "other", CA: string(api.root.pem)}, denied},
		"of another's bundle": {records.ClusterAgent{Address: api.address, Token: "account-token", CA: string(authority(t, nil).pem)}, foreign},
	} {
		var dialled, open atomic.Int32
		got := ask(t.Context(), func(ctx context.Context, to tunnel.Target) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, to.Network, to.Address)
			if err != nil {
				return nil, err
			}
			dialled.Add(1)
			open.Add(1)
			return &countedConn{Conn: conn, open: &open}, nil
		}, records.ClusterAgent{}, c.said)
		if got.fault != c.want || dialled.Load() != 1 || open.Load() != 0 {
			t.Errorf("%s: %q, %d connections, of which %d stay open", name, got.fault, dialled.Load(), open.Load())
		}
	}
}

func TestJudge(t *testing.T) {
	old, other := authority(t, nil), authority(t, nil)
	signed, renewed := authority(t, old), certify(t, old.key, nil)
	imported := records.Cluster{Object: records.Object{Name: "office"}}
	provisioned := records.Cluster{Spec: clusterspec.Spec{KubernetesVersion: "v1", RKEConfig: &clusterspec.RKEConfig{}}}
	now, then := time.Unix(2000, 0).UTC(), time.Unix(1000, 0).UTC()
	said := func(bundle ...*ca) records.ClusterAgent {
		text := ""
		for _, one := range bundle {
			text += string(one.pem)
		}
		return records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: text, Seen: now}
	}
	known := records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: string(old.pem), Name: "10.43.0.1", UID: "u", Admitted: then, Seen: then}
	before := records.ClusterAgent{Address: "10.43.0.1:443", Token: "t", CA: string(old.pem), Seen: then} // a record of before there was a pin
	with := func(a records.ClusterAgent, f func(*records.ClusterAgent)) records.ClusterAgent { f(&a); return a }
	refused := func(why string) func(*records.ClusterAgent) {
		return func(a *records.ClusterAgent) { a.Refused = why + ", last on 1970-01-01" }
	}
	twice := "an agent of another Kubernetes came with the token of cluster office and was refused"
	for _, tc := range []struct {
		name    string
		cluster records.Cluster
		is      records.ClusterAgent
		said    records.ClusterAgent
		api     *seen
		next    records.ClusterAgent
		refused bool
	}{
		{"the first, before it has proved itself", imported, records.ClusterAgent{}, said(old), nil, records.ClusterAgent{}, false},
		{"the first", imported, records.ClusterAgent{}, said(old), &seen{uid: "u"}, with(known, func(a *records.ClusterAgent) { a.Seen, a.Admitted = now, now }), false},
		{"the first, of which nothing is proven", imported, records.ClusterAgent{}, said(old), &seen{fault: silent}, with(records.ClusterAgent{}, refused("an agent came with the token of cluster office and was refused: "+string(silent))), true},
		{"the same again", imported, known, said(old), &seen{uid: "u"}, known, false},
		{"the same after a refusal", imported, with(known, refused("x")), said(old), &seen{uid: "u"}, with(known, func(a *records.ClusterAgent) { a.Seen = now }), false},
		{"the same at another address", imported, known, with(said(old), func(a *records.ClusterAgent) { a.Address = "10.96.0.1:443" }), &seen{uid: "u"}, with(known, func(a *records.ClusterAgent) { a.Address, a.Seen = "10.96.0.1:443", now }), false},
		{"one of before there was a pin", imported, before, said(old), &seen{uid: "u"}, with(known, func(a *records.ClusterAgent) { a.Seen = now }), false},
		{"one that names others beside", imported, known, said(old, other), &seen{uid: "u"}, known, false},
		{"one whose API names others beside", imported, known, said(old, other), &seen{uid: "u", ca: said(old, other).CA}, with(known, func(a *records.ClusterAgent) { a.CA, a.Seen = said(old, other).CA, now }), false},
		{"a signed authority", imported, known, said(signed), &seen{uid: "u"}, with(known, func(a *records.ClusterAgent) { a.CA, a.Seen = said(old, signed).CA, now }), false},
		{"a renewed one of the same key", imported, known, said(renewed), &seen{uid: "u"}, with(known, func(a *records.ClusterAgent) { a.CA, a.Seen = said(old, renewed).CA, now }), false},
		{"another authority", imported, known, said(other), nil, with(known, refused(twice)), true},
		{"another authority behind the public one", imported, known, said(old), &seen{fault: foreign}, with(known, refused(twice)), true},
		{"another identity", imported, known, said(old), &seen{uid: "v"}, with(known, refused(twice)), true},
		{"a token that is not taken", imported, known, said(old), &seen{fault: denied}, with(known, refused("an agent came with the token of cluster office and was refused: "+string(denied))), true},
		{"of a cluster of ours that is not known yet", provisioned, records.ClusterAgent{Secret: "s"}, said(old), nil, records.ClusterAgent{Secret: "s"}, true},
		{"the first of a cluster of ours", provisioned, records.ClusterAgent{CA: string(old.pem), Secret: "s"}, said(old, other), &seen{uid: "u", ca: said(old, other).CA}, with(known, func(a *records.ClusterAgent) { a.Secret, a.Seen, a.Admitted = "s", now, now }), false},
	} {
		next, err := judge(tc.cluster, tc.is, tc.said, tc.api)
		if next != tc.next || (err != nil) != tc.refused {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tc.name, next, err, tc.next)
		}
	}
}
