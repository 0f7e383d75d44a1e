// Command tools stands in for the programs of the image rancher/rke-tools, by the name it is started under. It follows
// what is known of their flags, variables, files and names, and is no part of them; what drover's engine does not use is
// left out and refused: copies of snapshots on S3, and snapshots carried from host to host.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch name := filepath.Base(os.Args[0]); name {
	case "nginx-proxy":
		err = serveProxy(ctx, os.Getenv("CP_HOSTS"))
	case "cert-deployer":
		err = deployCertificates(os.Environ())
	case "nc":
		err = netcat(ctx, os.Args[1:])
	case "rke-etcd-backup":
		err = backup(ctx, os.Args[1:])
	default:
		err = fmt.Errorf("%s is not the name of a program of this image", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in of rke-tools:", err)
		os.Exit(1)
	}
}
