// Which addresses the server connects to, and for whom.

package outgoing

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Setting is the name of the setting with the ranges that are allowed beside the open network.
const Setting = "outgoing-allowed-ranges"

// maxRanges bounds the setting.
const maxRanges = 1_000

// ParseRanges reads the value of the setting: ranges as in 10.20.0.0/16, fd00:1::/32 with commas between them; "" is none. The error follows its
// name.
func ParseRanges(value string) ([]netip.Prefix, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	texts := strings.Split(value, ",")
	if len(texts) > maxRanges {
		return nil, fmt.Errorf("has %d ranges; at most %d are possible", len(texts), maxRanges)
	}
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		switch {
		case err != nil || p.Addr().Is4In6():
			return nil, fmt.Errorf("has %.60q, which is not a range; write 10.20.0.0/16, or 10.20.0.7/32 for one address, with commas between several", strings.TrimSpace(text))
		case p != p.Masked():
			return nil, fmt.Errorf("has %s, which begins inside its own range; write %s, or %s/%d for the one address", p, p.Masked(), p.Addr(), p.Addr().BitLen())
		}
		all = append(all, p)
	}
	return all, nil
}

// class is what an address leads to.
type class string

const (
	open      class = ""
	loopback  class = "the server's own host"
	own       class = "an address of the server's own host"
	private   class = "an address of a private network"
	linkLocal class = "where networks keep services for their machines, such as keys of a cloud"
	nowhere   class = "not the address of a host"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil { // TestClasses has one address of each
			all = append(all, p)
		}
	}
	return all
}

// The ranges of the IANA registries of special-purpose addresses (RFC 6890) that are not the open network. Metadata services of
// clouds that are outside of the link-local ranges: Amazon's over IPv6, Alibaba's, Oracle's, Azure's.
var (
	nowhereRanges   = prefixes("0.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32", "::/128", "ff00::/8")
	linkLocalRanges = prefixes("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32")
	loopbackRanges  = prefixes("127.0.0.0/8", "::1/128")
	// 64:ff9b:1::/48 is that of a network's own translation to IPv4 (RFC 8215), which may lead anywhere inside.
	privateRanges = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"fc00::/7", "fec0::/10", "64:ff9b:1::/48")
)

// The forms of IPv6 that carry an address of IPv4, by the byte that it begins at: translated (RFC 6052, RFC 2765), compatible
// (RFC 4291), 6to4 (RFC 3056), and Teredo (RFC 4380), which has it inverted.
var carriers = []struct {
	in       []netip.Prefix
	at       int
	inverted bool
}{
	{in: prefixes("64:ff9b::/96", "::ffff:0:0:0/96", "::/96"), at: 12},
	{in: prefixes("2002::/16"), at: 2},
	{in: prefixes("2001::/32"), at: 12, inverted: true},
}

func anyContains(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// plain is the address that one leads to: without a zone, and that of IPv4 where one of IPv6 carries it.
func plain(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if a.Is4() || a.IsUnspecified() || a.IsLoopback() {
		return a
	}
	for _, c := range carriers {
		if anyContains(c.in, a) {
			b := a.As16()
			v4 := [4]byte(b[c.at : c.at+4])
			for i := range v4 {
				if c.inverted {
					v4[i] = ^v4[i]
				}
			}
			return netip.AddrFrom4(v4)
		}
	}
	return a
}

func classOf(a netip.Addr, owns []netip.Addr) class {
	switch {
	case anyContains(nowhereRanges, a):
		return nowhere
	case anyContains(linkLocalRanges, a):
		return linkLocal
	case anyContains(loopbackRanges, a):
		return loopback
	case slices.Contains(owns, a):
		return own
	case anyContains(privateRanges, a):
		return private
	}
	return open
}

// policy is what counts for one connection.
type policy struct {
	allowed []netip.Prefix
	// own are the addresses of this host.
	own []netip.Addr
	// named are the hosts that an administrator's configuration names, as normal has them.
	named []string
}

// normal is a host as hosts are compared, and as transports dial it.
func normal(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	return host
}

// check is a *RefusedError for an address that a host's name led to and that the server does not connect to.
//
// A range allows what is in it, and an address of this host only where it is that one address alone: who allows a network for its
// object storage does not mean the services beside the server. A host that an administrator's configuration names may be in a private
// network, and on this host; on loopback only where the configuration says so in as many words, not because a name leads there.
func (p policy) check(host string, a netip.Addr) error {
	to := plain(a)
	is := classOf(to, p.own)
	allowed := func(r netip.Prefix) bool {
		return (r.Contains(to) || r.Contains(a.WithZone("").Unmap())) && (is != own || r.IsSingleIP())
	}
	named := slices.Contains(p.named, normal(host))
	switch {
	case is == open, is != nowhere && slices.ContainsFunc(p.allowed, allowed):
		return nil
	case named && (is == private || is == own):
		return nil
	case named && is == loopback && (normal(host) == "localhost" || literal(host).IsValid()):
		return nil
	}
	return &RefusedError{Host: host, Address: a, is: is}
}

// literal is the address that a host is written as; invalid for a name.
func literal(host string) netip.Addr {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// RefusedError says that the server does not connect to an address. Its sentence is for people: it names the setting.
type RefusedError struct {
	// Host is what was asked for, Address where it led to.
	Host    string
	Address netip.Addr
	is      class
}

func (e *RefusedError) Error() string {
	what := e.Address.String()
	if !literal(e.Host).IsValid() && e.Host != "" {
		what = fmt.Sprintf("%.253s (%s)", e.Host, e.Address)
	}
	if e.is == nowhere {
		return fmt.Sprintf("the server does not connect to %s, which is %s", what, e.is)
	}
	to := plain(e.Address)
	wider := ", or the range it is in,"
	if e.is == own {
		wider = ""
	}
	return fmt.Sprintf("the server does not connect to %s, which is %s: an administrator can allow it by adding %s/%d%s to setting %s", what, e.is, to, to.BitLen(), wider, Setting)
}
