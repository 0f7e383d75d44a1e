// Package desired says what should be on the hosts of an RKE1 cluster: for each host its
// containers in the order in which they start, files and images, made of cluster.yml, version
// data and what Docker said of the host. Nothing here
// has a clock, a network or a store, so that what a dry run prints is what is then done.
//
// Names, flags, binds and texts are those of the rke command line, line 1.6, which can take the
// cluster over: a difference would restart Kubernetes. Source: rancher/rke cluster, services,
// docker and templates; rancher/rke-tools for what happens inside.
package desired

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/versions"
)

// Names of the containers that stay.
const (
	Sidekick          = nodeconfig.Sidekick
	Etcd              = "etcd"
	RollingSnapshots  = "etcd-rolling-snapshots"
	KubeAPIServer     = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	KubeProxy         = "kube-proxy"
	NginxProxy        = "nginx-proxy"
)

// Input is what containers are made of.
type Input struct {
	// Config is after defaults and validation.
	Config   *config.Cluster
	Versions *versions.Data
	// Hosts are by the address of their node. Nothing is planned for a host that is not in it, for example because
	// it could not be reached; it stays in the flags of the others.
	Hosts map[string]Facts
	// Registries are private registries with logins that the config does not have, as those of ECR end after hours.
	Registries []config.PrivateRegistry
	// Encryption is the text of encryption.yaml without a newline at its end, "" when Secrets are not encrypted.
	Encryption string
	// Joining says that a member is being added: etcd then finds its cluster instead of founding one.
	Joining bool
	// Members are the addresses of the nodes in etcd's --initial-cluster, in the order of Config; nil are all.
	Members []string
}

// Facts are what docker info says of a host, under its names.
type Facts struct {
	OSType          string
	OperatingSystem string
	Architecture    string
	DockerRootDir   string
	SecurityOptions []string
	ServerVersion   string
}

// SELinux says whether Docker labels its containers.
func (f Facts) SELinux() bool {
	return slices.ContainsFunc(f.SecurityOptions, func(option string) bool {
		name, _, _ := strings.Cut(option, ",") // name=selinux, or selinux of old API versions
		return strings.TrimPrefix(name, "name=") == "selinux"
	})
}

// Prefix is the path that stands before most paths on a host: that of the config, or else the one of the host's system.
func Prefix(c *config.Cluster, f Facts) string {
	if c.PrefixPath != "" && c.PrefixPath != "/" {
		return c.PrefixPath
	}
	for system, prefix := range map[string]string{"Boot2Docker": "/mnt/sda1/rke", "RancherOS": "/opt/rke", "CoreOS": "/opt/rke", "Flatcar": "/opt/rke"} {
		if strings.Contains(f.OperatingSystem, system) {
			return prefix
		}
	}
	return "/"
}

// Host is what should be on one host.
type Host struct {
	// Address is that of the node, Name its name in Kubernetes.
	Address, Name string
	// Prefix stands before paths.
	Prefix string
	// Containers are in the order in which they start.
	Containers []Container
	// Files are in the order in which they are written, before the containers start.
	Files []File
	// Images are those of Containers and the pause image, each once, sorted.
	Images []string
}

// Container is a container that stays, with the plane that it belongs to: one of the roles of config. The sidekick is of
// the first plane that needs it.
type Container struct {
	nodeconfig.Process
	Plane string
}

// File is a file of the host.
type File struct {
	Path string // on the host
	// Content ends with one newline more than the text whose checksum a container has; "" means that the file should not exist.
	Content string
	Mode    fs.FileMode // root owns it
}

// Plane are the containers of one plane, in their order.
func (h Host) Plane(role string) []Container {
	return slices.DeleteFunc(slices.Clone(h.Containers), func(c Container) bool { return c.Plane != role })
}

// Plan is everything wanted of a cluster. It never changes.
type Plan struct {
	Input
	config  *config.Cluster
	version versions.Version // of Kubernetes
	image   versions.Version // that the tag of the Kubernetes image says
	options versions.ServiceOptions
	texts   fileTexts
	sums    sums
	logins  map[string]config.PrivateRegistry
	docker  string // config.json of the kubelet, base64
}

// New makes a plan of a config that is whole. Its errors say what is missing.
func New(in Input) (*Plan, error) {
	c := in.Config
	p := &Plan{Input: in, config: c, logins: logins(c.PrivateRegistries)}
	maps.Copy(p.logins, logins(in.Registries))
	var ok bool
	if p.version, ok = versions.Parse(c.KubernetesVersion); !ok {
		return nil, fmt.Errorf("kubernetes_version %q is not a version such as v1.30.5-rancher1-1", c.KubernetesVersion)
	}
	p.image = imageVersion(c, p.version)
	for _, needed := range []struct{ key, image string }{
		{"etcd", c.SystemImages.Etcd}, {"kubernetes", c.SystemImages.Kubernetes}, {"alpine", c.SystemImages.Alpine},
		{"nginx_proxy", c.SystemImages.NginxProxy}, {"kubernetes_services_sidecar", c.SystemImages.ServicesSidecar},
	} {
		if needed.image == "" {
			return nil, fmt.Errorf("system_images.%s: is empty; the version data fill it for the versions that they have", needed.key)
		}
	}
	var err error
	if p.options, err = in.Versions.ServiceOptions(c.KubernetesVersion, c.SystemImages.Kubernetes); err != nil {
		return nil, err
	}
	if p.texts, err = p.makeTexts(); err != nil {
		return nil, err
	}
	p.sums = p.texts.sums()
	p.docker, err = dockerConfig(p.logins)
	return p, err
}

// imageVersion is the Kubernetes that the image's tag names; a tag that names none is of the config's version.
func imageVersion(c *config.Cluster, otherwise versions.Version) versions.Version {
	if v, ok := versions.Parse(versions.Tag(c.SystemImages.Kubernetes)); ok {
		return v
	}
	return otherwise
}

// Cluster is what should be on each host, by its address. Its error names the hosts that cannot be planned; the others are there all the same.
func Cluster(in Input) (map[string]Host, error) {
	p, err := New(in)
	if err != nil {
		return nil, err
	}
	hosts := make(map[string]Host, len(in.Hosts))
	var faults []error
	for _, address := range slices.Sorted(maps.Keys(in.Hosts)) {
		h, err := p.Host(address)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		hosts[address] = h
	}
	return hosts, errors.Join(faults...)
}

// Host is what should be on one host. It returns an error for an address that is not in the config.
func (p *Plan) Host(address string) (Host, error) {
	o, err := p.on(address)
	if err != nil {
		return Host{}, err
	}
	h := Host{Address: address, Name: name(o.node), Prefix: o.prefix, Files: o.files()}
	add := func(plane string, all ...nodeconfig.Process) {
		for _, process := range all {
			h.Containers = append(h.Containers, Container{Process: o.finish(process), Plane: plane})
		}
	}
	if o.node.Has(config.RoleEtcd) {
		add(config.RoleEtcd, o.etcd())
		if s := p.config.Services.Etcd.Snapshot; s == nil || *s {
			add(config.RoleEtcd, o.rollingSnapshots())
		}
	}
	if o.node.Has(config.RoleControlPlane) {
		add(config.RoleControlPlane, o.sidekick(), o.apiServer(), o.controllerManager(), o.scheduler())
	} else {
		add(config.RoleWorker, o.nginxProxy(), o.sidekick())
	}
	add(config.RoleWorker, o.kubelet(), o.kubeProxy())
	images := []string{p.pauseImage()}
	for _, c := range h.Containers {
		images = append(images, c.Image)
	}
	slices.Sort(images)
	h.Images = slices.DeleteFunc(slices.Compact(images), func(image string) bool { return image == "" })
	return h, nil
}

// host is one host while its containers are made.
type host struct {
	*Plan
	node   *config.Node
	facts  Facts
	prefix string
}

func (p *Plan) on(address string) (host, error) {
	i := slices.IndexFunc(p.config.Nodes, func(n config.Node) bool { return n.Address == address })
	facts, known := p.Hosts[address]
	switch {
	case i < 0:
		return host{}, fmt.Errorf("host %s: is not one of the config's nodes", address)
	case !known:
		return host{}, fmt.Errorf("host %s: nothing is known of its Docker", address)
	case facts.OSType != "" && facts.OSType != "linux":
		return host{}, fmt.Errorf("host %s: runs %s; RKE1 clusters are made of hosts with Linux here", address, facts.OSType)
	case facts.DockerRootDir == "":
		return host{}, fmt.Errorf("host %s: Docker does not say where its root directory is", address)
	}
	return host{Plan: p, node: &p.config.Nodes[i], facts: facts, prefix: Prefix(p.config, facts)}, nil
}

// finish gives a process what all of them have in common.
func (o host) finish(p nodeconfig.Process) nodeconfig.Process {
	p.ImageRegistryAuthConfig = o.login(p.Image)
	p.Labels = map[string]string{nodeconfig.Label: p.Name}
	p.SecurityOpt = o.labels(p)
	return p
}

// labels are SELinux's of a process. Those who share the sidekick's volumes share its level.
func (o host) labels(p nodeconfig.Process) (labels []string) {
	if p.Privileged || !o.facts.SELinux() {
		return nil
	}
	if p.Name == Sidekick || slices.Contains(p.VolumesFrom, Sidekick) {
		labels = append(labels, "label=level:s0:c1000,c1001")
	}
	if o.version.AtLeast(1, 22) {
		labels = append(labels, typeLabel)
	}
	return labels
}

const typeLabel = "label=type:rke_container_t"

// path is a path of the host below the prefix.
func (o host) path(p string) string { return path.Join(o.prefix, p) }

// binds are binds that were made for SELinux by a suffix before 1.22, and extra ones, each once.
func (o host) binds(own, extra []string) []string {
	all := make([]string, 0, len(own)+len(extra))
	for _, bind := range own {
		if o.version.AtLeast(1, 22) {
			bind = strings.TrimSuffix(strings.TrimSuffix(bind, ":z"), ",z")
		}
		all = append(all, bind)
	}
	return once(append(all, extra...))
}

// once drops repetitions, keeping the order.
func once(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

func internal(n *config.Node) string { return cmp.Or(n.InternalAddress, n.Address) }

func name(n *config.Node) string { return cmp.Or(n.HostnameOverride, n.Address) }

// with are the nodes with a role, in the order of the config.
func (p *Plan) with(role string) []*config.Node {
	var nodes []*config.Node
	for i := range p.config.Nodes {
		if n := &p.config.Nodes[i]; n.Has(role) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (p *Plan) pauseImage() string {
	return cmp.Or(p.config.Services.Kubelet.InfraContainerImage, p.config.SystemImages.PodInfraContainer)
}
