package server

import (
	"net"
	"strings"
	"testing"
)

func TestNamesOfAServer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		listen string
		given  string
		url    func(string) bool
		local  string
	}{
		{"one address only", "127.0.0.1:8443", "", is("https://127.0.0.1:8443"), "https://127.0.0.1:8443"},
		{"one IPv6 address only", "[::1]:8443", "", is("https://[::1]:8443"), "https://[::1]:8443"},
		{"port of https", "127.0.0.1:443", "", is("https://127.0.0.1"), "https://127.0.0.1:443"},
		{"all addresses", "[::]:8443", "", func(s string) bool { return strings.HasPrefix(s, "https://") && strings.HasSuffix(s, ":8443") }, "https://localhost:8443"},
		{"given", "[::]:8443", "https://drover.example", is("https://drover.example"), "https://localhost:8443"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address, err := net.ResolveTCPAddr("tcp", tc.listen)
			if err != nil {
				t.Fatal(err)
			}
			n, err := hostNames(address, []string{"extra.example", "192.0.2.9"}, tc.given, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := n.url(tc.given); !tc.url(got) {
				t.Errorf("url = %s", got)
			}
			if got := n.local(); got != tc.local {
				t.Errorf("local = %s, want %s", got, tc.local)
			}
			certificate := strings.Join(n.certificate().DNS, " ")
			if !strings.Contains(certificate, "extra.example") || !strings.Contains(certificate, "localhost") ||
				(tc.given != "" && !strings.Contains(certificate, "drover.example")) {
				t.Errorf("certificate for %s", certificate)
			}
		})
	}
	for _, bad := range []string{"http://x", "x:8443", "https://", "https://x/path"} {
		if _, err := hostNames(&net.TCPAddr{Port: 1}, nil, bad, ""); err == nil || !strings.Contains(err.Error(), "--server-url") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func is(want string) func(string) bool { return func(got string) bool { return got == want } }
