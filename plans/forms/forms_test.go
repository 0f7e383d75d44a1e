package forms_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/forms"
)

func TestForms(t *testing.T) {
	for _, tc := range []struct {
		name      string
		is        func(string) string
		good, bad []string
		allowed   string
	}{
		{"ports", forms.Port, []string{"1", "6443", "65535"}, []string{"", "0", "65536", "-1", "+1", "ssh", "1 "}, "from 1 to 65535"},
		{"ranges of ports", forms.PortRange, []string{"30000", "31000-31999", "31000+999"},
			[]string{"", "0", "31000:31999", "32000-31000", "60000-70000", "0-100", "1-2-3", "31000-", "31000+x", "0+5", "31000 - 31999"}, "30000-32767"},
		{"ranges", ranges, []string{"10.61.0.0/16", "fd61::/56", "10.61.0.0/16,fd61::/56", "fd61::/56,10.61.0.0/16", "10.61.4.7/16"},
			[]string{"", "10.61.0.0", "10.61.0.0/33", "10.61/16", "10.61.0.0/16, fd61::/56", "10.61.0.0/16,", "pods"}, "such as 10.43.0.0/16"},
		{"how many ranges", ranges, nil, []string{"10.61.0.0/16,10.62.0.0/16", "fd61::/56,fd62::/56", "10.61.0.0/16,fd61::/56,fd62::/56"}, "one of IPv4 and one of IPv6"},
		{"addresses", addresses, []string{"10.62.0.10", "fd62::a", "10.62.0.10,fd62::a"}, []string{"", "dns", "10.62.0.10:53", "fe80::1%eth0", "10.62.0.10,"}, "IP address"},
		{"durations", duration, []string{"12h", "1h30m", "90s"}, []string{"", "12", "1d", "-1h", "0s", "15 3 * * *"}, "such as 12h or 1h30m"},
		{"registries", registry(false), []string{"images.example", "images.example:5000", "10.1.2.3:5000", "[fd00::1]:5000", "images"},
			[]string{"", "https://images.example", "images.example/", "images.example/hub", "images.example:0", "images.example:99999", "a@images.example", "images.example:", "fd00::1", "ima ges"}, "registry.example.com:5000, without https:// and without a path"},
		{"registries with paths", registry(true), []string{"images.example", "images.example/hub", "images.example:5000/hub/of.many"},
			[]string{"https://images.example/hub", "images.example/hub/", "images.example//hub", "images.example/hub:v1", "images.example/../hub", "images.example/" + strings.Repeat("a", 600)}, "registry.example.com/hub"},
		{"domains", forms.Domain, []string{"cluster.local", "Quarry.Example.", "lan"}, []string{"", ".", "my_cluster.local", "a..b", "-a", strings.Repeat("a.", 130)}, "such as cluster.local"},
		{"keys of labels", forms.LabelKey, []string{"rack", "example.com/rack_1.b", strings.Repeat("k", 63)}, []string{"", "/", "a/", "/a", "a/b/c", "Example.com/a", "-a", strings.Repeat("k", 64), strings.Repeat("a.", 127) + "a/b"}, "at most 63 letters"},
		{"values of labels", forms.LabelValue, []string{"", "a1", "A_b-c.d"}, []string{"row 7", "a/b", "-a", "a,b", strings.Repeat("v", 64)}, "at most 63 letters"},
		{"labels", label, []string{"rack=a1", "rack="}, []string{"rack", "=a", "a b=c", "a=b=c"}, ""},
		{"taints", taint, []string{"gpu=yes:NoSchedule", "gpu:NoExecute", "gpu=:PreferNoSchedule"}, []string{"gpu", "gpu=yes", "gpu=yes:Never", ":NoExecute", "gpu=a b:NoExecute", "gpu:NoExecute:NoExecute"}, ""},
	} {
		for _, text := range tc.good {
			if reason := tc.is(text); reason != "" {
				t.Errorf("%s: %q %s", tc.name, text, reason)
			}
		}
		for _, text := range tc.bad {
			if reason := tc.is(text); reason == "" || !strings.Contains(reason, tc.allowed) || len(text) > 3 && strings.Contains(reason, text) {
				t.Errorf("%s: %q: the reason is %q", tc.name, text, reason)
			}
		}
	}
}

func ranges(text string) string    { _, reason := forms.Ranges(text); return reason }
func addresses(text string) string { _, reason := forms.Addresses(text); return reason }
func duration(text string) string  { _, reason := forms.Duration(text); return reason }
func label(text string) string     { _, _, reason := forms.Label(text); return reason }
func taint(text string) string     { _, _, _, reason := forms.Taint(text); return reason }

func registry(paths bool) func(string) string {
	return func(text string) string { return forms.Registry(text, paths) }
}

func TestOverlapAndOutside(t *testing.T) {
	for _, tc := range []struct{ pods, services, dns, overlap, outside string }{
		{"10.61.0.0/16", "10.62.0.0/16", "10.62.0.10", "", ""},
		{"10.61.0.0/16,fd61::/56", "10.62.0.0/16,fd62::/112", "10.62.0.10,fd62::a", "", ""},
		{"10.61.0.0/16", "10.61.128.0/17", "10.61.128.10", "10.61.0.0/16 of pods overlaps with 10.61.128.0/17 of services", ""},
		{"10.61.0.0/16,fd61::/56", "10.62.0.0/16,fd61::/112", "fd62::a", "fd61::/56 of pods overlaps with fd61::/112 of services", "fd62::a is not in the range of services, 10.62.0.0/16,fd61::/112"},
		{"10.61.0.0/16", "10.62.0.0/16", "10.62.0.10,10.63.0.10", "", "10.63.0.10 is not in the range of services, 10.62.0.0/16; pods would ask an address without a service"},
	} {
		pods, _ := forms.Ranges(tc.pods)
		services, _ := forms.Ranges(tc.services)
		dns, _ := forms.Addresses(tc.dns)
		if got := forms.Overlap(pods, services); got != tc.overlap {
			t.Errorf("pods %s, services %s: %q", tc.pods, tc.services, got)
		}
		if got := forms.Outside(dns, services); !strings.HasPrefix(got, tc.outside) || tc.outside == "" && got != "" {
			t.Errorf("DNS %s, services %s: %q", tc.dns, tc.services, got)
		}
	}
}

func TestQuoted(t *testing.T) {
	if got := forms.Quoted("a\x1b[2J" + strings.Repeat("é", 200)); len(got) > 200 || strings.Contains(got, "\x1b") || !strings.Contains(got, "…") {
		t.Error(got)
	}
}
