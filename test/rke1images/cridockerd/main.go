//go:build ignore

// Command cri-dockerd serves the interface of container runtimes over the host's Docker, with the flags that rke-tools gives
// to the program of this name. That one's module cannot be fetched; this is what it began as, dockershim, and is built in a
// copy of Kubernetes 1.23's module. It speaks v1alpha2 of the interface, which kubelets understand until 1.25.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cri/streaming"
	"k8s.io/kubernetes/pkg/kubelet/dockershim"
	"k8s.io/kubernetes/pkg/kubelet/dockershim/remote"
)

func main() {
	endpoint := flag.String("container-runtime-endpoint", "unix:///var/run/cri-dockerd.sock", "where to listen")
	pause := flag.String("pod-infra-container-image", "", "the image of the container that holds a pod's network")
	driver := flag.String("cgroup-driver", "cgroupfs", "Docker's")
	network := dockershim.NetworkPluginSettings{HairpinMode: config.PromiscuousBridge, PluginCacheDir: "/var/lib/cni/cache"}
	flag.StringVar(&network.PluginName, "network-plugin", "cni", "cni")
	flag.StringVar(&network.PluginConfDir, "cni-conf-dir", "/etc/cni/net.d", "where the network's config is")
	flag.StringVar(&network.PluginBinDirString, "cni-bin-dir", "/opt/cni/bin", "where its programs are")
	flag.Parse()
	if err := serve(*endpoint, *pause, *driver, &network); err != nil {
		fmt.Fprintln(os.Stderr, "cri-dockerd:", err)
		os.Exit(1)
	}
	select {}
}

func serve(endpoint, pause, driver string, network *dockershim.NetworkPluginSettings) error {
	docker := &dockershim.ClientConfig{
		DockerEndpoint: "unix:///var/run/docker.sock", RuntimeRequestTimeout: 2 * time.Minute, ImagePullProgressDeadline: time.Minute,
	}
	streams := streaming.DefaultConfig
	streams.Addr = net.JoinHostPort("localhost", "0")
	service, err := dockershim.NewDockerService(docker, pause, &streams, network, "", driver, "/var/lib/cri-dockerd")
	if err != nil {
		return err
	}
	return remote.NewDockerServer(endpoint, service).Start()
}
