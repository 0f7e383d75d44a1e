// Package connect is what a node agent or a cluster agent says of itself when it opens its
// tunnel: the headers of /v3/connect, /v3/connect/register and /v3/connect/config, as the agent
// writes and the server reads them.
//
// Wire source: rancher/rancher v2.8.5 pkg/agent/node, pkg/tunnelserver and
// pkg/client/generated/management/v3 (DockerInfo).
package connect

import (
	"crypto/md5" // #nosec G501 -- Rancher's names of nodes are MD5 sums; nothing is secured by it
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/plans/jsonfault"
)

// The headers of an agent's requests.
const (
	// TokenHeader carries the registration token in clear text.
	TokenHeader = "X-API-Tunnel-Token"
	// ParamsHeader carries Params as Encode writes them.
	ParamsHeader = "X-API-Tunnel-Params"
	// CredentialHeader carries what only this host knows: drover's agent makes it at its first
	// start, and drover's server keeps its hash. Original agents and servers do not know it.
	CredentialHeader = "X-Drover-Host-Credential"
	// RegenerateHeader asks for a new serving certificate of the kubelet, "true" or
	// "false"; of /v3/connect/config alone.
	RegenerateHeader = "Regenerate-Kubelet-Certificate"
)

// The paths of the endpoints below the server's address.
const (
	Path         = "/v3/connect"
	RegisterPath = "/v3/connect/register"
	ConfigPath   = "/v3/connect/config"
)

const (
	// MaxParams bounds a header that is read, in bytes: original agents send the whole
	// answer of Docker.
	MaxParams = 64 << 10
	// maxSent bounds a header that is written, in bytes. Proxies refuse requests with more
	// than 8 KiB of headers, and token, host and the upgrade need room beside it.
	maxSent = 7 << 10
)

// Params are what an agent says of itself.
type Params struct {
	Node *Node `json:"node,omitempty"`
	// Cluster is of a cluster agent, which says no more.
	Cluster *Cluster `json:"cluster,omitempty"`
	// NodeVersion is the version of the node config that was applied; 0 says nothing.
	NodeVersion int `json:"nodeVersion,omitempty"`
}

// Node is the host that an agent runs on.
type Node struct {
	CustomConfig *CustomConfig `json:"customConfig,omitempty"`
	Etcd         bool          `json:"etcd"`
	ControlPlane bool          `json:"controlPlane"`
	Worker       bool          `json:"worker"`
	// RequestedHostname is the name the host wants to have; MachineName makes its identity of it.
	RequestedHostname string `json:"requestedHostname"`
	// DockerInfo is nil while Docker does not answer.
	DockerInfo *DockerInfo `json:"dockerInfo,omitempty"`
}

// CustomConfig is what the person said who started the agent.
type CustomConfig struct {
	// Address is where other hosts reach this one.
	Address         string            `json:"address,omitempty"`
	InternalAddress string            `json:"internalAddress,omitempty"`
	Roles           []string          `json:"roles,omitempty"` // etcd, controlplane, worker
	Label           map[string]string `json:"label,omitempty"`
	Taints          []string          `json:"taints,omitempty"` // key=value:Effect
}

// DockerInfo are the fields that servers keep of Docker's answer to GET /info, under
// Docker's own names.
type DockerInfo struct {
	// ID is the engine's own name for itself, by which two hosts of one name are distinguished.
	ID                 string   `json:",omitempty"`
	Architecture       string   `json:",omitempty"`
	CgroupDriver       string   `json:",omitempty"`
	Debug              bool     `json:",omitempty"`
	DockerRootDir      string   `json:",omitempty"`
	Driver             string   `json:",omitempty"`
	ExperimentalBuild  bool     `json:",omitempty"`
	HTTPProxy          string   `json:"HttpProxy,omitempty"`
	HTTPSProxy         string   `json:"HttpsProxy,omitempty"`
	IndexServerAddress string   `json:",omitempty"`
	InitBinary         string   `json:",omitempty"`
	KernelVersion      string   `json:",omitempty"`
	Labels             []string `json:",omitempty"`
	LoggingDriver      string   `json:",omitempty"`
	Name               string   `json:",omitempty"`
	NoProxy            string   `json:",omitempty"`
	OSType             string   `json:",omitempty"`
	OperatingSystem    string   `json:",omitempty"`
	SecurityOptions    []string `json:",omitempty"`
	ServerVersion      string   `json:",omitempty"`
}

// MachineName is the name of the machine's record: m- and 12 hexadecimal digits of the
// hostname's MD5. It is a name and no secret.
func MachineName(hostname string) string {
	sum := md5.Sum([]byte(hostname)) // #nosec G401 -- see the import
	return "m-" + hex.EncodeToString(sum[:])[:12]
}

// Encode makes the value of ParamsHeader of a node agent. When it would be too long for proxies, the
// dispensable parts of what Docker says are left out. An error says which field cannot be sent.
func Encode(p Params) (string, error) {
	if p.Node == nil {
		return "", fmt.Errorf("write %s: node is missing", ParamsHeader)
	}
	if err := check(p); err != nil {
		return "", fmt.Errorf("write %s: %w", ParamsHeader, err)
	}
	for _, shorter := range shorten(p) {
		b, err := json.Marshal(shorter)
		if err != nil {
			return "", fmt.Errorf("write %s: %w", ParamsHeader, err)
		}
		if text := base64.StdEncoding.EncodeToString(b); len(text) <= maxSent {
			return text, nil
		}
	}
	return "", fmt.Errorf("write %s: labels and taints make it longer than %d bytes, which proxies would refuse; use fewer or shorter ones", ParamsHeader, maxSent)
}

// shorten returns p and then what may stand for it, each with less of what Docker says.
func shorten(p Params) []Params {
	all := []Params{p}
	if p.Node.DockerInfo == nil {
		return all
	}
	without := func(change func(*DockerInfo)) {
		node := *all[len(all)-1].Node
		info := *node.DockerInfo
		change(&info)
		node.DockerInfo = &info
		all = append(all, Params{Node: &node, NodeVersion: p.NodeVersion})
	}
	without(func(i *DockerInfo) { i.Labels = nil })
	without(func(i *DockerInfo) { i.NoProxy = "" })
	without(func(i *DockerInfo) { i.SecurityOptions, i.HTTPProxy, i.HTTPSProxy = nil, "", "" })
	node := *p.Node
	node.DockerInfo = nil
	return append(all, Params{Node: &node, NodeVersion: p.NodeVersion})
}

// Decode reads the value of ParamsHeader. Unknown fields are ignored, because agents
// differ in what they report of Docker. Its error names the field and never quotes the header.
func Decode(header string) (Params, error) {
	p, err := decode(header)
	if err != nil {
		return Params{}, fmt.Errorf("%s: %w", ParamsHeader, err)
	}
	return p, nil
}

func decode(header string) (Params, error) {
	header = strings.TrimSpace(header)
	switch {
	case header == "":
		return Params{}, errors.New("missing; an agent says there what host or cluster it is on")
	case len(header) > MaxParams:
		return Params{}, fmt.Errorf("%d bytes long, at most %d are read", len(header), MaxParams)
	}
	b, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return Params{}, errors.New("not standard base64")
	}
	var p Params
	if err := json.Unmarshal(b, &p); err != nil {
		return Params{}, jsonfault.Plain(err)
	}
	return p, check(p)
}
