package certificates

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

// TestRead keeps the certificate that ends first, but for those of CAs; an agent that cannot say it leaves what the API
// server shows, and a host that does not answer what is known.
func TestRead(t *testing.T) {
	api := httptest.NewTLSServer(http.NotFoundHandler())
	defer api.Close()
	served := api.Certificate().NotAfter.UTC()
	soon := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	before := records.CertificateEnd{Name: "server/tls/old.crt", End: soon.AddDate(1, 0, 0)}
	for name, c := range map[string]struct {
		answer string
		status int
		away   bool
		want   records.CertificateEnd
	}{
		"an agent that says it": {
			answer: `{"certificates":[{"name":"ca.crt","end":"2026-01-01T00:00:00Z","ca":true},{"name":"b.crt","end":"2027-06-01T00:00:00Z"},{"name":"a.crt","end":"2027-01-02T03:04:05Z"}]}`,
			status: 200, want: records.CertificateEnd{Name: "a.crt", End: soon},
		},
		"an agent that cannot": {status: 404, want: records.CertificateEnd{Name: "of the Kubernetes API", End: served}},
		"not an answer":        {answer: "<html>", status: 200, want: records.CertificateEnd{Name: "of the Kubernetes API", End: served}},
		"a host that is away":  {away: true, want: before},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Store.Close()
			cluster := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-1"}
			cluster.Spec.KubernetesVersion = "v1.34.4+k3s1"
			machine := records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "pier-1"}, ClusterName: "harbour", ClusterID: "c-m-1", Roles: records.Roles{ControlPlane: true}, Certificate: before}
			if _, err := s.Clusters.Create(t.Context(), cluster.Key(), cluster); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Machines.Create(t.Context(), machine.Key(), machine); err != nil {
				t.Fatal(err)
			}
			r := &Controller{
				State: s, Logger: slog.New(slog.DiscardHandler),
				Ask: func(_ context.Context, _ records.Subject, path string) (*http.Response, error) {
					if c.away {
						return nil, errors.New("no tunnel is open")
					}
					if path != "/v1/certificates?dir=%2Fvar%2Flib%2Francher%2Fk3s" {
						t.Errorf("asked for %s", path)
					}
					return &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.answer))}, nil
				},
				Dial: func(ctx context.Context, _ records.Subject, _ tunnel.Target) (net.Conn, error) {
					if c.away {
						return nil, errors.New("no tunnel is open")
					}
					return (&net.Dialer{}).DialContext(ctx, "tcp", api.Listener.Addr().String())
				},
			}
			r.Read(t.Context(), "fleet-default/harbour")
			d, _ := s.Machines.Get(machine.Key())
			if got := d.Value.Certificate; got.Name != c.want.Name || !got.End.Equal(c.want.End) {
				t.Errorf("it is %+v, want %+v", got, c.want)
			}
		})
	}
}
