package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

func TestNamesLeadWhereTheyAreSetTo(t *testing.T) {
	on := netip.MustParseAddr("127.0.0.53")
	s, err := Start(t.Context(), on)
	if errors.Is(err, os.ErrPermission) {
		skips.Skip(t, "only root listens on port 53")
	}
	if err != nil {
		skips.Skip(t, err) // another name service has it
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", "127.0.0.53:53")
	}}
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, want := range [][]netip.Addr{{one}, {one, two}, {two}} {
		s.Set("server.bed", want...)
		got, err := resolver.LookupNetIP(t.Context(), "ip4", "Server.bed.")
		slices.SortFunc(got, netip.Addr.Compare)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	if _, err := resolver.LookupNetIP(t.Context(), "ip4", "other.bed."); err == nil {
		t.Error("a name that nobody set exists")
	}
	if s.Asked() != 4 {
		t.Errorf("%d questions", s.Asked())
	}
}
