package kubectl

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

// socketOf is a process's end of a gate.
func socketOf(t *testing.T, g *gate) *net.UnixConn {
	t.Helper()
	c, err := net.FileConn(g.theirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.UnixConn)
}

// hand hands a file over.
func hand(t *testing.T, socket *net.UnixConn, file *os.File) {
	t.Helper()
	if _, _, err := socket.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(file.Fd())), nil); err != nil {
		t.Fatal(err)
	}
}

// TestGate: what a process hands over is asked in the name of the person, unless it is no connection.
func TestGate(t *testing.T) {
	asked := httptest.NewRequest("POST", "/", nil)
	asked.Header.Set("Authorization", "Bearer of-the-person")
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer of-the-person" || r.URL.EscapedPath() != "/k8s/clusters/c-1/a%2Fb" || r.Host != asked.Host {
			t.Errorf("%s, %q, %s", r.URL, got, r.Host)
		}
	})
	g, err := open(t.Context(), handler, Line{Cluster: "c-1", Asked: asked})
	if err != nil {
		t.Fatal(err)
	}
	socket := socketOf(t, g)
	// A file, a listener, and a message with nothing in it are passed over.
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	hand(t, socket, file)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	tcp, err := dialled.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	hand(t, socket, tcp)
	if _, err := socket.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	hand(t, socket, theirs)
	_ = theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /a%2Fb HTTP/1.1\r\nHost: elsewhere\r\nAuthorization: Bearer of-another\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(c)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("%q, %v", line, err)
	}
	g.close()
	if _, err := io.Copy(io.Discard, answers); err != nil {
		t.Errorf("it is there after its line: %v", err)
	}
}

// TestConfinements: each of them either works here or is passed over, and the last does without the host's permission.
func TestConfinements(t *testing.T) {
	all := confinements(os.Geteuid(), os.Getegid())
	for at := range all {
		g, err := open(t.Context(), http.NotFoundHandler(), Line{Asked: httptest.NewRequest("GET", "/", nil)})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		r := Runner{confined: at}
		err = r.process(t.Context(), []byte(`{"Words":["help"]}`), g.theirs, &out)
		g.close()
		if err != nil || !strings.Contains(out.String(), "kubectl in the page") || r.confined < at {
			t.Errorf("%d: %v, %d, %s", at, err, r.confined, out.String())
		}
		t.Logf("confinement %d of %d: %d was used", at, len(all), r.confined)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&Runner{}).process(ctx, nil, os.Stdin, io.Discard); err == nil {
		t.Error("a line that is over begins")
	}
}
