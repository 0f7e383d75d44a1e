// What two distributions differ in, as one value: names, units, ports, paths.

package installers

import (
	"cmp"
	"net"
	"path"
	"strconv"
	"strings"
)

// Distribution is a Kubernetes distribution as planners and observers have to know it. Code that
// asks which one it is instead of asking the value shows that something is missing here.
type Distribution struct {
	// Name is k3s or rke2, as it stands in paths, images and versions.
	Name string
	// Variable is the name in environment variables: K3S, RKE2.
	Variable string
	// ServerUnit and AgentUnit are the systemd units of machines with and without the etcd or
	// control-plane role.
	ServerUnit, AgentUnit string
	// JoinPort is where other nodes join.
	JoinPort int
	// ClusterInit says that the first server is marked by cluster-init: true; without that
	// mark a server that has no other to join is the first.
	ClusterInit bool
	// EtcdHealth says that etcd answers a health question that needs no certificate, on every
	// etcd machine, and that a kubelet runs there as everywhere.
	EtcdHealth bool
	// ComponentMounts says that components run in pods, which see a directory of the host only
	// when it is mounted; the key of the mounts is the component's name with -extra-mount.
	ComponentMounts bool
	// DefaultCNI is the network plugin of a cluster that names none; empty where cni is not a setting.
	DefaultCNI string
	// OneTaint says that a machine with etcd and control plane has the taint of the control plane alone.
	OneTaint bool
	// RestartCheck says that the installer notes a restart before it is done, so that
	// the plan has to look whether it was.
	RestartCheck bool
	// KillAll, ServerUninstall and AgentUninstall are the scripts that the installer leaves in ScriptDirs.
	KillAll, ServerUninstall, AgentUninstall string
	// ScriptDirs are where those scripts may be, the likelier first.
	ScriptDirs []string
}

// Ports that both distributions share.
const (
	APIPort           = 6443
	controllerPort    = 10257
	schedulerPort     = 10259
	kubeletHealthPort = 10248
	etcdHealthPort    = 2381
	calicoHealthPort  = 9099
	authProxyPort     = 6440
)

// AgentRegistries is where agents look for the registries of installer images.
const AgentRegistries = "/etc/rancher/agent/registries.yaml"

// DefaultImage is the prefix of installer images.
const DefaultImage = "rancher/system-agent-installer-"

// EtcDir is where the distribution's settings are.
func (d Distribution) EtcDir() string { return "/etc/rancher/" + d.Name }

// ConfigFile is the file of settings that a planner writes; a file of the host's owner that sorts after it wins.
func (d Distribution) ConfigFile() string { return d.EtcDir() + "/config.yaml.d/50-rancher.yaml" }

// RegistriesFile is where the distribution looks for its registries.
func (d Distribution) RegistriesFile() string { return d.EtcDir() + "/registries.yaml" }

// AdminKubeconfig is the administrator's kubeconfig on control-plane machines.
func (d Distribution) AdminKubeconfig() string { return d.EtcDir() + "/" + d.Name + ".yaml" }

// DefaultDataDir is the data directory of a cluster that names none.
func (d Distribution) DefaultDataDir() string { return "/var/lib/rancher/" + d.Name }

// ManifestDir is where the deploy controller picks up manifests on control-plane nodes.
func (d Distribution) ManifestDir(dataDir string) string {
	return path.Join(dataDir, "server/manifests/rancher")
}

// Unit is the systemd unit of a node.
func (d Distribution) Unit(server bool) string {
	if server {
		return d.ServerUnit
	}
	return d.AgentUnit
}

// JoinURL is where nodes join through the server at an address, https://10.0.0.1:9345.
func (d Distribution) JoinURL(address string) string {
	return "https://" + net.JoinHostPort(strings.Trim(address, "[]"), strconv.Itoa(d.JoinPort))
}

// InstallerImage is the reference of the installer image: prefix, name and version, whose "+"
// no image tag can carry. An empty prefix is DefaultImage.
func (d Distribution) InstallerImage(prefix, version string) string {
	prefix = cmp.Or(prefix, DefaultImage)
	return prefix + d.Name + ":" + strings.ReplaceAll(version, "+", "-")
}

// FromRegistry is an image reference as it is fetched from a registry, mirror.lan or mirror.lan/hub; an image that is
// in it already, or an empty registry, changes nothing. A bare name is one of Rancher's.
//
// Source: rancher/rancher pkg/image, resolve.
func FromRegistry(registry, image string) string {
	if registry == "" || strings.HasPrefix(image, registry+"/") {
		return image
	}
	if !strings.Contains(image, "/") {
		image = "rancher/" + image
	}
	return registry + "/" + image
}

// WebhookURL is where the webhook of the authorized cluster endpoint answers on a control-plane
// host; loopback is as in Node.
func WebhookURL(loopback string) string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(authProxyPort)) + "/v1/authenticate"
}
