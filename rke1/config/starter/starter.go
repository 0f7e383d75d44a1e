// Package starter makes the first cluster.yml of a user: a commented text to be edited, or the
// config that follows from answers to questions.
package starter

import (
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// File is a cluster.yml of one example host, for a Kubernetes version. The minimal one has what
// has to be written; the other one has the settings that people change, each with its default,
// so that it means the same. Both are accepted as they are.
func File(version string, minimal bool) []byte {
	text := head + nodes
	if minimal {
		text = head + minimalNodes
	} else {
		text += settings
	}
	return []byte(strings.NewReplacer("VERSION", version, "STREAM", streamPort).Replace(text))
}

// streamPort is where cri-dockerd of a new cluster serves logs and terminals of pods: not on its default 10010, where containerd may
// listen (moby#37507).
const streamPort = "10011"

const head = `# A Kubernetes cluster of Docker containers, for "drover rke up". Run it again after each change
# of this file. Keep the cluster.rkestate that it writes beside this file: it has the keys of
# the cluster.
cluster_name: local
kubernetes_version: VERSION
cri_dockerd_stream_server_port: "STREAM" # its default 10010 may be containerd's
`

const minimalNodes = `
nodes:
- address: 203.0.113.10                 # where SSH reaches the host; it does not change later
  user: docker                          # may use the host's Docker socket
  role: [controlplane, etcd, worker]
`

const nodes = `
# The key of SSH, for every host that has none of its own, and whether an agent has it instead.
ssh_key_path: ~/.ssh/id_rsa
ssh_agent_auth: false

# The hosts. One, three or five have the role etcd, one or more controlplane, any number worker.
# Append new ones: the order is part of certificates and flags.
nodes:
- address: 203.0.113.10                 # where SSH reaches the host; it does not change later
  port: "22"
  internal_address: 203.0.113.10        # where the other hosts reach it
  hostname_override: 203.0.113.10       # the name of its node in Kubernetes; it does not change later
  user: docker                          # may use the host's Docker socket
  role: [controlplane, etcd, worker]
  # labels: {zone: a}
  # taints: [{key: dedicated, value: gpu, effect: NoSchedule}]

# A host through which the others are reached.
# bastion_host:
#   address: 198.51.100.1
#   user: docker
`

const settings = `
services:
  etcd:
    snapshot: true                      # regularly, into /opt/rke/etcd-snapshots of each etcd host
    creation: 12h
    retention: 72h
    # With a backup_config, these take the place of creation and retention.
    # backup_config:
    #   interval_hours: 12
    #   retention: 6                    # how many are kept
    #   s3backupconfig:
    #     endpoint: s3.amazonaws.com
    #     bucket_name: snapshots
  kube-api:
    service_cluster_ip_range: 10.43.0.0/16
    service_node_port_range: 30000-32767
    always_pull_images: false
    # secrets_encryption_config: {enabled: true}
    # extra_args: {v: "4"}              # flags without dashes; every service has them, and extra_binds, extra_env
  kube-controller:
    cluster_cidr: 10.42.0.0/16          # of pods
    service_cluster_ip_range: 10.43.0.0/16
  kubelet:
    cluster_domain: cluster.local
    cluster_dns_server: 10.43.0.10      # in the range of services
    fail_swap_on: false
    generate_serving_certificate: false

network:
  plugin: canal                         # or calico, flannel, none
  mtu: 0                                # 0 leaves it to the plugin

authentication:
  strategy: x509
  # sans: [k8s.example.com]             # further names and addresses of the API server
authorization:
  mode: rbac

ingress:
  provider: nginx                       # or none
  http_port: 80
  https_port: 443
dns:
  provider: coredns                     # or none
monitoring:
  provider: metrics-server              # or none

# How many hosts may be away at a time while a change is carried out.
upgrade_strategy:
  max_unavailable_worker: 10%
  max_unavailable_controlplane: "1"

# Registries with credentials. The default one stands before every image of the system.
# private_registries:
# - url: registry.example.com
#   user: someone
#   password: something
#   is_default: true

# YAML that is applied when the cluster is up.
# addons: |-
#   apiVersion: v1
#   kind: Namespace
#   metadata: {name: example}
# addons_include: [./more.yaml]
addon_job_timeout: 45                   # seconds
ignore_docker_version: false            # true takes hosts with any version of Docker
`

// Answers are what the user said. What is empty was not answered and gets its
// default later.
type Answers struct {
	SSHKeyPath        string
	Nodes             []config.Node
	KubernetesVersion string
	NetworkPlugin     string
	Authentication    string // x509
	Authorization     string // rbac or none
	ClusterDomain     string
	ServiceRange      string // of the API server and of the controller manager
	PodRange          string
	DNSServer         string
	AddonsInclude     []string // URLs or paths
}

// FromAnswers is the config that was asked for, without defaults.
func FromAnswers(a Answers) config.Cluster {
	c := config.Cluster{
		CRIDockerdStreamServerPort: streamPort,

		SSHKeyPath: a.SSHKeyPath, Nodes: a.Nodes, KubernetesVersion: a.KubernetesVersion, AddonsInclude: a.AddonsInclude,
		Network:        config.Network{Plugin: a.NetworkPlugin},
		Authentication: config.Authentication{Strategy: a.Authentication},
		Authorization:  config.Authorization{Mode: a.Authorization},
	}
	c.Services.KubeAPI.ServiceClusterIPRange = a.ServiceRange
	c.Services.KubeController.ServiceClusterIPRange = a.ServiceRange
	c.Services.KubeController.ClusterCIDR = a.PodRange
	c.Services.Kubelet.ClusterDomain = a.ClusterDomain
	c.Services.Kubelet.ClusterDNSServer = a.DNSServer
	return c
}
