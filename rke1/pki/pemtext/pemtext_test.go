package pemtext_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/pki/pemtext"
)

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return block("PRIVATE KEY", der)
	}
	for _, tt := range []struct {
		name, text string
		fails      bool
	}{
		{name: "PKCS#1", text: pemtext.OfKey(key)},
		{name: "PKCS#8", text: pkcs8(key)},
		{name: "behind something else", text: "hello\n" + block("EC PARAMETERS", []byte{6}) + pemtext.OfKey(key)},
		{name: "of another kind", text: pkcs8(other), fails: true},
		{name: "nothing", text: "", fails: true},
		{name: "hunter2", text: "hunter2", fails: true},
		{name: "half", text: pemtext.OfKey(key)[:800], fails: true},
	} {
		got, err := pemtext.Key(tt.text)
		if tt.fails {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", tt.name, err)
			}
		} else if err != nil || !got.Equal(key) {
			t.Errorf("%s: another key, %v", tt.name, err)
		}
	}
}

func TestCertificates(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := func(serial int64) string {
		template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pemtext.OfCertificate(der)
	}
	all, err := pemtext.Certificates("a comment\n" + text(1) + pemtext.OfKey(key) + text(2))
	if err != nil {
		t.Fatal(err)
	}
	var serials []int64
	for _, c := range all {
		serials = append(serials, c.SerialNumber.Int64())
	}
	if diff := cmp.Diff([]int64{1, 2}, serials); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "hunter2", pemtext.OfKey(key), block("CERTIFICATE", []byte("hunter2")), text(1) + block("CERTIFICATE", nil)} {
		if _, err := pemtext.Certificates(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
