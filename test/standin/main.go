// Command k3s-standin is a STAND-IN for k3s in drover's test bed, not k3s. The releases of k3s cannot be fetched
// everywhere the tests run, so this one binary is built instead, from the Go modules of the real Kubernetes: it links
// kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, a hollow kubelet (kubemark's: everything of a
// kubelet but the containers) and etcd. `k3s server` starts each of them as a process of its own and follows the real
// one's configuration files, paths, ports, certificates, tokens and process model for a cluster of one server.
//
// Installed under the name k3s it answers `k3s server`, `k3s kubectl …` and `k3s --version`; what it cannot do it
// refuses with a sentence.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() { os.Exit(run(os.Args)) }

// run is what the program does under the name and with the arguments of args, until its exit code.
func run(args []string) int {
	if len(args) == 0 {
		return fail("started without a name")
	}
	if start, ok := components()[filepath.Base(args[0])]; ok {
		os.Args = args // the components read their flags there
		return start()
	}
	command := "--help"
	if len(args) > 1 {
		command = args[1]
	}
	switch command {
	case "server":
		return runServer(args[2:])
	case "kubectl":
		return run(args[1:])
	case "--version", "-v", "version":
		fmt.Printf("k3s version %s (drover stand-in)\ngo version %s\n", version.Get().GitVersion, runtime.Version())
		return 0
	case "--help", "-h", "help":
		fmt.Print(usage)
		return 0
	case "agent":
		return fail("`k3s agent` is refused: the stand-in runs clusters of one server with all roles and cannot join another")
	default:
		return fail("`k3s %s` is not part of the stand-in; it has server, kubectl and --version", command)
	}
}

const usage = `k3s-standin: drover's stand-in for k3s, made of the real Kubernetes components with a hollow kubelet.
It runs clusters of one server for tests. It is not k3s.

  k3s server [--KEY=VALUE …]   run the server; reads /etc/rancher/k3s/config.yaml and config.yaml.d
  k3s kubectl …                talk to it
  k3s --version
`

// components is what the binary becomes when it is started under one of these names.
func components() map[string]func() int {
	return map[string]func() int{
		"kubectl":                 runKubectl,
		"etcd":                    runEtcd,
		"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
		"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kubelet":                 runKubelet,
	}
}

func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "k3s stand-in: "+format+"\n", args...)
	return 1
}
