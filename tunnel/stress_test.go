package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestManyConnectionsComeAndGo is what a Kubernetes client does all day: requests,
// watches that are given up, and targets that are refused.
func TestManyConnectionsComeAndGo(t *testing.T) { overEach(t, testManyConnectionsComeAndGo) }

func testManyConnectionsComeAndGo(t *testing.T, b *bed) {
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/watch" {
			io.Copy(w, r.Body)
			return
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			io.WriteString(w, "event event event\n")
			w.(http.Flusher).Flush()
			<-tick.C
		}
	}))
	t.Cleanup(host.Close)
	b.join(t, "m1", func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != host.Listener.Addr().String() {
			return nil, errSessionOver
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	for i := range 60 {
		client := http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return b.Dial(ctx, "m1", Target{Network: network, Address: address})
			},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		url := []string{host.URL + "/", host.URL + "/watch", "http://127.0.0.1:1/"}[i%3]
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if (err != nil) != (i%3 == 2) {
			t.Fatalf("%s: %v", url, err)
		}
		if err == nil {
			answer.Body.Read(make([]byte, 100))
			cancel()
			answer.Body.Close()
		}
		cancel()
		client.CloseIdleConnections()
	}
}
