//go:build ignore

// Command components is etcd or kube-apiserver, by the name it is started under: parts of k3s on their own, for tests
// that compare drover's plan API with a Kubernetes API server. It is built in the copy of k3s' module, out of packages
// that k3s has had compiled already.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand(nil)))
	case "etcd":
		if err := runEtcd(); err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "%s is not the name of a component; etcd and kube-apiserver are\n", name)
		os.Exit(1)
	}
}

// runEtcd runs etcd on the configuration file that is the only argument.
func runEtcd() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) != 2 {
		return fmt.Errorf("the configuration file is the only argument")
	}
	config, err := embed.ConfigFromFile(os.Args[1])
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	case <-server.Server.StopNotify():
		return fmt.Errorf("it stopped by itself")
	}
}
