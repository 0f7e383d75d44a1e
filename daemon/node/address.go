// The addresses of the host, as the person said them or as they can be found.

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// addresses are what the agent reports to the server.
type addresses struct{ external, internal string }

// service is how a cloud's metadata service is asked for an address.
type metadata struct {
	url    string
	header [2]string
}

// clouds are the keywords that stand for an address that another service knows.
var clouds = map[string]metadata{
	"awslocal":     {url: "http://169.254.169.254/latest/meta-data/local-ipv4"},
	"awspublic":    {url: "http://169.254.169.254/latest/meta-data/public-ipv4"},
	"doprivate":    {url: "http://169.254.169.254/metadata/v1/interfaces/private/0/ipv4/address"},
	"dopublic":     {url: "http://169.254.169.254/metadata/v1/interfaces/public/0/ipv4/address"},
	"azprivate":    {"http://169.254.169.254/metadata/instance/network/interface/0/ipv4/ipAddress/0/privateIpAddress?api-version=2017-08-01&format=text", [2]string{"Metadata", "true"}},
	"azpublic":     {"http://169.254.169.254/metadata/instance/network/interface/0/ipv4/ipAddress/0/publicIpAddress?api-version=2017-08-01&format=text", [2]string{"Metadata", "true"}},
	"gceinternal":  {"http://metadata.google.internal/computeMetadata/v1/instance/network-interfaces/0/ip", [2]string{"Metadata-Flavor", "Google"}},
	"gceexternal":  {"http://metadata.google.internal/computeMetadata/v1/instance/network-interfaces/0/access-configs/0/external-ip", [2]string{"Metadata-Flavor", "Google"}},
	"packetlocal":  {url: "https://metadata.packet.net/2009-04-04/meta-data/local-ipv4"},
	"packetpublic": {url: "https://metadata.packet.net/2009-04-04/meta-data/public-ipv4"},
	"ipify":        {url: "https://api.ipify.org"},
}

// metadataLimit bounds one question to a metadata service.
const metadataLimit = 5 * time.Second

func (a *agent) addresses(ctx context.Context) (addresses, error) {
	external, err := resolve(ctx, "--address", a.Address, clouds)
	if err != nil {
		return addresses{}, err
	}
	internal, err := resolve(ctx, "--internal-address", a.InternalAddress, clouds)
	if err != nil {
		return addresses{}, err
	}
	if external == "" {
		external, err = outward(ctx)
		if err != nil {
			return addresses{}, fmt.Errorf("find this host's address: %w; pass it with --address", err)
		}
	}
	return addresses{external, internal}, nil
}

// resolve makes an address of what a person said: a literal, the name of an interface
// (its first IPv4 address), or the keyword of a metadata service.
func resolve(ctx context.Context, flag, said string, known map[string]metadata) (string, error) {
	if said == "" {
		return "", nil
	}
	if ip, err := netip.ParseAddr(said); err == nil {
		return ip.String(), nil
	}
	if m, ok := known[said]; ok {
		ip, err := ask(ctx, m)
		if err != nil {
			return "", fmt.Errorf("%s %s: ask the metadata service: %w; pass the address itself", flag, said, err)
		}
		return ip, nil
	}
	i, err := net.InterfaceByName(said)
	if err != nil {
		return "", fmt.Errorf("%s %.60q is neither an IP address nor an interface of this host nor the keyword of a cloud (awslocal, azprivate, …); see `ip address`", flag, said)
	}
	all, err := i.Addrs()
	if err != nil {
		return "", fmt.Errorf("%s: read the addresses of interface %s: %w", flag, said, err)
	}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr().Is4() {
			return prefix.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("%s: interface %s has no IPv4 address", flag, said)
}

func ask(ctx context.Context, m metadata) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return "", err
	}
	if m.header[0] != "" {
		q.Header.Set(m.header[0], m.header[1])
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: the service is on this host's own link
	if q.URL.Scheme == "https" {
		transport.Proxy = http.ProxyFromEnvironment
	}
	// A redirect is an answer without an address.
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(q)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 256))
	if err != nil {
		return "", err
	}
	ip, err := netip.ParseAddr(strings.TrimSpace(string(b)))
	if answer.StatusCode != http.StatusOK || err != nil {
		return "", fmt.Errorf("it answered %s and no address", answer.Status)
	}
	return ip.String(), nil
}

// outward is the address this host would use towards the internet. Connecting a UDP
// socket asks the routing table and sends nothing.
func outward(ctx context.Context) (string, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "udp4", "8.8.8.8:53")
	if err != nil {
		return "", err
	}
	defer c.Close()
	local, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return "", errors.New("the system names none")
	}
	return local.IP.String(), nil
}
