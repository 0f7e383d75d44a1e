// Package clientip says whom an address stands for when limits are counted: an IPv4 address
// for itself, an IPv6 address for its /64, out of which one host can take as many as it likes.
package clientip

import "net/netip"

// Of is the source of an address with or without a port. What cannot be read shares the
// zero Prefix.
func Of(address string) netip.Prefix {
	at, err := netip.ParseAddr(address)
	if err != nil {
		withPort, err := netip.ParseAddrPort(address)
		if err != nil {
			return netip.Prefix{}
		}
		at = withPort.Addr()
	}
	at, bits := at.Unmap().WithZone(""), 32
	if at.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(at, bits).Masked()
}
