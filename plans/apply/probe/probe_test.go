package probe_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/plans/apply/probe"
)

func get(url string) plans.Probe { return plans.Probe{HTTPGetAction: plans.HTTPGet{URL: url}} }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newProber(t *testing.T) *probe.Prober {
	t.Helper()
	return &probe.Prober{Host: hostfs.FS{Root: t.TempDir()}, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
}

// ask asks one probe once and returns whether the answer counted as a success.
func ask(t *testing.T, r *probe.Prober, p plans.Probe) bool {
	t.Helper()
	p.FailureThreshold = 5
	got, _ := r.Round(t.Context(), map[string]plans.Probe{"p": p}, nil, time.Time{})
	switch got["p"] {
	case plans.ProbeStatus{Healthy: true, SuccessCount: 1}:
		return true
	case plans.ProbeStatus{FailureCount: 1}:
		return false
	}
	t.Fatalf("%+v", got)
	return false
}

func TestProbeAnswers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		for _, c := range r.PathValue("code") {
			code = 10*code + int(c-'0')
		}
		w.WriteHeader(code)
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/status/200", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "kube-probe/") || r.Header.Get("Accept-Encoding") != "" || !r.Close {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	defer server.Close()
	// A proxy of the agent is not for its own host.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for path, want := range map[string]bool{
		"/status/200": true, "/status/204": true, "/status/299": true,
		"/status/304": false, "/status/404": false, "/status/500": false,
		"/here": true, "/there": false, "/loop": false, "/endless": true, "/headers": true,
	} {
		if got := ask(t, newProber(t), get(server.URL+path)); got != want {
			t.Errorf("%s: success = %v", path, got)
		}
	}
	begin := time.Now()
	if ask(t, newProber(t), get(server.URL+"/slow")) {
		t.Error("an answer that does not come is a success")
	}
	if took := time.Since(begin); took < 900*time.Millisecond || took > 10*time.Second {
		t.Errorf("the absent time limit is %v, want one second", took)
	}
	server.Close()
	if ask(t, newProber(t), get(server.URL+"/status/200")) {
		t.Error("a closed port is a success")
	}
}

func TestProbeThresholds(t *testing.T) {
	var healthy atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	p := get(server.URL)
	p.SuccessThreshold, p.FailureThreshold = 2, 3
	plan := map[string]plans.Probe{"p": p}
	r := newProber(t)
	status := map[string]plans.ProbeStatus{"of a plan before": {Healthy: true}}
	for i, step := range []struct {
		up   bool
		want plans.ProbeStatus
	}{
		{true, plans.ProbeStatus{SuccessCount: 1}},
		{true, plans.ProbeStatus{Healthy: true, SuccessCount: 2}},
		{true, plans.ProbeStatus{Healthy: true, SuccessCount: 2}},
		{false, plans.ProbeStatus{Healthy: true, SuccessCount: 2, FailureCount: 1}},
		{false, plans.ProbeStatus{Healthy: true, SuccessCount: 2, FailureCount: 2}},
		{true, plans.ProbeStatus{Healthy: true, SuccessCount: 2}},
		{false, plans.ProbeStatus{Healthy: true, SuccessCount: 2, FailureCount: 1}},
		{false, plans.ProbeStatus{Healthy: true, SuccessCount: 2, FailureCount: 2}},
		{false, plans.ProbeStatus{FailureCount: 3}},
		{false, plans.ProbeStatus{FailureCount: 3}},
		{true, plans.ProbeStatus{SuccessCount: 1, FailureCount: 3}},
		{true, plans.ProbeStatus{Healthy: true, SuccessCount: 2}},
	} {
		healthy.Store(step.up)
		status, _ = r.Round(t.Context(), plan, status, time.Time{})
		if diff := cmp.Diff(map[string]plans.ProbeStatus{"p": step.want}, status); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

func TestProbesRunTogetherAndDelaysHoldNobodyUp(t *testing.T) {
	// Each answers only when the other was asked too.
	arrived := make(chan struct{}, 2)
	both := make(chan struct{})
	go func() {
		<-arrived
		<-arrived
		close(both)
	}()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-both:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	slow := get(server.URL)
	slow.TimeoutSeconds = 30
	late := get(server.URL)
	late.InitialDelaySeconds = 60
	r := newProber(t)
	now := noon
	r.Now = func() time.Time { return now }
	plan := map[string]plans.Probe{"a": slow, "b": slow, "late": late, "bad": get("::no url")}
	got, _ := r.Round(t.Context(), plan, map[string]plans.ProbeStatus{"bad": {FailureCount: 2}}, noon.Add(-59*time.Second))
	up := plans.ProbeStatus{Healthy: true, SuccessCount: 1}
	want := map[string]plans.ProbeStatus{"a": up, "b": up, "late": {}, "bad": {FailureCount: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	now = noon.Add(time.Second)
	plan = map[string]plans.Probe{"late": late}
	got, _ = r.Round(t.Context(), plan, nil, noon.Add(-59*time.Second))
	if diff := cmp.Diff(map[string]plans.ProbeStatus{"late": up}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStoppingAgentDoesNotCountFailures(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	p := get(server.URL)
	p.TimeoutSeconds = 30
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got, _ := newProber(t).Round(ctx, map[string]plans.Probe{"p": p}, map[string]plans.ProbeStatus{"p": {Healthy: true}}, time.Time{})
	if diff := cmp.Diff(map[string]plans.ProbeStatus{"p": {Healthy: true}}, got); diff != "" {
		t.Error(diff)
	}
}

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate for the loopback address and both uses.
func (a authority) issue(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "probe"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func TestProbesOverTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	certPEM, keyPEM := ca.issue(t)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin" && len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	r := newProber(t)
	put := func(name string, b []byte) {
		t.Helper()
		path := filepath.Join(r.Host.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("/tls/ca.crt", ca.pem)
	put("/tls/stranger.crt", stranger.pem)
	put("/tls/client.crt", certPEM)
	put("/tls/client.key", keyPEM)
	put("/tls/broken.crt", []byte("no certificate"))
	const caFile, certFile, keyFile = "/tls/ca.crt", "/tls/client.crt", "/tls/client.key"
	tests := []struct {
		name string
		get  plans.HTTPGet
		want bool
	}{
		{"unknown authority", plans.HTTPGet{URL: "/"}, false},
		{"its authority", plans.HTTPGet{URL: "/", CACert: caFile}, true},
		{"another authority", plans.HTTPGet{URL: "/", CACert: "/tls/stranger.crt"}, false},
		{"authority that is not there", plans.HTTPGet{URL: "/", CACert: "/tls/gone.crt"}, false},
		{"authority that is none", plans.HTTPGet{URL: "/", CACert: "/tls/broken.crt"}, false},
		{"insecure", plans.HTTPGet{URL: "/", Insecure: true}, true},
		{"insecure goes without the client certificate", plans.HTTPGet{URL: "/admin", Insecure: true, ClientCert: certFile, ClientKey: keyFile}, false},
		{"client certificate", plans.HTTPGet{URL: "/admin", CACert: caFile, ClientCert: certFile, ClientKey: keyFile}, true},
		{"client certificate without its key", plans.HTTPGet{URL: "/admin", CACert: caFile, ClientCert: certFile}, false},
		{"a broken client certificate does not stop a probe that needs none", plans.HTTPGet{URL: "/", CACert: caFile, ClientCert: "/tls/broken.crt", ClientKey: keyFile}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.get.URL = server.URL + test.get.URL
			if got := ask(t, r, plans.Probe{TimeoutSeconds: 30, HTTPGetAction: test.get}); got != test.want {
				t.Errorf("success = %v", got)
			}
		})
	}
	// Certificates are renewed while the agent runs.
	plan := map[string]plans.Probe{"p": {HTTPGetAction: plans.HTTPGet{URL: server.URL, CACert: "/tls/later.crt"}}}
	if got, _ := r.Round(t.Context(), plan, nil, time.Time{}); got["p"].Healthy {
		t.Error("healthy without the authority")
	}
	put("/tls/later.crt", ca.pem)
	if got, _ := r.Round(t.Context(), plan, nil, time.Time{}); !got["p"].Healthy {
		t.Error("the new file is not read")
	}
}

// TestProbesOfUnits: the wanted state is a success, any other and no answer are failures.
func TestProbesOfUnits(t *testing.T) {
	states := map[string]string{"up.service": "active", "dead.service": "inactive", "starting.service": "activating"}
	var said bytes.Buffer
	prober := &probe.Prober{
		Logger: slog.New(slog.NewTextHandler(&said, nil)), Now: time.Now,
		Units: func(ctx context.Context, unit string) (string, string, error) {
			if unit == "hangs.service" {
				<-ctx.Done()
				return "", "", ctx.Err()
			}
			if _, known := states[unit]; !known {
				return "", "", errors.New("systemd is away")
			}
			return states[unit], "some", nil
		},
	}
	of := func(unit, state string) plans.Probe {
		return plans.Probe{FailureThreshold: 1, Systemd: &plans.SystemdUnit{Unit: unit, State: state}}
	}
	late := of("up.service", "")
	late.InitialDelaySeconds = 60
	asked := map[string]plans.Probe{
		"up": of("up.service", ""), "explicit": of("up.service", "active"), "wanted dead": of("dead.service", "inactive"),
		"starting": of("starting.service", "active"), "no answer": of("gone.service", ""), "hangs": of("hangs.service", ""), "late": late,
	}
	healthy, failing := plans.ProbeStatus{Healthy: true, SuccessCount: 1}, plans.ProbeStatus{FailureCount: 1}
	want := map[string]plans.ProbeStatus{
		"up": healthy, "explicit": healthy, "wanted dead": healthy, "starting": failing, "no answer": failing, "hangs": failing, "late": {},
	}
	got, _ := prober.Round(t.Context(), asked, nil, time.Now())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(said.String(), "starting.service is activating (some), not active") {
		t.Error(said.String())
	}
	prober.Units = nil
	if got, _ := prober.Round(t.Context(), map[string]plans.Probe{"up": of("up.service", "")}, nil, time.Time{}); got["up"] != failing {
		t.Errorf("with nobody to ask: %+v", got)
	}
}

// TestProbesOfOneNameInTwoPlans: what is said of one is not news of the other, and no
// password gets into the log.
func TestProbesOfOneNameInTwoPlans(t *testing.T) {
	well := httptest.NewServer(http.NotFoundHandler())
	defer well.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer ill.Close()
	prober := newProber(t)
	var said bytes.Buffer
	prober.Logger = slog.New(slog.NewTextHandler(&said, nil))
	for range 3 {
		for _, server := range []*httptest.Server{well, ill} {
			address := strings.Replace(server.URL, "://", "://me:hunter2@", 1)
			prober.Round(t.Context(), map[string]plans.Probe{"web": get(address)}, nil, time.Time{})
		}
	}
	if n := strings.Count(said.String(), "probe fails"); n != 2 || strings.Contains(said.String(), "hunter2") {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
}
