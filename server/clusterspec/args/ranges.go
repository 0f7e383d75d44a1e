// The ranges of pods and services, and the address of DNS among them.

package args

import (
	"fmt"

	"github.com/drover-project/drover/plans/forms"
)

const (
	clusterCIDR = "cluster-cidr"
	serviceCIDR = "service-cidr"
	clusterDNS  = "cluster-dns"
)

// Usual are ranges where nobody sets them, of both distributions.
var Usual = map[string]string{clusterCIDR: "10.42.0.0/16", serviceCIDR: forms.ExampleRange}

// CheckRanges looks at the ranges of one config map of a cluster together, with those of the settings that it is merged into. A
// map that has none is not looked at, nor are values that Check refuses.
func CheckRanges(config, base map[string]any, fail func(key, reason string)) {
	value := func(key string) (text string, own bool) {
		if own = !IsEmpty(config[key]); own {
			return fmt.Sprint(config[key]), true
		}
		if _, back := config[key]; IsEmpty(base[key]) || back {
			return Usual[key], false
		}
		return fmt.Sprint(base[key]), false
	}
	podText, ownPods := value(clusterCIDR)
	serviceText, ownServices := value(serviceCIDR)
	dnsText, ownDNS := value(clusterDNS)
	services, wrong := forms.Ranges(serviceText)
	if wrong != "" {
		return
	}
	if pods, wrong := forms.Ranges(podText); wrong == "" && (ownPods || ownServices) {
		if reason := forms.Overlap(pods, services); reason != "" {
			key := serviceCIDR
			if ownPods {
				key = clusterCIDR
			}
			fail(key, reason)
		}
	}
	if dns, wrong := forms.Addresses(dnsText); wrong == "" && (ownDNS || ownServices) {
		key := serviceCIDR
		if ownDNS {
			key = clusterDNS
		}
		if reason := forms.Outside(dns, services); reason != "" {
			fail(key, reason)
		}
	}
}
