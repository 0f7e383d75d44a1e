package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
)

func TestRotate(t *testing.T) {
	cfg := cluster()
	cfg.Services.Kubelet.GenerateServingCertificate = true
	before := fresh(t, cfg)
	kubelets := []string{"kube-kubelet-10-0-0-10", "kube-kubelet-203-0-113-12", "kube-kubelet-db-example-com", "kube-node"}
	leaves := slices.Concat([]string{pki.Admin, pki.APIServer, pki.ProxyClient, pki.ControllerManager, "kube-etcd-10-0-0-10", "kube-etcd-db-example-com"},
		kubelets, []string{pki.Proxy, pki.Scheduler})
	for _, tt := range []struct {
		name     string
		rotation pki.Rotation
		newKeys  []string
		// newCertificates are those that have a new certificate over the key they had.
		newCertificates []string
	}{
		{"every leaf", pki.Rotation{Services: []string{""}}, leaves, []string{pki.ServiceAccount}},
		{"one service", pki.Rotation{Services: []string{"kube-scheduler"}}, []string{pki.Scheduler}, []string{pki.Admin}},
		{"kubelet", pki.Rotation{Services: []string{"kubelet"}}, kubelets, []string{pki.Admin}},
		{"two", pki.Rotation{Services: []string{"etcd", "kube-apiserver"}}, []string{pki.APIServer, "kube-etcd-10-0-0-10", "kube-etcd-db-example-com"}, []string{pki.Admin}},
		{"with the CA", pki.Rotation{CA: true, Services: []string{"etcd"}}, slices.Concat(leaves, []string{pki.CA, pki.RequestHeaderCA}), []string{pki.ServiceAccount}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := pkitest.Source(birth.Add(100*day), 15)
			after, _, err := pki.Rotate(cfg, before, tt.rotation, src, pki.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var keys, certificates []string
			for _, name := range slices.Sorted(maps.Keys(after)) {
				switch {
				case after[name].KeyPEM != before[name].KeyPEM:
					keys = append(keys, name)
				case after[name].CertificatePEM != before[name].CertificatePEM:
					certificates = append(certificates, name)
				}
			}
			slices.Sort(tt.newKeys)
			want := slices.DeleteFunc(tt.newKeys, func(name string) bool { return after[name].KeyPEM == before[name].KeyPEM })
			if diff := cmp.Diff(want, keys); diff != "" {
				t.Errorf("new keys: %s", diff)
			}
			if diff := cmp.Diff(tt.newCertificates, certificates); diff != "" {
				t.Errorf("new certificates: %s", diff)
			}
			if err := pki.Verify(after); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRotateAfterExpiry: the rke CLI cannot rotate a cluster whose CA has expired.
func TestRotateAfterExpiry(t *testing.T) {
	cfg := cluster()
	before, late := fresh(t, cfg), birth.Add(4000*day)
	if _, _, err := pki.Rotate(cfg, before, pki.Rotation{}, pkitest.Source(late, 0), pki.Options{}); err == nil || !strings.Contains(err.Error(), "rotate the certificates with their CA") {
		t.Errorf("leaves of an expired CA: %v", err)
	}
	after, _, err := pki.Rotate(cfg, before, pki.Rotation{CA: true}, pkitest.Source(late, 0), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if warned, err := pki.Warnings(after, late); err != nil || len(warned) > 0 {
		t.Errorf("after it: %v, %v", warned, err)
	}
}

func TestRotateRefuses(t *testing.T) {
	b := fresh(t, cluster())
	theirs := maps.Clone(b)
	theirs[pki.CA] = pki.Certificate{Name: pki.CA, CertificatePEM: b[pki.CA].CertificatePEM}
	for want, try := range map[string]struct {
		b pki.Bundle
		r pki.Rotation
	}{
		`"kube-dns" is not a service`: {b, pki.Rotation{Services: []string{"kube-dns"}}},
		"has none yet":                {nil, pki.Rotation{}},
		"of an outside authority":     {theirs, pki.Rotation{CA: true}},
	} {
		if _, _, err := pki.Rotate(cluster(), try.b, try.r, pkitest.Source(birth, 0), pki.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestStages has every two components of neighbouring stages talk to each other: during a stage some
// hosts have the bundle before and some have this one.
func TestStages(t *testing.T) {
	cfg := cluster()
	old := fresh(t, cfg)
	wanted, _, err := pki.Rotate(cfg, old, pki.Rotation{CA: true}, pkitest.Source(birth.Add(100*day), 10), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stages, err := pki.Stages(old, wanted)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 3 {
		t.Fatalf("%d stages", len(stages))
	}
	bundles := []pki.Bundle{old, stages[0].Bundle, stages[1].Bundle, stages[2].Bundle}
	for i := range bundles[1:] {
		for _, pair := range [][2]pki.Bundle{{bundles[i], bundles[i+1]}, {bundles[i+1], bundles[i]}, {bundles[i+1], bundles[i+1]}} {
			if err := talk(pair[0], pair[1]); err != nil {
				t.Errorf("stage %q: %v", stages[i].Title, err)
			}
		}
		if err := pki.Verify(bundles[i+1]); err != nil {
			t.Errorf("stage %q: %v", stages[i].Title, err)
		}
		if !pki.SameCA(bundles[i], bundles[i+1]) {
			t.Errorf("stage %q has no CA of the one before", stages[i].Title)
		}
		config := bundles[i+1][pki.Admin].Config
		if !strings.Contains(config, base64.StdEncoding.EncodeToString([]byte(bundles[i+1][pki.CA].CertificatePEM))) {
			t.Errorf("stage %q: the admin kubeconfig trusts something else", stages[i].Title)
		}
		// The rke CLI issues by the first certificate of a CA and its key.
		if _, _, err := pki.Make(cfg, bundles[i+1], pkitest.Source(birth.Add(101*day), 0), pki.Options{}); err != nil {
			t.Errorf("stage %q: %v", stages[i].Title, err)
		}
	}
	if err := talk(old, wanted); err == nil {
		t.Error("two CAs without a common root understand each other")
	}
	if diff := cmp.Diff(wanted, stages[2].Bundle); diff != "" {
		t.Error(diff)
	}
}

// talk has a kubelet of one bundle call the API server of another, with certificates of both sides.
func talk(client, server pki.Bundle) error {
	pair := func(c pki.Certificate) (tls.Certificate, error) {
		return tls.X509KeyPair([]byte(c.CertificatePEM), []byte(c.KeyPEM))
	}
	roots := func(b pki.Bundle) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(b[pki.CA].CertificatePEM))
		return pool
	}
	kubelet, err := pair(client[pki.Node])
	if err != nil {
		return err
	}
	api, err := pair(server[pki.APIServer])
	if err != nil {
		return err
	}
	clock := func() time.Time { return birth.Add(101 * day) }
	left, right := net.Pipe()
	defer left.Close()
	defer right.Close()
	answered := make(chan error, 1)
	go func() {
		answered <- tls.Server(right, &tls.Config{
			Certificates: []tls.Certificate{api}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots(server),
			Time: clock, MaxVersion: tls.VersionTLS12,
		}).Handshake()
		right.Close()
	}()
	called := tls.Client(left, &tls.Config{
		Certificates: []tls.Certificate{kubelet}, RootCAs: roots(client), ServerName: "kubernetes", Time: clock, MaxVersion: tls.VersionTLS12,
	}).Handshake()
	left.Close()
	if err := <-answered; err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return called
}

// TestStagesGoOn: after a crash the stages follow from what was deployed last.
func TestStagesGoOn(t *testing.T) {
	cfg := cluster()
	old := fresh(t, cfg)
	wanted, _, err := pki.Rotate(cfg, old, pki.Rotation{CA: true}, pkitest.Source(birth, 10), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := pki.Stages(old, wanted)
	if err != nil {
		t.Fatal(err)
	}
	now := old
	for i := range whole {
		left, err := pki.Stages(now, wanted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole[i:], left); diff != "" {
			t.Fatalf("after %d stages: %s", i, diff)
		}
		now = left[0].Bundle
	}
	leaves, _, err := pki.Rotate(cfg, old, pki.Rotation{}, pkitest.Source(birth, 10), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]pki.Bundle{"new cluster": nil, "leaves alone": old} {
		if one, err := pki.Stages(from, leaves); err != nil || len(one) != 1 {
			t.Errorf("%s: %d stages, %v", name, len(one), err)
		}
	}
}
