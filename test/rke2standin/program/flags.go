//go:build ignore

package main

// What RKE2's command line has beyond that of k3s. Flags that the stand-in knows and does nothing with are among them,
// because a configuration with them must be accepted: it runs no charts, and its pods have no requests and limits.

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
)

const (
	supervisorPort = 9345
	defaultDataDir = "/var/lib/rancher/rke2"
)

// components are the static pods' names in flags.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd", "cloud-controller-manager"}

// nodeFlags are those of servers and agents.
func nodeFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "kubelet-path", Usage: "(stand-in: ignored)"},
		&cli.StringFlag{Name: "cloud-provider-name", Usage: "(stand-in: ignored)"},
		&cli.StringFlag{Name: "cloud-provider-config", Usage: "(stand-in: ignored)"},
		&cli.StringFlag{Name: "profile", Usage: "(stand-in: ignored)"},
		&cli.StringFlag{Name: "runtime-image", Usage: "(stand-in: ignored)"},
		&cli.StringFlag{Name: "audit-policy-file", Usage: "Path to the audit policy of kube-apiserver"},
		&cli.StringFlag{Name: "pod-security-admission-config-file", Usage: "Path to the admission configuration of kube-apiserver (stand-in: none by default)"},
		&cli.StringSliceFlag{Name: "control-plane-resource-requests", Usage: "(stand-in: ignored)"},
		&cli.StringSliceFlag{Name: "control-plane-resource-limits", Usage: "(stand-in: ignored)"},
		&cli.StringSliceFlag{Name: "control-plane-probe-configuration", Usage: "(stand-in: ignored)"},
	}
	for _, component := range components {
		flags = append(flags,
			&cli.StringSliceFlag{Name: component + "-extra-mount", Usage: component + " extra volume mounts, SOURCE:TARGET[:ro|:rw]"},
			&cli.StringSliceFlag{Name: component + "-extra-env", Usage: component + " extra environment variables, NAME=VALUE"},
			&cli.StringFlag{Name: component + "-image", Usage: "Override image to use for " + component})
	}
	return flags
}

// serverFlags are those of servers.
func serverFlags() []cli.Flag {
	return append(nodeFlags(),
		&cli.StringSliceFlag{Name: "cni", Usage: "(stand-in: whatever it names, pods get their network from flannel; see network.go)"},
		&cli.StringSliceFlag{Name: "ingress-controller", Usage: "(stand-in: ignored)"},
		&cli.BoolFlag{Name: "prime", Usage: "(stand-in: ignored)"},
		&cli.BoolFlag{Name: "enable-servicelb", Usage: "(stand-in: has no image for it)"},
	)
}

// apiServerFiles are what flags that name files mean to kube-apiserver.
func apiServerFiles(c *cli.Context, dataDir string) []string {
	var args []string
	if policy := c.String("audit-policy-file"); policy != "" {
		args = append(args, "audit-policy-file="+policy, "audit-log-path="+filepath.Join(dataDir, "server", "logs", "audit.log"))
	}
	if admission := c.String("pod-security-admission-config-file"); admission != "" {
		args = append(args, "admission-control-config-file="+admission)
	}
	return args
}

// speakToSupervisor gives RKE2's port to the commands that speak to the server of the same host.
func speakToSupervisor(commands []*cli.Command) {
	for _, command := range commands {
		speakToSupervisor(command.Subcommands)
		for _, flag := range command.Flags {
			if text, ok := flag.(*cli.StringFlag); ok && text.Value == "https://127.0.0.1:6443" {
				text.Value = fmt.Sprintf("https://127.0.0.1:%d", supervisorPort)
			}
		}
	}
}

// mount is a directory or file of the host in a pod.
type mount struct {
	source, target string
	readOnly       bool
}

// podOptions are what flags say about one static pod, by its name.
type podOptions map[string]struct {
	mounts []mount
	env    []string
	image  string
}

// registryOf is the registry that images are named by.
func registryOf(c *cli.Context) string { return c.String("system-default-registry") }

func podOptionsOf(c *cli.Context) (podOptions, error) {
	options := podOptions{}
	for _, component := range components {
		o := options[component]
		o.env, o.image = c.StringSlice(component+"-extra-env"), c.String(component+"-image")
		for _, text := range c.StringSlice(component + "-extra-mount") {
			parts := strings.Split(text, ":")
			if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
				return nil, fmt.Errorf("--%s-extra-mount: %q is not SOURCE:TARGET[:ro|:rw]", component, text)
			}
			o.mounts = append(o.mounts, mount{source: parts[0], target: parts[1], readOnly: len(parts) == 3 && parts[2] == "ro"})
		}
		options[component] = o
	}
	return options, nil
}
