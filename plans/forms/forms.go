// Package forms says why a value that ends up on hosts cannot be right, whichever distribution reads it there: a port, a
// range, the address of a registry, a label, a taint, a duration. It is asked by all that take such values, so that each of
// them refuses the same values with the same words. A reason goes behind the value, as in `"1 h" is not a duration`; "" is no
// fault. Reasons do not repeat values, and have what is allowed in them.
package forms

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Quoted is a value from outside as it stands in a sentence: printable and short.
func Quoted(text string) string {
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:100], "") + "…"
	}
	return strconv.Quote(text)
}

// Port is a number as text.
func Port(text string) (reason string) {
	if n, ok := port(text); !ok || n == 0 {
		return "is not a port from 1 to 65535"
	}
	return ""
}

func port(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return n, err == nil
}

// PortRange is one port, first-last, or first+count, as the API server reads --service-node-port-range.
func PortRange(text string) (reason string) {
	const wrong = "is not a range of ports such as 30000-32767"
	if first, count, plus := strings.Cut(text, "+"); plus {
		if _, ok := port(count); !ok || Port(first) != "" {
			return wrong
		}
		return ""
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, ok := port(first)
	if to, good := port(last); !ok || !good || from == 0 || to < from {
		return wrong
	}
	return ""
}

// ExampleRange is the range of services that a cluster has by default.
const ExampleRange = "10.43.0.0/16"

// Ranges are one range of addresses, or one of IPv4 and one of IPv6 with a comma between them.
func Ranges(text string) (ranges []netip.Prefix, reason string) {
	for one := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(one)
		if err != nil {
			return nil, "is not a range such as " + ExampleRange
		}
		ranges = append(ranges, prefix)
	}
	if len(ranges) > 2 || len(ranges) == 2 && ranges[0].Addr().Is4() == ranges[1].Addr().Is4() {
		return ranges, fmt.Sprintf("has %d ranges; there are one, or one of IPv4 and one of IPv6", len(ranges))
	}
	return ranges, ""
}

// Overlap says which range of pods and which of services have addresses in common.
func Overlap(pods, services []netip.Prefix) (reason string) {
	for _, pod := range pods {
		for _, service := range services {
			if pod.Overlaps(service) {
				return fmt.Sprintf("%s of pods overlaps with %s of services", pod, service)
			}
		}
	}
	return ""
}

// Addresses are one IP address or more, with commas between them.
func Addresses(text string) (addresses []netip.Addr, reason string) {
	for one := range strings.SplitSeq(text, ",") {
		address, err := netip.ParseAddr(one)
		if err != nil || address.Zone() != "" {
			return nil, "is not an IP address"
		}
		addresses = append(addresses, address)
	}
	return addresses, ""
}

// Outside says which addresses of DNS are in no range of services.
func Outside(dns []netip.Addr, services []netip.Prefix) (reason string) {
	for _, address := range dns {
		inside := false
		for _, service := range services {
			inside = inside || service.Contains(address)
		}
		if !inside {
			return fmt.Sprintf("%s is not in the range of services, %s; pods would ask an address without a service. Both have to be set together", address, texts(services))
		}
	}
	return ""
}

func texts(ranges []netip.Prefix) string {
	var all []string
	for _, one := range ranges {
		all = append(all, one.String())
	}
	return strings.Join(all, ",")
}

// Duration is one of Go that is longer than none.
func Duration(text string) (d time.Duration, reason string) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, ""
	}
	return 0, "is not a duration of hours, minutes and seconds, such as 12h or 1h30m; a day is 24h, and there are no lines of cron"
}

// hostName is what may stand where a shell command and a kubeconfig show a host.
var hostName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`) })

// Host says whether a text is a name or address with an optional port that is safe to put into a URL, a shell command and a
// kubeconfig.
func Host(text string) bool {
	name := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		if Port(p) != "" {
			return false
		}
		name = h
		if strings.HasPrefix(text, "[") {
			name = "[" + h + "]"
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && address.Is6() && address.Zone() == "" && strings.HasSuffix(inner, "]")
	}
	return hostName().MatchString(name)
}

// repository is a path of names of images.
var repository = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

// Registry is what stands before the name of an image: a host, and a path behind it where the reader takes one.
func Registry(text string, paths bool) (reason string) {
	host, path, hasPath := strings.Cut(text, "/")
	switch {
	case Host(host) && (!hasPath || paths && len(text) <= 512 && repository.MatchString(path)):
		return ""
	case paths:
		return "is not a registry; write it as registry.example.com, registry.example.com:5000 or registry.example.com/hub"
	}
	return "is not a registry that can be read here; write it as registry.example.com or registry.example.com:5000, without https:// and without a path"
}

var (
	labelName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`) })
	domain    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// Subdomain says whether a text is a DNS-1123 subdomain: the name of a node, a domain, what stands before / in a label.
func Subdomain(text string) bool { return len(text) <= 253 && domain.MatchString(text) }

// Domain is the domain of a cluster. A dot may end it.
func Domain(text string) (reason string) {
	if !Subdomain(strings.ToLower(strings.TrimSuffix(text, "."))) {
		return "is not the name of a domain such as cluster.local"
	}
	return ""
}

// LabelKey is the key of a label or a taint.
func LabelKey(key string) (reason string) {
	prefix, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		prefix, name = "x", key
	}
	if !labelName().MatchString(name) || !Subdomain(prefix) {
		return "is not a key of Kubernetes: at most 63 letters, digits, -, _ and ., which begin and end with a letter or digit; a domain and / may stand before them"
	}
	return ""
}

// LabelValue is the value of a label or a taint.
func LabelValue(value string) (reason string) {
	if value != "" && !labelName().MatchString(value) {
		return "is not a value of Kubernetes: nothing, or at most 63 letters, digits, -, _ and ., which begin and end with a letter or digit"
	}
	return ""
}

// Label reads key=value.
func Label(text string) (key, value, reason string) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return key, value, "is not of the form key=value"
	}
	return key, value, pair(key, value)
}

// pair says what is wrong with a key or else with its value.
func pair(key, value string) (reason string) {
	if reason = LabelKey(key); reason != "" {
		return "has a key that " + reason
	}
	if reason = LabelValue(value); reason != "" {
		return "has a value that " + reason
	}
	return ""
}

// Effects are what a taint does.
var Effects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// Taint reads key=value:Effect, or key:Effect.
func Taint(text string) (key, value, effect, reason string) {
	left, effect, _ := strings.Cut(text, ":")
	key, value, _ = strings.Cut(left, "=")
	if slices.Contains(Effects, effect) {
		return key, value, effect, pair(key, value)
	}
	return key, value, effect, "is not of the form key=value:Effect, with the effect " + strings.Join(Effects, ", ")
}
