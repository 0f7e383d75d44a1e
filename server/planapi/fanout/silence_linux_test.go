package fanout

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/test/power"
	"github.com/drover-project/drover/tunnel/peer"
)

// TestAHostWithoutPowerIsGone: nothing comes of such a host, neither an end nor an answer. It is gone since it was last heard,
// whatever was sent to it since, and no later than that can be known.
func TestAHostWithoutPowerIsGone(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 8<<20) // more than the kernel keeps for one who takes nothing
	for name, sent := range map[string]func(*fixture, *testing.T){
		"nothing is sent":    func(*fixture, *testing.T) {},
		"a plan at once":     func(f *fixture, t *testing.T) { f.set(t, "ns/a", "new") },
		"more than it takes": func(f *fixture, t *testing.T) { f.set(t, "ns/a", big) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			f.presence.grace = observed.AgentGrace
			f.create(t, "ns/a")
			notified := make(chan bool, 10)
			f.OnPresence(func(_ string, there bool) { notified <- there })
			server := f.serve(t, Watch{Scope: Scope{Key: "ns/a"}, Machine: true, Start: Start{Initial: true}, Duration: time.Hour})
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, err := bufio.NewReader(conn).ReadString('}'); err != nil {
				t.Fatal(err)
			}
			<-notified
			power.Cut(t, conn)
			fell := time.Now()
			sent(f, t)
			if there := <-notified; there {
				t.Fatal("it came again")
			}
			since, there := f.Watching("ns/a")
			if late := since.Sub(fell); there || late > time.Second {
				t.Errorf("there: %t, gone since %s after it fell", there, late)
			}
			// It is 8 s; the rest is for a machine that is busy with other tests.
			if d := time.Since(fell); d > 25*time.Second {
				t.Errorf("known after %s", d)
			}
		})
	}
}

// TestAHostWithNothingToSayIsThere for as long as its kernel answers, although the client takes nothing.
func TestAHostWithNothingToSayIsThere(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	server := f.serve(t, Watch{Scope: Scope{Key: "ns/a"}, Machine: true, Start: Start{Initial: true}, Duration: peer.Timeout + 3*time.Second})
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(answer), "0\r\n\r\n") {
		t.Errorf("the watch ended with %q, %v, want its end in order", answer, err)
	}
}

// TestSilenceBeforeAnEventCounts: what is sent to a host that was silent already does not give it the whole time anew.
func TestSilenceBeforeAnEventCounts(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	s := newGatedSink()
	s.gate <- struct{}{}
	s.silent.Store(int64(peer.Timeout - time.Second))
	f.create(t, "ns/a")
	st := f.open(t, Scope{Key: "ns/a"}, s)
	f.set(t, "ns/a", "new")
	<-s.entered
	s.silent.Store(int64(peer.Timeout))
	if inOrder := <-s.ended; inOrder || st.silent != peer.Timeout {
		t.Errorf("ended in order: %t, after a silence of %s", inOrder, st.silent)
	}
}
