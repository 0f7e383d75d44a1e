// Package k3s is what it takes to put k3s on a host: its paths, its unit, its ports,
// the keys of its config file, its probes and the one instruction that installs it.
// It decides nothing; the planner does.
//
// Source: k3s-io/k3s and rancher/system-agent-installer-k3s.
package k3s

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans"
)

// Paths on the host.
const (
	DefaultDataDir    = "/var/lib/rancher/k3s"
	EtcDir            = "/etc/rancher/k3s"
	ConfigFile        = EtcDir + "/config.yaml.d/50-rancher.yaml"
	RegistriesFile    = EtcDir + "/registries.yaml"
	AdminKubeconfig   = EtcDir + "/k3s.yaml"
	AgentRegistries   = "/etc/rancher/agent/registries.yaml"
	ServerUnit        = "k3s"
	AgentUnit         = "k3s-agent"
	DefaultImage      = "rancher/system-agent-installer-"
	InstallName       = "install"
	APIPort           = 6443 // the API server, and where other nodes join
	controllerPort    = 10257
	schedulerPort     = 10259
	kubeletHealthPort = 10248
)

// InstallerImage is the reference of the installer image: registry prefix, runtime and version,
// whose "+" no image tag can carry.
func InstallerImage(prefix, version string) string {
	if prefix == "" {
		prefix = DefaultImage
	}
	return prefix + "k3s:" + strings.ReplaceAll(version, "+", "-")
}

// Install is the instruction that installs or updates k3s and restarts it when the stamp differs
// from the one of the last run.
func Install(image, restartStamp, drainHash, dataDir string, server bool, env []string) plans.OneTimeInstruction {
	all := append([]string{"RESTART_STAMP=" + restartStamp, "DRAIN_HASH=" + drainHash}, env...)
	all = append(all, "K3S_DATA_DIR="+dataDir)
	if !server {
		all = append(all, "INSTALL_K3S_EXEC=agent")
	}
	return plans.OneTimeInstruction{
		Instruction: plans.Instruction{Name: InstallName, Image: image, Command: "sh", Args: []string{"-c", "run.sh"}, Env: all},
		SaveOutput:  true,
	}
}

// Restarted is the unit that the instructions of a plan start or restart on a host that has
// performed those of the plan before it. Its installer compares the stamps as this does.
func Restarted(before, after []plans.OneTimeInstruction) (unit string, restarted bool) {
	was, _, _ := installs(before)
	stamp, unit, is := installs(after)
	return unit, is && stamp != was
}

// installs finds what Install made among the instructions of a plan.
func installs(all []plans.OneTimeInstruction) (stamp, unit string, found bool) {
	for _, in := range all {
		if in.Name != InstallName {
			continue
		}
		unit, found = ServerUnit, true
		for _, env := range in.Env {
			if value, ok := strings.CutPrefix(env, "RESTART_STAMP="); ok {
				stamp = value
			}
			if env == "INSTALL_K3S_EXEC=agent" {
				unit = AgentUnit
			}
		}
	}
	return stamp, unit, found
}

// Unit is the systemd unit of a node.
func Unit(server bool) string {
	if server {
		return ServerUnit
	}
	return AgentUnit
}

// ManifestDir is where the deploy controller picks up manifests on control-plane nodes.
func ManifestDir(dataDir string) string { return path.Join(dataDir, "server/manifests/rancher") }

// Component is a control-plane component with a health endpoint of its own.
type Component struct {
	Name   string // kube-scheduler
	ArgKey string // kube-scheduler-arg, its key in the config file
	port   int
}

// The components whose certificate directory and port the planner pins, so that their probes find them.
var (
	ControllerManager = Component{Name: "kube-controller-manager", ArgKey: "kube-controller-manager-arg", port: controllerPort}
	Scheduler         = Component{Name: "kube-scheduler", ArgKey: "kube-scheduler-arg", port: schedulerPort}
)

// Args are the user's arguments with certificate directory and secure port added where the user
// chose neither of them nor a certificate file.
func (c Component) Args(user []string, dataDir string) []string {
	args := append([]string{}, user...)
	if argument(user, "tls-cert-file") == "" && argument(user, "cert-dir") == "" {
		args = append(args, "cert-dir="+c.certDir(dataDir))
	}
	if argument(user, "secure-port") == "" {
		args = append(args, "secure-port="+strconv.Itoa(c.port))
	}
	return args
}

func (c Component) certDir(dataDir string) string {
	return path.Join(dataDir, "server/tls", c.Name)
}

// probe asks the component's health. It trusts the component's own certificate, which is self-signed.
func (c Component) probe(args []string, loopback, dataDir string) plans.Probe {
	port := argument(args, "secure-port")
	if port == "" {
		port = strconv.Itoa(c.port)
	}
	cert := argument(args, "tls-cert-file")
	if cert == "" {
		dir := argument(args, "cert-dir")
		if dir == "" {
			dir = c.certDir(dataDir)
		}
		cert = path.Join(dir, c.Name+".crt")
	}
	return probe(plans.HTTPGet{URL: "https://" + net.JoinHostPort(loopback, port) + "/healthz", CACert: cert})
}

// argument is the value of name=value in a list of component arguments; the last one wins.
func argument(args []string, name string) string {
	value := ""
	for _, arg := range args {
		if k, v, ok := strings.Cut(strings.TrimLeft(arg, "-"), "="); ok && k == name {
			value = v
		}
	}
	return value
}

// Node is what the probes of a node depend on.
type Node struct {
	Etcd, ControlPlane, Worker bool
	// Loopback is localhost, 127.0.0.1 or ::1.
	Loopback string
	DataDir  string
	// ControllerManagerArgs and SchedulerArgs are the arguments as they stand in the node's config.
	ControllerManagerArgs, SchedulerArgs []string
}

// Probes are the health questions of a node, by name.
func Probes(n Node) map[string]plans.Probe {
	probes := map[string]plans.Probe{}
	if n.ControlPlane {
		tls := path.Join(n.DataDir, "server/tls")
		probes["kube-apiserver"] = probe(plans.HTTPGet{
			URL:        "https://" + net.JoinHostPort(n.Loopback, strconv.Itoa(APIPort)) + "/readyz",
			CACert:     tls + "/server-ca.crt",
			ClientCert: tls + "/client-kube-apiserver.crt",
			ClientKey:  tls + "/client-kube-apiserver.key",
		})
		probes[ControllerManager.Name] = ControllerManager.probe(n.ControllerManagerArgs, n.Loopback, n.DataDir)
		probes[Scheduler.Name] = Scheduler.probe(n.SchedulerArgs, n.Loopback, n.DataDir)
	}
	if n.ControlPlane || !n.Etcd {
		probes["kubelet"] = probe(plans.HTTPGet{URL: fmt.Sprintf("http://%s/healthz", net.JoinHostPort(n.Loopback, strconv.Itoa(kubeletHealthPort)))})
	}
	return probes
}

func probe(get plans.HTTPGet) plans.Probe {
	return plans.Probe{InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5, HTTPGetAction: get}
}
