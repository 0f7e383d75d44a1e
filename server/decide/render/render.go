// Package render makes the plan of a machine: the files and the instruction that bring a
// host to what its cluster wants. It is a function of its input, and its bytes never change for an
// unchanged input and version, so that a newer server restarts nothing.
package render

import (
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// Newest is the newest version of the rendering. A cluster keeps the one it was
// made with until its owner changes its spec.
//
// Version 2 takes the installer's image from the cluster's own registry, and mounts directories of certificates that the owner brings.
const Newest = 2

// Input is all that a plan is made of.
type Input struct {
	Cluster records.Cluster
	Machine *records.Machine
	// Secrets are the cluster's join tokens.
	Secrets *records.ClusterSecrets
	// Release is what is known of the wanted version.
	Release *versions.Release
	// InstallerImage is the prefix of installer images; empty means the default.
	InstallerImage string
	// DefaultRegistry is where images without a registry come from, of clusters that name none; empty for wherever
	// the distribution fetches them.
	DefaultRegistry string
	// Objects are the Secrets and ConfigMaps that the cluster refers to, by their keys; what does not exist, or what the cluster may
	// not use (package references), is missing.
	Objects map[string]objects.Object
	// Server is the URL that the machine joins at; empty for the one that begins the cluster.
	Server string
}

// Plan makes the whole plan of a machine by a version of the rendering. The error says that the version or the cluster is none that can be rendered.
func Plan(in Input, version int) (plans.Plan, error) {
	if version < 1 || version > Newest {
		return plans.Plan{}, fmt.Errorf("cluster %s is rendered by version %d, which this server does not know; use a newer drover", in.Cluster.Name, version)
	}
	if in.Cluster.Spec.RKEConfig == nil {
		return plans.Plan{}, fmt.Errorf("cluster %s has no rkeConfig", in.Cluster.Name)
	}
	r := render{Input: in, rke: *in.Cluster.Spec.RKEConfig, distribution: runtimes.Of(in.Cluster.Spec.KubernetesVersion), version: version}
	r.dataDir = DataDir(in.Cluster)
	return r.plan()
}

// DataDir is the distribution's data directory on the machines of a cluster.
func DataDir(c records.Cluster) string {
	if rke := c.Spec.RKEConfig; rke != nil && rke.DataDirectories != nil && rke.DataDirectories.K8sDistro != "" {
		return rke.DataDirectories.K8sDistro
	}
	return runtimes.Of(c.Spec.KubernetesVersion).DefaultDataDir()
}

type render struct {
	Input
	rke          clusterspec.RKEConfig
	distribution installers.Distribution
	dataDir      string
	version      int
}

func (r render) server() bool { return r.Machine.Roles.Etcd || r.Machine.Roles.ControlPlane }

func (r render) plan() (plans.Plan, error) {
	config := r.config()
	files, err := r.files(config)
	if err != nil {
		return plans.Plan{}, err
	}
	d := r.distribution
	p := plans.Plan{
		Files: files,
		Instructions: d.Install(installerImage(r),
			r.stamp(r.restarts(), config, files, restartKeys),
			r.stamp(restarts{}, config, files, drainKeys),
			r.dataDir, r.server(), r.environment()),
		Probes: d.Probes(r.node(config)),
	}
	if r.announces() {
		p.PeriodicInstructions = d.Announce(r.dataDir)
	}
	return p, nil
}

// Bare are the instructions that put the wanted version on a machine, and start nothing.
func Bare(in Input) []plans.OneTimeInstruction {
	r := render{Input: in, distribution: runtimes.Of(in.Cluster.Spec.KubernetesVersion), dataDir: DataDir(in.Cluster), version: Newest}
	if in.Cluster.Spec.RKEConfig != nil {
		r.rke = *in.Cluster.Spec.RKEConfig
	}
	return []plans.OneTimeInstruction{r.distribution.Bare(installerImage(r), r.dataDir, r.server(), r.environment())}
}

// installerImage is the reference of the installer's image.
func installerImage(r render) string {
	registry := r.registry()
	if _, own := r.merged()["system-default-registry"]; own && r.version < 2 {
		registry = ""
	}
	return installers.FromRegistry(registry, r.distribution.InstallerImage(r.InstallerImage, r.Cluster.Spec.KubernetesVersion))
}

// announces says that the machine's address has to come from its own etcd: it begins the cluster
// and runs no API server, so that no node shows the address before others have joined it.
func (r render) announces() bool {
	return r.Server == "" && r.Machine.Roles.Etcd && !r.Machine.Roles.ControlPlane
}

// files are those of the plan in their order, which counts for the agents that write them.
func (r render) files(config map[string]any) ([]plans.File, error) {
	registries, trust, err := r.registries()
	if err != nil {
		return nil, err
	}
	files := []plans.File{}
	if len(registries) > 0 {
		files = append(files, plans.File{Path: installers.AgentRegistries, Content: plans.EncodeContent(registries), Dynamic: true})
	}
	files = append(files, trust...)
	settings, err := r.settingFiles(config)
	if err != nil {
		return nil, err
	}
	files = append(files, settings...)
	files = append(files, plans.File{Path: r.distribution.RegistriesFile(), Content: plans.EncodeContent(registries)})
	selected, err := r.selectorFiles()
	if err != nil {
		return nil, err
	}
	files = append(files, selected...)
	text, err := indented(config)
	if err != nil {
		return nil, fmt.Errorf("render the config of %s: %w", r.Machine.Name, err)
	}
	files = append(files, plans.File{Path: r.distribution.ConfigFile(), Content: plans.EncodeContent(text)})
	manifests, err := r.manifests(config)
	if err != nil {
		return nil, err
	}
	files = append(files, manifests...)
	if r.authEndpoint() {
		files = append(files, plans.File{Path: r.webhookFile(), Content: plans.EncodeContent([]byte(r.webhook()))})
	}
	return files, distinct(r.Cluster.Key(), files)
}

// node is what the probes depend on.
func (r render) node(config map[string]any) installers.Node {
	n := installers.Node{
		Etcd: r.Machine.Roles.Etcd, ControlPlane: r.Machine.Roles.ControlPlane, Worker: r.Machine.Roles.Worker,
		Loopback: r.loopback(), DataDir: r.dataDir, Args: map[string][]string{}, CNI: r.plugins(),
	}
	for _, c := range installers.Components() {
		n.Args[c.ArgKey] = texts(config[c.ArgKey])
	}
	return n
}

func (r render) environment() []string {
	var env []string
	for _, v := range r.Cluster.Spec.AgentEnvVars {
		if v.Value != "" {
			env = append(env, v.Name+"="+v.Value)
		}
	}
	return env
}

// loopback is the host of probes by the address families of the cluster.
func (r render) loopback() string {
	if n := r.rke.Networking; n != nil {
		switch n.StackPreference {
		case "ipv4":
			return "127.0.0.1"
		case "ipv6":
			return "::1"
		}
	}
	return "localhost"
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// Uninstall is the plan that takes the distribution off a host, with drover's agent when that is asked for.
func Uninstall(in Input, agent bool) plans.Plan {
	d := runtimes.Of(in.Cluster.Spec.KubernetesVersion)
	server := in.Machine.Roles.Etcd || in.Machine.Roles.ControlPlane
	return plans.Plan{Instructions: d.Uninstall(DataDir(in.Cluster), server, agent)}
}
