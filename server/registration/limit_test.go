package registration

import (
	"net/netip"
	"testing"
	"time"
)

func TestLimiterIsBounded(t *testing.T) {
	l, now := newLimiter(), time.Unix(0, 0)
	address := netip.MustParseAddr("10.0.0.0")
	for range 3 * wrongSources {
		l.count(netip.AddrPortFrom(address, 1).String(), now)
		address = address.Next()
	}
	if len(l.sources) > wrongSources+1 {
		t.Errorf("%d sources are kept, want at most %d", len(l.sources), wrongSources+1)
	}
	now = now.Add(time.Hour)
	l.count("192.0.2.1:1", now)
	if len(l.sources) > 2 {
		t.Errorf("%d sources are kept an hour later", len(l.sources))
	}
}

func TestLimiterCountsNetworks(t *testing.T) {
	l, now := newLimiter(), time.Unix(0, 0)
	for range wrongBurst {
		if l.count("[2001:db8::1]:1", now) != 0 {
			t.Fatal("refused within the burst")
		}
	}
	for _, c := range []struct {
		remote string
		waits  bool
	}{{"[2001:db8::ffff]:9", true}, {"[2001:db8:0:1::1]:1", false}, {"192.0.2.1:1", false}, {"nonsense", false}} {
		if got := l.count(c.remote, now) > 0; got != c.waits {
			t.Errorf("%s waits: %v, want %v", c.remote, got, c.waits)
		}
	}
}
