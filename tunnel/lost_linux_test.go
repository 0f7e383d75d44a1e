package tunnel

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/drover-project/drover/test/power"
	"github.com/drover-project/drover/tunnel/peer"
)

// TestTheTunnelOfALostHostEnds before its agent has said nothing for silenceLimit: nothing comes of a host whose power was cut.
func TestTheTunnelOfALostHostEnds(t *testing.T) {
	for name, sent := range map[string]func(*bed){
		"nothing is sent": func(*bed) {},
		"a connection is opened": func(b *bed) {
			if _, err := b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "echo:1"}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ws := b.raw(t, "m1")
			b.wantChange(t, "m1 true")
			power.Cut(t, ws.NetConn())
			sent(b)
			b.wantChange(t, "m1 false")
			if got := b.Ended("m1"); len(got) != 1 || got[0].Reason != unanswered || len(b.Sessions()) != 0 {
				t.Errorf("ended: %+v, open: %+v", got, b.Sessions())
			}
		})
	}
}

// TestTheTunnelOfABusyHostStays for as long as its kernel answers, although its agent says nothing.
func TestTheTunnelOfABusyHostStays(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.silence = time.Hour
	b.raw(t, "m1")
	b.wantChange(t, "m1 true")
	<-time.After(peer.Timeout + 3*time.Second)
	if got := b.Ended("m1"); len(got) != 0 {
		t.Errorf("ended: %+v", got)
	}
}

// TestSilenceBeforeAWriteCounts: what is written to a host that was silent already does not give it the whole time anew.
func TestSilenceBeforeAWriteCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after time.Duration
		ends          bool
	}{
		"it stays silent":       {peer.Timeout, peer.Timeout + time.Second, true},
		"it has answered since": {peer.Timeout, time.Second, false},
		"it was not silent":     {time.Second, peer.Timeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := net.Pipe()
			defer there.Close()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			s := newSocket(here, time.Now)
			defer s.Close()
			s.heard.Store(time.Now().Add(-tc.before).UnixNano())
			asked := make(chan struct{}, 2)
			silence := tc.before
			s.quiet = func() time.Duration { // one call after the other
				defer func() { silence = tc.after }()
				asked <- struct{}{}
				return silence
			}
			if _, err := s.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			<-asked
			if tc.ends {
				<-s.closed
			} else if tc.before > time.Second {
				<-asked
			}
			if reason, over := s.over(); over != tc.ends || over && reason != unanswered {
				t.Errorf("over: %t, %q", over, reason)
			}
		})
	}
}
