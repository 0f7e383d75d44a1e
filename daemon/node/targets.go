// What the server may dial on this host. The list is this host's own and holds even when
// the server asks for.

package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/drover-project/drover/tunnel"
)

// dockerTarget is the one unix socket that can be dialled, wherever the engine's really is.
const dockerTarget = "/var/run/docker.sock"

// ports of this host that can be dialled: the API server, etcd, and the health of RKE's
// components. Those of the port checks are among them.
var ports = map[uint16]string{
	6443: "the Kubernetes API", 2379: "etcd", 2380: "etcd's peers", 10250: "the kubelet",
	10248: "the kubelet's health", 10256: "kube-proxy's health", 10257: "the controller manager's health", 10259: "the scheduler's health",
	10251: "the scheduler's health of old releases", 10252: "the controller manager's health of old releases",
}

// linkLocal holds the metadata services of clouds, which give away the host's identity.
var linkLocal = netip.MustParsePrefix("169.254.0.0/16")

func (a *agent) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := a.open(ctx, network, address)
	if err != nil {
		a.Logger.Warn("tunnel target does not open", "network", network, "address", address, "error", err)
		return nil, err
	}
	if !a.Conversations {
		return conn, nil
	}
	a.Logger.Debug("tunnel target opens", "network", network, "address", address)
	return &counted{Conn: conn, log: a.Logger.With("network", network, "address", address)}, nil
}

func (a *agent) open(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "tcp" && address == serviceAddress {
		return a.service.listener.Dial(ctx)
	}
	if network == "unix" && address == dockerTarget {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", a.DockerSocket)
		if err != nil {
			return nil, explainDocker(dockerTarget, err) // the protocol takes 100 bytes of it
		}
		return conn, nil
	}
	refused := func(reason string) error {
		return &tunnel.RefusedError{Network: network, Address: address, Reason: reason}
	}
	if network != "tcp" {
		return nil, refused("of sockets, only " + dockerTarget + " is offered")
	}
	own, err := a.own()
	if err != nil {
		return nil, err
	}
	to, reason := allowed(address, own)
	if reason != "" {
		return nil, refused(reason)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
}

// allowed is the address to dial, or why not.
func allowed(address string, own map[netip.Addr]bool) (to netip.AddrPort, reason string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return to, "it is not host:port"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || ports[uint16(n)] == "" {
		return to, "this port is not offered"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return to, "the host has to be an address or localhost"
	}
	ip = ip.Unmap()
	switch {
	case linkLocal.Contains(ip):
		return to, "link-local addresses are those of metadata services"
	case ip.IsLoopback(), own[ip]:
		return netip.AddrPortFrom(ip, uint16(n)), ""
	}
	return to, "it is not an address of this host"
}

// own are the addresses of this host, those of its interfaces now and those it was given.
func (a *agent) own() (map[netip.Addr]bool, error) {
	own := map[netip.Addr]bool{}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			own[prefix.Addr().Unmap()] = true
		}
	}
	for _, given := range []string{a.address.external, a.address.internal} {
		if ip, err := netip.ParseAddr(given); err == nil {
			own[ip.Unmap()] = true
		}
	}
	return own, nil
}

// counted logs how much passed. What passed may be secret and is never logged.
type counted struct {
	net.Conn
	log     *slog.Logger
	in, out atomic.Int64
	once    sync.Once
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.out.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.in.Add(int64(n))
	return n, err
}

// CloseWrite announces to the target that nothing more comes, if the connection can.
func (c *counted) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.log.Debug("tunnel target closes", "bytesIn", c.in.Load(), "bytesOut", c.out.Load())
	})
	return c.Conn.Close()
}
