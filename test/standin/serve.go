package main

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/drover-project/drover/test/standin/config"
	"github.com/drover-project/drover/test/standin/server"
)

// runServer is `k3s server`.
func runServer(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	settings, err := config.Load(config.Options{Args: args, Getenv: os.Getenv, Hostname: os.Hostname, HostIP: hostIP})
	if err != nil {
		return fail("%v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fail("find my own binary: %v", err)
	}
	err = server.Run(ctx, settings, server.Options{
		Executable: exe,
		Log:        slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Environ:    os.Environ(),
		Ready: func() error {
			_, err := daemon.SdNotify(true, daemon.SdNotifyReady)
			return err
		},
	})
	if err != nil {
		return fail("%v", err)
	}
	return 0
}

// hostIP is the address of the default route's interface; without one, the first address that is not loopback.
func hostIP() (netip.Addr, error) {
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			return addr.Unmap(), nil
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr(), nil
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
}
