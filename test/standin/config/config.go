// Package config reads the settings of the stand-in `k3s server` from the same places, in the same order and under
// the same names as the real one: a configuration file, the drop-ins beside it, the command line and the environment.
//
// A key of the real k3s that means nothing here (there is no network, no container runtime) is accepted and listed in
// [Server.Inert]; a key whose meaning the stand-in cannot keep is refused, and so is a key that k3s does not have.
package config

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// DefaultFile is the configuration file when neither --config nor K3S_CONFIG_FILE names another.
const DefaultFile = "/etc/rancher/k3s/config.yaml"

// DefaultKubeconfig is where the administrator's kubeconfig is when write-kubeconfig says nothing.
const DefaultKubeconfig = "/etc/rancher/k3s/k3s.yaml"

// Server holds the settings of one `k3s server`, complete and checked.
type Server struct {
	// Token and AgentToken are the cluster's secrets, in the short form (password only) or the long one
	// (K10…::user:password). Empty: the one in the data directory, or a new one.
	Token, AgentToken string
	// DataDir is the directory of everything that lives longer than the process.
	DataDir string
	// NodeName is the name of the Node: a lower-case host name.
	NodeName string
	// NodeIPs are the Node's internal addresses, the main one first; never empty after Load.
	NodeIPs []netip.Addr
	// NodeExternalIPs are its external addresses; often none.
	NodeExternalIPs []netip.Addr
	// NodeLabels ("key=value") and NodeTaints ("key=value:effect") are given to the Node when it registers, never after.
	NodeLabels, NodeTaints []string
	// AdvertiseAddress is what the API server says of itself.
	AdvertiseAddress netip.Addr
	// TLSSANs are more names and addresses for the API server's certificate.
	TLSSANs []string
	// ListenPort is the port of the API server.
	ListenPort int
	// ClusterCIDR and ServiceCIDR are lists joined by commas, as the components take them.
	ClusterCIDR, ServiceCIDR string
	// ClusterDNS and ClusterDomain are what the kubelet tells pods.
	ClusterDNS, ClusterDomain string
	// NodePortRange is the range of NodePort services.
	NodePortRange string
	// Kubeconfig is where the administrator's kubeconfig is written, with the mode KubeconfigMode.
	Kubeconfig     string
	KubeconfigMode os.FileMode
	// The arguments a user adds for a component, each "name=value".
	APIServerArgs, ControllerManagerArgs, SchedulerArgs, KubeletArgs, EtcdArgs []string
	// ClusterInit: the real one would use its embedded etcd; the stand-in always does.
	ClusterInit bool
	// The parts that are switched off.
	DisableControllerManager, DisableScheduler, DisableCloudController, DisableAgent bool
	// EtcdExposeMetrics serves etcd's metrics on the node's address too.
	EtcdExposeMetrics bool

	// Inert names the settings that were given and mean nothing to the stand-in, sorted.
	Inert []string

	refused []refusal
}

type refusal struct{ key, from, why string }

// Options says where to read from. All fields are needed.
type Options struct {
	// Args are the arguments after `k3s server`.
	Args []string
	// Getenv reads the environment.
	Getenv func(string) string
	// Hostname names the host.
	Hostname func() (string, error)
	// HostIP finds the host's main address.
	HostIP func() (netip.Addr, error)
}

// Load reads all places and returns the settings, or a sentence that names the key and where it was written.
func Load(o Options) (*Server, error) {
	flags, err := parseFlags(o.Args)
	if err != nil {
		return nil, err
	}
	file := o.Getenv("K3S_CONFIG_FILE")
	if f, ok := flags.take("config"); ok {
		file = f.last()
	}
	if file == "" {
		file = DefaultFile
	}
	all, err := readFiles(file)
	if err != nil {
		return nil, err
	}
	for key, s := range flags {
		all[key] = s // the command line replaces, lists too
	}
	for key, name := range environment() {
		if _, given := all[key]; !given && o.Getenv(name) != "" {
			all[key] = setting{values: []string{o.Getenv(name)}, from: "environment variable " + name}
		}
	}
	return build(all, o)
}

// environment is the variables that stand for a key when nothing else gives it.
func environment() map[string]string {
	return map[string]string{
		"token": "K3S_TOKEN", "agent-token": "K3S_AGENT_TOKEN", "data-dir": "K3S_DATA_DIR", "node-name": "K3S_NODE_NAME",
		"server": "K3S_URL", "write-kubeconfig": "K3S_KUBECONFIG_OUTPUT", "write-kubeconfig-mode": "K3S_KUBECONFIG_MODE",
	}
}

func defaults() *Server {
	return &Server{
		DataDir: "/var/lib/rancher/k3s", ListenPort: 6443, ClusterCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16",
		ClusterDomain: "cluster.local", NodePortRange: "30000-32767", Kubeconfig: DefaultKubeconfig, KubeconfigMode: 0o600,
	}
}

func build(all settings, o Options) (*Server, error) {
	s := defaults()
	table := keys()
	for _, name := range all.names() {
		given := all[name]
		key, known := table[name]
		if !known {
			return nil, fmt.Errorf("%s: unknown key %q: k3s server has no such setting; correct or remove it", given.from, name)
		}
		if err := key.check(given); err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", given.from, name, err)
		}
		if err := key.apply(s, name, given); err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", given.from, name, err)
		}
	}
	if len(s.refused) > 0 {
		r := s.refused[0]
		return nil, fmt.Errorf("%s: key %q is refused by the k3s stand-in: %s", r.from, r.key, r.why)
	}
	return s, s.complete(o)
}

// complete fills what follows from the host and checks what needs more than one key.
func (s *Server) complete(o Options) error {
	if s.NodeName == "" {
		host, err := o.Hostname()
		if err != nil {
			return fmt.Errorf("find the host's name for the node (set node-name): %w", err)
		}
		s.NodeName = host
	}
	s.NodeName = strings.ToLower(s.NodeName)
	if !validName(s.NodeName) {
		return fmt.Errorf("node name %q is not a lower-case DNS name; set node-name", s.NodeName)
	}
	if len(s.NodeIPs) == 0 {
		ip, err := o.HostIP()
		if err != nil {
			return fmt.Errorf("find the host's address (set node-ip): %w", err)
		}
		s.NodeIPs = []netip.Addr{ip}
	}
	if !s.AdvertiseAddress.IsValid() {
		s.AdvertiseAddress = s.NodeIPs[0]
	}
	return nil
}

func validName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// parseMode reads a file mode as the real one does: octal with or without a leading zero.
func parseMode(text string) (os.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%q is not an octal file mode such as 0644", text)
	}
	return os.FileMode(mode), nil
}
