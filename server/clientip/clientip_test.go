package clientip

import "testing"

func TestOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7:443": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "[2001:db8:1:2::9]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
		"": "invalid Prefix", "nobody": "invalid Prefix",
	} {
		if got := Of(address).String(); got != want {
			t.Errorf("%q stands for %s, want %s", address, got, want)
		}
	}
}
