package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel/trust"
)

func (m *management) bundle() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ca
}

// certified is the configuration with the certificate of the moment.
func (m *management) certified(*tls.ClientHelloInfo) (*tls.Config, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pair == nil {
		return nil, nil
	}
	return &tls.Config{Certificates: []tls.Certificate{*m.pair}}, nil
}

// exchange gives the server a new CA and a certificate of it, and a token for its proofs.
// Connections that are open stay.
func (m *management) exchange(t *testing.T, prover string) {
	t.Helper()
	bundle, pair := newCA(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ca, m.pair, m.prover = bundle, &pair, prover
}

// newCA makes a CA and a certificate of it for the server, both for an hour around now.
func newCA(t *testing.T) (bundle string, pair tls.Certificate) {
	t.Helper()
	build := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, signer := build(ca, ca, nil)
	leaf, key := build(&x509.Certificate{DNSNames: []string{"drover.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca, signer)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}
}

// TestServerGetsAnotherCA follows a server to a CA that it proves, first with an agent
// that runs and then with one that starts, whose --ca-checksum is of the first CA.
func TestServerGetsAnotherCA(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	stop := h.live(t)
	h.cause(t, onTunnel, "")
	h.cause(t, onConfig, "")

	m.exchange(t, testToken)
	m.drop()
	waitUntil(t, "there is a second tunnel", func() bool { return len(m.opened()) > 1 })
	h.cause(t, onCA, "")
	h.cause(t, onConfig, "")
	for _, file := range []string{caFile, adoptedFile} {
		path := filepath.Join(h.o.Root, file)
		waitUntil(t, file+" has the new CA", func() bool {
			b, err := os.ReadFile(path)
			return err == nil && strings.Contains(strings.ReplaceAll(string(b), `\n`, "\n"), strings.TrimSpace(m.bundle()))
		})
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info, err)
		}
	}
	stop()
	if log := h.log.String(); !strings.Contains(log, trust.Checksum([]byte(m.bundle()))) || !strings.Contains(log, h.o.CAChecksum) {
		t.Error("the log lacks the checksum of the old CA or of the new one")
	}

	asked := strings.Count(h.log.String(), "new CA, which it has proved")
	stop = h.live(t)
	waitUntil(t, "a new agent connects", func() bool { return len(m.opened()) > 2 })
	h.cause(t, onConfig, "")
	stop()
	if strings.Count(h.log.String(), "new CA, which it has proved") != asked {
		t.Error("the new agent had to have the CA proved again")
	}

	t.Run("while the agent was away", func(t *testing.T) {
		m.exchange(t, testToken)
		before := len(m.opened())
		h.live(t)
		waitUntil(t, "it connects", func() bool { return len(m.opened()) > before })
		h.cause(t, onConfig, "")
	})
}

// TestConfigPullFollowsTheCA has a tunnel that stays open while the server changes its CA.
func TestConfigPullFollowsTheCA(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	refresh := make(chan os.Signal, 1)
	h.o.Refresh = refresh
	h.live(t)
	h.cause(t, onTunnel, "")
	h.cause(t, onConfig, "")
	m.exchange(t, testToken)
	before := len(m.versions())
	refresh <- os.Interrupt // which signal it is does not matter
	waitUntil(t, "it asks again", func() bool { return len(m.versions()) > before })
	waitUntil(t, "the CA is kept", func() bool { return h.exists("root" + adoptedFile) })
	if n := len(m.opened()); n != 1 {
		t.Errorf("%d tunnels were opened", n)
	}
}

func TestCAThatIsNotFollowed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		prover string
		change func(*Options)
		on     string
		want   string
	}{
		{"a wrong proof", "guessed", func(*Options) {}, onCA, "its proof is wrong, so that another server may be answering"},
		{"a wrong proof, for the tunnel", "guessed", func(*Options) {}, onTunnel, "no new CA is adopted"},
		{"a wrong proof, for the node config", "guessed", func(*Options) {}, onConfig, "no new CA is adopted"},
		{"a pin that is kept", testToken, func(o *Options) { o.PinAlways = true }, onTunnel, "DROVER_CA_PIN"},
		{"a pin that is kept, for the node config", testToken, func(o *Options) { o.PinAlways = true }, onConfig, "DROVER_CA_PIN"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newManagement(t)
			m.answerWith(planned)
			h := newHost(t, m)
			refresh := make(chan os.Signal, 1)
			h.o.Refresh = refresh
			tc.change(&h.o)
			h.live(t)
			h.cause(t, onTunnel, "")
			h.cause(t, onConfig, "")
			m.exchange(t, tc.prover)
			m.drop()
			refresh <- os.Interrupt
			h.cause(t, tc.on, tc.want)
			if h.exists("root" + adoptedFile) {
				t.Error("the CA was adopted")
			}
		})
	}
}

// TestAnotherPinIsAnotherFirstStart gives the agent a checksum after it had adopted a CA:
// what was adopted under another one counts for nothing.
func TestAnotherPinIsAnotherFirstStart(t *testing.T) {
	m := newManagement(t)
	h := newHost(t, m)
	stop := h.live(t)
	h.cause(t, onTunnel, "")
	m.exchange(t, testToken)
	m.drop()
	waitUntil(t, "the CA is kept", func() bool { return h.exists("root" + adoptedFile) })
	stop()
	h.o.CAChecksum = strings.Repeat("0", 64)
	h.live(t)
	h.cause(t, onCA, "does not match given --ca-checksum")
}

func TestSpoiltAdoption(t *testing.T) {
	for _, text := range []string{"", "{half", `{"server":"HOST","pin":"PIN","bundle":"none"}`, `{"server":"HOST","pin":"PIN"}`} {
		m := newManagement(t)
		h := newHost(t, m)
		path := filepath.Join(h.o.Root, adoptedFile)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text = strings.NewReplacer("HOST", h.o.Server.Host, "PIN", h.o.CAChecksum).Replace(text)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stop := h.live(t)
		h.cause(t, onTunnel, "")
		stop()
		if !strings.Contains(h.log.String(), "the CA that was adopted cannot be read") {
			t.Errorf("%q: nothing is said", text)
		}
	}
}

func TestPinnedForms(t *testing.T) {
	const text = "-----BEGIN CERTIFICATE-----\nAAA=\n-----END CERTIFICATE-----"
	for _, served := range []string{text, text + "\n", text + "\r\n", "\n" + text + "\n\n"} {
		for _, hashed := range []string{strings.TrimSpace(served) + "\n", served, served + "\n"} {
			a := &authority{o: Options{Trust: Trust{CAChecksum: digest(hashed)}}}
			if got := a.pinned([]byte(served)); string(got) != hashed {
				t.Errorf("%q under the checksum of %q: %q", served, hashed, got)
			}
		}
		a := &authority{o: Options{Trust: Trust{CAChecksum: digest("another")}}}
		if got := a.pinned([]byte(served)); got != nil {
			t.Errorf("%q under another checksum: %q", served, got)
		}
	}
}
