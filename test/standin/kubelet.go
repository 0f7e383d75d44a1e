package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	apiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli/flag"
	fakecri "k8s.io/cri-client/pkg/fake"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/cluster/ports"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

// runKubelet is the hollow kubelet: the kubelet's own start-up, flags, API client, server and health port, over
// kubemark's stubs for containers, mounts and cgroups, so that it runs anywhere and pods "run" without running.
// Its working files go to $TMPDIR, which the parent gives it and empties before each start.
func runKubelet() int {
	if err := hollowKubelet(apiserver.SetupSignalContext(), os.Args[1:]); err != nil {
		return fail("kubelet: %v", err)
	}
	return 0
}

func hollowKubelet(ctx context.Context, args []string) error {
	flags, cfg := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		KubeletPort: ports.KubeletPort, MaxPods: 110, NodeLabels: map[string]string{},
	})
	socket := "unix://" + filepath.Join(os.TempDir(), "cri.sock")
	hollowDefaults(cfg, socket)
	if err := parseKubeletFlags(flags, cfg, args); err != nil {
		return err
	}
	containers := fakecri.NewFakeRemoteRuntime()
	if err := containers.Start(socket); err != nil {
		return fmt.Errorf("start the hollow container runtime: %w", err)
	}
	defer containers.Stop()
	tls, err := kubeletapp.InitializeTLS(ctx, flags, cfg)
	if err != nil {
		return err
	}
	deps := kubemark.NewHollowKubelet(flags, cfg, nil, nil, hollowHost{Interface: &cadvisortest.Fake{NodeName: flags.HostnameOverride}},
		containers.ImageService, nil, cm.NewStubContainerManager()).KubeletDeps
	deps.KubeClient, deps.HeartbeatClient = nil, nil // Run makes them from the kubeconfig
	deps.TLSOptions = tls
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *cfg}
	return kubeletapp.Run(ctx, server, deps, utilfeature.DefaultFeatureGate)
}

// hollowHost is kubemark's fake host, except that it tells people what they look at.
type hollowHost struct{ cadvisor.Interface }

func (h hollowHost) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	info, err := h.Interface.VersionInfo()
	if err != nil {
		return nil, err
	}
	info.ContainerOsVersion = "drover stand-in (hollow node)"
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err == nil {
		info.KernelVersion = unix.ByteSliceToString(kernel.Release[:])
	}
	return info, nil
}

// hollowDefaults switches off what needs a kernel, a network or cgroups; flags may still change all of it.
func hollowDefaults(cfg *kubeletconfig.KubeletConfiguration, socket string) {
	cfg.ContainerRuntimeEndpoint, cfg.ImageServiceEndpoint = socket, socket
	cfg.ProviderID = "" // the node's initialisation sets it
	cfg.EnforceNodeAllocatable = []string{"none"}
	cfg.FailSwapOn = false
	cfg.MakeIPTablesUtilChains = false
	cfg.FailCgroupV1 = false
	cfg.KubeletCgroups = ""
	cfg.Authentication.Anonymous.Enabled = false
	cfg.Authentication.Webhook.Enabled = true
	cfg.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
}

func parseKubeletFlags(flags *options.KubeletFlags, cfg *kubeletconfig.KubeletConfiguration, args []string) error {
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.SetNormalizeFunc(flag.WordSepNormalizeFunc)
	flags.AddFlags(fs)
	options.AddKubeletConfigFlags(fs, cfg)
	options.AddGlobalFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(cfg.FeatureGates); err != nil {
		return err
	}
	return options.ValidateKubeletFlags(flags)
}
