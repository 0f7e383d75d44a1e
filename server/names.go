// The names and addresses that a server goes by.

package server

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/drover-project/drover/server/pki"
)

// names are what a server's certificate is good for and what hosts may call it.
type names struct {
	dns  []string
	ips  []net.IP
	port int
	// only is the one address that the server listens on; empty when it listens on all.
	only string
}

// hostNames gathers this host's name and addresses, what the administrator added, and the hosts of the given URLs.
func hostNames(listen net.Addr, extra []string, serverURL, peerURL string) (names, error) {
	n := names{dns: []string{"localhost"}}
	if tcp, ok := listen.(*net.TCPAddr); ok {
		n.port = tcp.Port
		if !tcp.IP.IsUnspecified() {
			n.only = tcp.IP.String()
			n.add(n.only)
		}
	}
	if host, err := os.Hostname(); err == nil {
		n.add(host)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return n, fmt.Errorf("list this host's addresses: %w", err)
	}
	for _, a := range addresses {
		if prefix, ok := a.(*net.IPNet); ok && !prefix.IP.IsLinkLocalUnicast() {
			n.add(prefix.IP.String())
		}
	}
	for _, name := range extra {
		n.add(name)
	}
	for _, given := range []struct{ flag, url string }{{"--server-url", serverURL}, {"--peer-url", peerURL}} {
		if given.url == "" {
			continue
		}
		u, err := url.Parse(given.url)
		if err != nil || u.Scheme != "https" || u.Host == "" || (u.Path != "" && u.Path != "/") {
			return n, fmt.Errorf("%s %q is not of the form https://host[:port]", given.flag, given.url)
		}
		n.add(u.Hostname())
	}
	return n, nil
}

func (n *names) add(name string) {
	if ip := net.ParseIP(name); ip != nil {
		if !slices.ContainsFunc(n.ips, ip.Equal) {
			n.ips = append(n.ips, ip)
		}
		return
	}
	if name != "" && !slices.Contains(n.dns, name) {
		n.dns = append(n.dns, name)
	}
}

// own is by which name this server is told from the others of its store: that of its host, and its port.
func (n names) own() string {
	host, err := os.Hostname()
	if err != nil {
		host = "drover"
	}
	return net.JoinHostPort(host, strconv.Itoa(n.port))
}

func (n names) certificate() pki.Names { return pki.Names{DNS: n.dns, IPs: n.ips} }

// url is the given URL, or one by which other hosts may find this one: its first address
// that is not for itself alone, which needs no name service on the hosts.
func (n names) url(given string) string {
	if given != "" {
		return given
	}
	host := n.only
	for _, ip := range n.ips {
		if host == "" && !ip.IsLoopback() {
			host = ip.String()
		}
	}
	host = cmp.Or(host, "localhost")
	if n.port == 443 {
		if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
			return "https://[" + host + "]"
		}
		return "https://" + host
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(n.port))
}

// local is the URL by which commands on this host reach the server.
func (n names) local() string {
	host := cmp.Or(n.only, "localhost")
	return "https://" + net.JoinHostPort(host, strconv.Itoa(n.port))
}
