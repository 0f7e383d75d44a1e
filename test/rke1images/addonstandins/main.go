// Command addonstandins stands in for what RKE1's add-ons run and what is not written in Go, is too large to build for a
// test, or is not a module that can be had: calico's programs, the nginx ingress controller with its default backend and
// the program that makes its webhook's certificate, and the autoscaler of DNS. It is each of them by its name, at the paths
// of their images, and does of their work what a test of the manifests needs; of rights it asks all that the originals need,
// and is not ready until it has them. Nothing of it is the originals' code.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	programs := map[string]func(context.Context, []string) error{
		"start_runit": calicoNode, "calico-node": calicoNodeCommand, "install": installCNI, "calico": cniPlugin,
		"kube-controllers": kubeControllers, "check-status": checkStatus, "flexvol": flexVolume,
		"nginx-ingress-controller": ingressController, "wait-shutdown": func(context.Context, []string) error { return nil },
		"default-backend": defaultBackend, "page": page, "kube-webhook-certgen": certgen, "cluster-proportional-autoscaler": autoscaler,
	}
	name := filepath.Base(os.Args[0])
	do := programs[name]
	if do == nil {
		fmt.Fprintf(os.Stderr, "stand-in: %q is not the name of one\n", name)
		os.Exit(2)
	}
	if err := do(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "stand-in of %s: %v\n", name, err)
		os.Exit(1)
	}
}

// api is the cluster's API, as a pod sees it.
type api struct {
	*kubernetes.Clientset
	objects dynamic.Interface
}

func inCluster() (api, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return api{}, err
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return api{}, err
	}
	objects, err := dynamic.NewForConfig(config)
	return api{client, objects}, err
}
