package native_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-project/drover/tunnel"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// Either side may end its direction alone, and who is gone altogether ends both.
func TestDialledConnection(t *testing.T) {
	b := apibed.New(t)
	m := b.AddMachine(b.AddCluster("dockyard", "c-dockk", nil), "00000000d0c4", func(m *records.Machine) { m.Docker = &records.DockerHost{} })
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	b.Dial = func(_ context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error) {
		if got := string(subject) + " " + to.Network + " " + to.Address; got != string(m.Subject())+" unix /var/run/docker.sock" {
			t.Errorf("dialled %s", got)
		}
		return net.Dial("tcp", hosts.Addr().String())
	}
	over := make(chan struct{}, 1)
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.Handler.ServeHTTP(w, r)
		over <- struct{}{}
	}))
	defer web.Close()
	for _, tt := range []struct {
		name   string
		answer string
		leave  func(*tls.Conn)
	}{
		{"a person who listens to the end", "answer", nil},
		{"a person who closes", "", func(c *tls.Conn) { c.Close() }},
		{"a person who is gone without a word", "", func(c *tls.Conn) { c.NetConn().Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			person := apibed.Dialled(t, web, "/v1-drover/machines/"+m.Key()+"/dial?target=docker", b.Admin)
			host, err := hosts.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			io.WriteString(person, "and last")
			if err := person.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(host); string(got) != "first and last" || err != nil {
				t.Errorf("the host got %q, %v", got, err)
			}
			if tt.leave != nil {
				tt.leave(person)
				<-over
				return
			}
			io.WriteString(host, tt.answer)
			host.Close()
			if got, err := io.ReadAll(person); string(got) != tt.answer || err != nil {
				t.Errorf("the person got %q, %v", got, err)
			}
			<-over
		})
	}
	if logs := b.Logs.String(); strings.Count(logs, "connection to a host closed") != 3 || !strings.Contains(logs, "bytesIn=6 bytesOut=14 error=<nil>") {
		t.Errorf("the log:\n%s", logs)
	}
}
