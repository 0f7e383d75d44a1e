package remote

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAServerWithoutPowerIsGone after 20 s: keepalive asks its kernel for a sign of life. A server that closed the connection, as the host was
// silent for a while, resets it then.
func TestAServerWithoutPowerIsGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(s.access(t), namespace, secretName, "test", time.Now)
	defer c.close()
	got := map[string]int{}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		raw, err := i.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		if err := raw.Control(func(fd uintptr) {
			for name, option := range map[string]int{"idle": unix.TCP_KEEPIDLE, "interval": unix.TCP_KEEPINTVL, "count": unix.TCP_KEEPCNT} {
				got[name], _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
			}
		}); err != nil {
			t.Error(err)
		}
	}})
	if err := c.version(ctx); err != nil {
		t.Fatal(err)
	}
	if after := got["idle"] + got["interval"]*got["count"]; after != 20 || got["idle"] != 5 {
		t.Errorf("it is asked as %v", got)
	}
}
