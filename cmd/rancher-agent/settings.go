// The agent's inputs: by flags, by the environment, and in a pod by mounted
// credentials. The flags are those of the original's entry point.

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/daemon/node"
	"github.com/drover-project/drover/tunnel/connect"
)

// credentials is where Kubernetes mounts url and token.
const credentials = "/cattle-credentials/"

// host is what settings ask of the machine.
type host struct {
	getenv   func(string) string
	readFile func(string) ([]byte, error)
	hostname func() (string, error)
}

// inputs are flags and environment together: a flag wins over its variable, roles, labels
// and taints of both are taken.
type inputs struct {
	server, token, checksum, nodeName, address, internal string
	roles, labels, taints                                []string
	noRegister, onlyCerts, debug                         bool
}

// list is a flag that can be repeated.
type list struct{ to *[]string }

func (list) String() string { return "" }

// Set appends.
func (l list) Set(s string) error {
	*l.to = append(*l.to, s)
	return nil
}

func fromEnvironment(getenv func(string) string) inputs {
	return inputs{
		server: getenv("CATTLE_SERVER"), token: getenv("CATTLE_TOKEN"), checksum: getenv("CATTLE_CA_CHECKSUM"),
		nodeName: getenv("CATTLE_NODE_NAME"), address: getenv("CATTLE_ADDRESS"), internal: getenv("CATTLE_INTERNAL_ADDRESS"),
		roles: split(getenv("CATTLE_ROLE")), labels: split(getenv("CATTLE_NODE_LABEL")), taints: split(getenv("CATTLE_NODE_TAINTS")),
		noRegister: getenv("CATTLE_AGENT_CONNECT") == "true", onlyCerts: getenv("CATTLE_WRITE_CERT_ONLY") == "true",
	}
}

func split(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// parse adds the flags.
func (t *inputs) parse(args []string) error {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var etcd, controlPlane, worker, all bool
	for _, one := range []struct {
		long, short string
		to          *string
	}{
		{"server", "s", &t.server}, {"token", "t", &t.token}, {"ca-checksum", "c", &t.checksum},
		{"node-name", "n", &t.nodeName}, {"address", "", &t.address}, {"internal-address", "i", &t.internal},
	} {
		f.StringVar(one.to, one.long, *one.to, "")
		if one.short != "" {
			f.StringVar(one.to, one.short, *one.to, "")
		}
	}
	for _, one := range []struct {
		long, short string
		to          *bool
	}{
		{"etcd", "e", &etcd}, {"controlplane", "p", &controlPlane}, {"worker", "w", &worker}, {"all-roles", "a", &all},
		{"no-register", "r", &t.noRegister}, {"only-write-certs", "o", &t.onlyCerts}, {"debug", "d", &t.debug},
	} {
		f.BoolVar(one.to, one.long, *one.to, "")
		f.BoolVar(one.to, one.short, *one.to, "")
	}
	f.Var(list{&t.labels}, "label", "")
	f.Var(list{&t.labels}, "l", "")
	f.Var(list{&t.taints}, "taints", "")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w; see %s help", err, name)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%.60q is not a flag; see %s help", f.Arg(0), name)
	}
	for role, set := range map[string]bool{connect.RoleEtcd: etcd || all, connect.RoleControlPlane: controlPlane || all, connect.RoleWorker: worker || all} {
		if set {
			t.roles = append(t.roles, role)
		}
	}
	return nil
}

// settings are everything together, checked.
func settings(args []string, h host) (node.Options, error) {
	t := fromEnvironment(h.getenv)
	if err := t.parse(args); err != nil {
		return node.Options{}, err
	}
	managed, inCluster := h.getenv("CATTLE_K8S_MANAGED") == "true", h.getenv("CATTLE_CLUSTER") == "true"
	if managed || inCluster {
		if err := t.mounted(h.readFile); err != nil {
			return node.Options{}, err
		}
	}
	pin := h.getenv("DROVER_CA_PIN")
	switch {
	case pin != "" && pin != "always":
		return node.Options{}, fmt.Errorf("DROVER_CA_PIN is %.40q; set it to always, or leave it out so that --ca-checksum counts at the first start alone", pin)
	case h.getenv("CLUSTER_CLEANUP") == "true":
		return node.Options{}, errors.New("CLUSTER_CLEANUP is true, which asks for the clean-up of a cluster; drover's server does that itself when a cluster is removed")
	case t.token == "":
		return node.Options{}, errors.New("ERROR: -- --token is a required option")
	case t.server == "":
		return node.Options{}, errors.New("ERROR: -- --server is a required option")
	}
	o := node.Options{
		Managed: managed,
		Token:   t.token,
		Trust:   node.Trust{CAChecksum: strings.ToLower(strings.TrimSpace(t.checksum)), StrictVerify: h.getenv("STRICT_VERIFY") == "true", PinAlways: pin == "always"},
		Host:    node.Host{Address: t.address, InternalAddress: t.internal, Taints: t.taints}, NoRegister: t.noRegister, OnlyWriteCerts: t.onlyCerts,
		Places: node.Places{
			StateDir: orElse(h.getenv("DROVER_AGENT_STATE_DIR"), "/var/lib/rancher"), DockerSocket: orElse(h.getenv("DROVER_AGENT_DOCKER_SOCKET"), "/var/run/docker.sock"),
			HealthAddress: h.getenv("DROVER_AGENT_HEALTH_ADDRESS"),
		},
		Conversations: h.getenv("CATTLE_TUNNEL_DATA_DEBUG") == "true",
	}
	if o.OnlyWriteCerts {
		o.Share = []string{"/var/lib/kubelet", "/var/lib/rancher"}
	}
	o.HealthSocket = healthSocket(h.getenv)
	var err error
	if o.Server, err = serverURL(t.server); err != nil {
		return node.Options{}, err
	}
	if o.CAChecksum != "" && (len(o.CAChecksum) != 64 || strings.Trim(o.CAChecksum, "0123456789abcdef") != "") {
		return node.Options{}, errors.New("--ca-checksum is not a SHA-256 of 64 hexadecimal digits")
	}
	if inCluster {
		o.Cluster, err = clusterOf(h.getenv)
		return o, err
	}
	if o.Roles, err = roles(t.roles); err != nil {
		return node.Options{}, err
	}
	if o.Labels, err = labels(t.labels); err != nil {
		return node.Options{}, err
	}
	o.NodeName, err = nodeName(t.nodeName, h.hostname)
	return o, err
}

// accounts are where a pod has its service account: by the manifest of drover's servers, whose token does not end with the
// pod, and where Kubernetes mounts it by itself.
var accounts = []string{"/cattle-service-account", "/var/run/secrets/kubernetes.io/serviceaccount"}

// clusterOf is the cluster that the pod is in, as Kubernetes tells each of them.
func clusterOf(getenv func(string) string) (*node.InCluster, error) {
	address, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if address == "" || port == "" {
		return nil, errors.New("CATTLE_CLUSTER is true, but KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: a cluster agent runs in a pod of its cluster; on a host, leave CATTLE_CLUSTER out")
	}
	return &node.InCluster{API: net.JoinHostPort(address, port), Accounts: accounts}, nil
}

// mounted takes server and token from the credentials of a pod, where these are not given otherwise.
func (t *inputs) mounted(read func(string) ([]byte, error)) error {
	for _, one := range []struct {
		file string
		to   *string
	}{{"url", &t.server}, {"token", &t.token}} {
		if *one.to != "" {
			continue
		}
		b, err := read(credentials + one.file)
		if err != nil {
			return fmt.Errorf("the agent is a pod by CATTLE_K8S_MANAGED or CATTLE_CLUSTER, but the Secret with the credentials is not mounted: %w", err)
		}
		*one.to = strings.TrimSpace(string(b))
	}
	return nil
}

// serverURL takes a whole URL or a bare host; the agent speaks TLS whichever it is.
func serverURL(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("--server is not of the form https://host[:port]")
	}
	return &url.URL{Scheme: "https", Host: u.Host}, nil
}

func roles(said []string) ([]string, error) {
	known := []string{connect.RoleEtcd, connect.RoleControlPlane, connect.RoleWorker}
	var all []string
	for _, role := range known {
		if slices.Contains(said, role) {
			all = append(all, role)
		}
	}
	for _, role := range said {
		if !slices.Contains(known, role) {
			return nil, fmt.Errorf("role %.40q is none of etcd, controlplane and worker", role)
		}
	}
	return all, nil
}

// labels reads k=v; a key alone gets an empty value. One flag may hold several, with commas.
func labels(said []string) (map[string]string, error) {
	all := map[string]string{}
	for _, one := range split(strings.Join(said, ",")) {
		key, value, _ := strings.Cut(one, "=")
		if key == "" {
			return nil, fmt.Errorf("--label %.60q is not of the form key=value", one)
		}
		all[key] = value
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// nodeName is the name given, or the host's without its domain.
func nodeName(said string, hostname func() (string, error)) (string, error) {
	if said != "" {
		return said, nil
	}
	full, err := hostname()
	if err != nil {
		return "", fmt.Errorf("find this host's name: %w; pass it with --node-name", err)
	}
	short, _, _ := strings.Cut(full, ".")
	return short, nil
}

func healthSocket(getenv func(string) string) string {
	return orElse(getenv("DROVER_AGENT_HEALTH_SOCKET"), "/tmp/rancher-agent-health.sock")
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
