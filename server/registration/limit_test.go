package registration

import (
	"net/netip"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clientip"
)

func TestLimiterIsBounded(t *testing.T) {
	var l limiter[netip.Prefix]
	now := time.Unix(0, 0)
	address := netip.MustParseAddr("10.0.0.0")
	for range 3 * maxLimited {
		l.take(clientip.Of(netip.AddrPortFrom(address, 1).String()), wrongRate, now)
		address = address.Next()
	}
	if len(l.keys) > maxLimited+1 {
		t.Errorf("%d sources are kept, want at most %d", len(l.keys), maxLimited+1)
	}
	now = now.Add(time.Hour)
	l.take(clientip.Of("192.0.2.1:1"), wrongRate, now)
	if len(l.keys) > 2 {
		t.Errorf("%d sources are kept an hour later", len(l.keys))
	}
}

func TestLimiterCountsNetworks(t *testing.T) {
	var l limiter[netip.Prefix]
	now := time.Unix(0, 0)
	for range int(wrongRate.burst) {
		if l.take(clientip.Of("[2001:db8::1]:1"), wrongRate, now) != 0 {
			t.Fatal("refused within the burst")
		}
	}
	for _, c := range []struct {
		remote string
		waits  bool
	}{{"[2001:db8::ffff]:9", true}, {"[2001:db8:0:1::1]:1", false}, {"192.0.2.1:1", false}, {"nonsense", false}} {
		if got := l.take(clientip.Of(c.remote), wrongRate, now) > 0; got != c.waits {
			t.Errorf("%s waits: %v, want %v", c.remote, got, c.waits)
		}
	}
}
