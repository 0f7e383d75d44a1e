package bed

// Addresses that are chosen before a program listens on them.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

const (
	// firstPort and lastPort are where kernels do not look when they choose a port themselves, and below those of
	// Kubernetes' services. So no other program gets a port between its choice and its use, or while its server is killed, by
	// listening on any port or by calling another; a caller's own port may be the very one that it calls, and a server
	// that is started again would find it taken.
	firstPort, lastPort = 12_000, 29_999
	// portTries is how many ports are tried.
	portTries = 100
)

// FreeAddress returns an address, host:port, of this machine on which nothing listens now.
func FreeAddress(ctx context.Context, ip netip.Addr) (string, error) {
	var last error
	for range portTries {
		address := netip.AddrPortFrom(ip, uint16(firstPort+rand.IntN(lastPort-firstPort+1))).String()
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("find a free port: %w", err)
		}
		return address, nil
	}
	return "", fmt.Errorf("find a free port: %d are taken; the last: %w", portTries, errors.Join(last, ctx.Err()))
}
