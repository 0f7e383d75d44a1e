package engine

// The network of a run: a bridge with a subnet of our choice, so that hosts can have fixed addresses, which they keep
// over a reboot as real ones do.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"strings"
)

const (
	// reservedAddresses follow the gateway and are left to containers that ask for no address.
	reservedAddresses = 8
	// networkTries is how many subnets are tried; one may be taken by another run at the same moment.
	networkTries = 8
)

type network struct {
	name    string
	bridge  string // the interface on this machine
	gateway netip.Addr
	subnet  netip.Prefix
}

// makeNetwork makes the network of the run in a subnet that no interface of this machine has.
func (e *Engine) makeNetwork(ctx context.Context) (network, error) {
	taken, err := localPrefixes()
	if err != nil {
		return network{}, err
	}
	name, bridge := "drover-"+e.run, "drv-"+e.run
	var failures []error
	for _, third := range rand.Perm(256) {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(third), 0}), 24)
		if overlaps(subnet, taken) {
			continue
		}
		gateway := subnet.Addr().Next()
		_, err := e.Docker(ctx, "network", "create", "--driver", "bridge", "--label", e.RunLabel(),
			"--subnet", subnet.String(), "--gateway", gateway.String(),
			"--opt", "com.docker.network.bridge.name="+bridge, name)
		if err == nil {
			e.Log.Info("made the run's network", "network", name, "subnet", subnet)
			return network{name, bridge, gateway, subnet}, nil
		}
		failures = append(failures, err)
		if len(failures) == networkTries || ctx.Err() != nil {
			break
		}
	}
	return network{}, fmt.Errorf("make a network for the run: %w", errors.Join(failures...))
}

func localPrefixes() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	prefixes := make([]netip.Prefix, 0, len(addresses))
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes, nil
}

func overlaps(subnet netip.Prefix, taken []netip.Prefix) bool {
	for _, other := range taken {
		if subnet.Overlaps(other) {
			return true
		}
	}
	return false
}

// NextIP hands out an address of the run's network that no other container of the run has.
func (e *Engine) NextIP() (netip.Addr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.lastIP.Next()
	if !e.network.subnet.Contains(next.Next()) { // the last one is the broadcast address
		return netip.Addr{}, fmt.Errorf("the network %s has no address left", e.network.subnet)
	}
	e.lastIP = next
	return next, nil
}

// AddGateway gives this machine another address on the run's network, as a second server has one. It goes with the
// network.
func (e *Engine) AddGateway(ctx context.Context) (netip.Addr, error) {
	ip, err := e.NextIP()
	if err != nil {
		return ip, err
	}
	address := netip.PrefixFrom(ip, e.network.subnet.Bits())
	if output, err := exec.CommandContext(ctx, "ip", "address", "add", address.String(), "dev", e.network.bridge).CombinedOutput(); err != nil {
		return ip, fmt.Errorf("give this machine another address on %s: %w: %s", e.network.name, err, strings.TrimSpace(string(output)))
	}
	return ip, nil
}
