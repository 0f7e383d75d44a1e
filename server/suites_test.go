package server

import (
	"crypto/tls"
	"strings"
	"testing"
)

// TestSuitesOfTLS12 dials a server with one suite at a time: those that authenticate what they
// encrypt are taken, those with CBC and those without forward secrecy are refused.
func TestSuitesOfTLS12(t *testing.T) {
	s := startWhole(t, "", "")
	dial := func(version uint16, suites ...uint16) (tls.ConnectionState, error) {
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{
			RootCAs: s.roots(), MinVersion: tls.VersionTLS12, MaxVersion: version, CipherSuites: suites,
		})
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer c.Close()
		return c.ConnectionState(), nil
	}
	taken := 0
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.SupportedVersions[0] == tls.VersionTLS13 {
			continue
		}
		state, err := dial(tls.VersionTLS12, suite.ID)
		switch aead := strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_POLY1305_"); {
		case err == nil && !(aead && strings.Contains(suite.Name, "_ECDHE_")):
			t.Errorf("%s is offered", suite.Name)
		case err == nil && (state.Version != tls.VersionTLS12 || state.CipherSuite != suite.ID):
			t.Errorf("%s: %x with suite %x", suite.Name, state.Version, state.CipherSuite)
		case err == nil:
			taken++
		case aead && strings.Contains(suite.Name, "_ECDHE_ECDSA_"): // the kind of the server's own key
			t.Errorf("%s is refused: %v", suite.Name, err)
		}
	}
	if taken == 0 {
		t.Error("no suite of TLS 1.2 is taken")
	}
	if state, err := dial(tls.VersionTLS13); err != nil || state.Version != tls.VersionTLS13 {
		t.Errorf("TLS 1.3: %x, %v", state.Version, err)
	}
}
