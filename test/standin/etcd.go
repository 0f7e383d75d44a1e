package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd runs the embedded etcd on the configuration file that is its only argument.
func runEtcd() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) != 2 {
		return fail("etcd takes one argument, its configuration file")
	}
	cfg, err := embed.ConfigFromFile(os.Args[1])
	if err != nil {
		return fail("etcd: read the configuration %s: %v", os.Args[1], err)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fail("etcd: %v", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return 0
	case err := <-server.Err():
		return fail("etcd: %v", err)
	case <-server.Server.StopNotify():
		return fail("etcd stopped by itself")
	}
}
