package bed_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/drover-project/drover/test/bed"
)

func TestFreeAddress(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last uint16
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		address, err := bed.FreeAddress(t.Context(), netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		if port := netip.MustParseAddrPort(address).Port(); first == 32768 && port >= first && port <= last { // the usual range
			t.Fatalf("%s is an address that the kernel may give to anybody", address)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if address, err := bed.FreeAddress(t.Context(), netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Errorf("%s, on an address that this machine does not have", address)
	}
}
