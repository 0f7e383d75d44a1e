//go:build ignore

// Command components is what runs beside the supervisor, by the name it is started under: in the containers of static
// pods the parts of the control plane and etcd, on the host containerd, the kubelet and the tools. All of them are the
// real ones, out of the modules that k3s is built from; one program of them all is built once and unpacked once a host.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	_ "github.com/k3s-io/k3s/pkg/cloudprovider" // registers the provider
	"github.com/k3s-io/k3s/pkg/containerd"
	"github.com/k3s-io/k3s/pkg/ctr"
	"github.com/k3s-io/k3s/pkg/version"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	cloud "k8s.io/cloud-provider"
	ccm "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	ccmoptions "k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	crictl "sigs.k8s.io/cri-tools/cmd/crictl"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "containerd":
		containerd.Main()
	case "ctr":
		ctr.Main()
	case "crictl":
		crictl.Main()
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	case "calico-node":
		fmt.Fprintln(os.Stderr, "calico-node:", serveHealth())
		os.Exit(1)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		if name == "etcd" {
			if err := runEtcd(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "etcd:", err)
				os.Exit(1)
			}
			return
		}
		command, err := component(ctx, name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(cli.Run(command))
	}
}

// component is the command of a part of Kubernetes.
func component(ctx context.Context, name string) (*cobra.Command, error) {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand(ctx.Done()), nil
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand(), nil
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand(ctx.Done()), nil
	case "kube-proxy":
		return proxy.NewProxyCommand(), nil
	case "kubelet":
		return kubelet.NewKubeletCommand(ctx), nil
	case "cloud-controller-manager":
		return cloudControllerManager(ctx)
	default:
		return nil, fmt.Errorf("%s is not the name of a component", name)
	}
}

// cloudControllerManager is the one that k3s has inside: it gives nodes their addresses and takes the taint off them.
func cloudControllerManager(ctx context.Context) (*cobra.Command, error) {
	options, err := ccmoptions.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("make the options of the cloud controller manager: %w", err)
	}
	provider := func(config *ccmconfig.CompletedConfig) cloud.Interface {
		made, err := cloud.InitCloudProvider(version.Program, config.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile)
		if err != nil || made == nil {
			fmt.Fprintln(os.Stderr, "make the cloud provider:", err)
			os.Exit(1)
		}
		return made
	}
	return ccm.NewCloudControllerManagerCommand(options, provider, ccm.DefaultInitFuncConstructors, names.CCMControllerAliases(), flag.NamedFlagSets{}, ctx.Done()), nil
}

// serveHealth answers what probes ask the node agent of Calico, and is nothing else of it.
func serveHealth() error {
	mux := http.NewServeMux()
	for _, path := range []string{"/liveness", "/readiness"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}
	server := &http.Server{Addr: "127.0.0.1:9099", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// runEtcd runs etcd on the configuration file that its argument --config-file names.
func runEtcd(ctx context.Context) error {
	const option = "--config-file="
	if len(os.Args) != 2 || len(os.Args[1]) <= len(option) || os.Args[1][:len(option)] != option {
		return fmt.Errorf("%sPATH is the only argument", option)
	}
	config, err := embed.ConfigFromFile(os.Args[1][len(option):])
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
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
