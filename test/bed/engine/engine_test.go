package engine

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestNextIP(t *testing.T) {
	e := &Engine{
		network: network{subnet: netip.MustParsePrefix("10.213.7.0/29")},
		lastIP:  netip.MustParseAddr("10.213.7.4"),
	}
	var got []string
	for {
		ip, err := e.NextIP()
		if err != nil {
			break
		}
		got = append(got, ip.String())
	}
	if want := "10.213.7.5 10.213.7.6"; strings.Join(got, " ") != want {
		t.Errorf("handed out %v, want %s: the network's last address is for broadcasts", got, want)
	}
}

func TestMarkedRules(t *testing.T) {
	// As iptables 1.8.9 prints them; the quoted comment is another program's, the last one another engine's.
	const listing = `-P FORWARD DROP
-N DOCKER
-A FORWARD -i drv-0a1b2c3d -m comment --comment drover-docker-run-0a1b2c3d -j ACCEPT
-A FORWARD -o drv-0a1b2c3d -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment drover-docker-run-0a1b2c3d -j ACCEPT
-A FORWARD -i drv-99999999 -m comment --comment drover-docker-run-99999999 -j ACCEPT
-A INPUT -m comment --comment "about drover-docker-run-0a1b2c3d" -j DROP
-A FORWARD -i drv-0a1b2c3d -m comment --comment drover-own-5e6f7a8b-run-0a1b2c3d -j ACCEPT
-A INPUT -j DOCKER
`
	first := "FORWARD -i drv-0a1b2c3d -m comment --comment drover-docker-run-0a1b2c3d -j ACCEPT"
	second := "FORWARD -o drv-0a1b2c3d -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment drover-docker-run-0a1b2c3d -j ACCEPT"
	third := "FORWARD -i drv-99999999 -m comment --comment drover-docker-run-99999999 -j ACCEPT"
	tests := []struct {
		name, mark string
		want       []string
	}{
		{"one run's", "drover-docker-run-0a1b2c3d", []string{first, second}},
		{"all runs'", (&ownDaemon{prefix: "/run/drover-docker"}).ruleMark(), []string{first, second, third}},
		{"none", "drover-docker-run-00000000", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, args := range markedRules(listing, test.mark) {
				got = append(got, strings.Join(args, " "))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
