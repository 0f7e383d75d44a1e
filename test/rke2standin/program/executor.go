//go:build ignore

package main

// The executor: what the supervisor of k3s' packages calls to start the parts of a node. Where k3s runs them inside of
// itself, this writes static pods for the kubelet, which is a process of its own; so they outlive the supervisor.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/k3s-io/k3s/pkg/agent/containerd"
	"github.com/k3s-io/k3s/pkg/agent/cri"
	"github.com/k3s-io/k3s/pkg/cli/cmds"
	"github.com/k3s-io/k3s/pkg/daemons/config"
	"github.com/k3s-io/k3s/pkg/daemons/executor"
	"github.com/k3s-io/k3s/pkg/util"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"sigs.k8s.io/yaml"
)

// node is this host's executor.
type node struct {
	dataDir  string
	isServer bool
	options  podOptions

	agent          *config.Node
	pods           *manifests
	apiServerReady <-chan struct{}
	etcdReady      chan struct{}
	criReady       chan struct{}

	mu          sync.Mutex
	stopKubelet func() // ends the kubelet and waits for it
}

var _ executor.Executor = (*node)(nil)

// Bootstrap comes before everything else. Static pods that this node does not have any more go before the kubelet could
// start them once more.
func (n *node) Bootstrap(ctx context.Context, agent *config.Node, cfg cmds.Agent) error {
	n.agent = agent
	n.pods = &manifests{
		dir: agent.AgentConfig.PodManifests, registry: agent.AgentConfig.SystemDefaultRegistry, options: n.options, written: map[string]types.UID{},
	}
	n.apiServerReady = util.APIServerReadyChan(ctx, agent.AgentConfig.KubeConfigK3sController, util.DefaultAPIServerReadyTimeout)
	n.etcdReady, n.criReady = make(chan struct{}), make(chan struct{})
	return n.pods.keep(n.wanted(cfg))
}

// wanted are the static pods that this node may have.
func (n *node) wanted(cfg cmds.Agent) []string {
	if cfg.ClusterReset {
		return []string{"etcd"} // which stays what it is until the reset writes it anew
	}
	wanted := []string{"kube-proxy"}
	server := cmds.ServerConfig
	for component, off := range map[string]bool{
		"etcd": server.DisableETCD, "kube-apiserver": server.DisableAPIServer, "kube-scheduler": server.DisableScheduler,
		"kube-controller-manager": server.DisableControllerManager, "cloud-controller-manager": server.DisableCCM,
	} {
		if n.isServer && !off {
			wanted = append(wanted, component)
		}
	}
	return wanted
}

func (n *node) Containerd(ctx context.Context, agent *config.Node) error {
	if err := containerd.Run(ctx, agent); err != nil {
		return err
	}
	close(n.criReady)
	return nil
}

func (n *node) Docker(context.Context, *config.Node) error {
	return errors.New("docker is not a container runtime of RKE2")
}

func (n *node) CRI(ctx context.Context, agent *config.Node) error {
	if agent.ContainerRuntimeEndpoint != "/dev/null" {
		if err := cri.WaitForService(ctx, agent.ContainerRuntimeEndpoint, "CRI"); err != nil {
			return err
		}
	}
	close(n.criReady)
	return nil
}

func (n *node) Kubelet(ctx context.Context, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	n.mu.Lock()
	n.stopKubelet = func() { cancel(); <-ended }
	n.mu.Unlock()
	go func() {
		defer close(ended)
		superviseKubelet(ctx, filepath.Join(n.dataDir, "bin", "kubelet"), args, filepath.Join(n.dataDir, "agent", "logs", "kubelet.log"))
	}()
	return nil
}

func (n *node) KubeProxy(_ context.Context, args []string) error {
	return n.pods.write(pod{name: "kube-proxy", args: args, mounts: kubeProxyMounts(n.dataDir), privileged: true})
}

// ETCD writes etcd's pod and its configuration, which has none when another node's etcd is used, and says when it is
// a voter that answers.
func (n *node) ETCD(ctx context.Context, etcd *executor.ETCDConfig, extra []string, test executor.TestFunc) error {
	go n.testETCD(ctx, test)
	if etcd == nil {
		return nil
	}
	file, err := etcd.ToConfigFile(extra)
	if err != nil {
		return fmt.Errorf("write the configuration of etcd: %w", err)
	}
	if etcd.ForceNewCluster {
		go n.endReset(ctx)
	}
	return n.pods.write(pod{
		name: "etcd", args: []string{"--config-file=" + file}, reads: []string{
			file, etcd.ServerTrust.CertFile, etcd.ServerTrust.KeyFile, etcd.ServerTrust.TrustedCAFile,
			etcd.PeerTrust.CertFile, etcd.PeerTrust.KeyFile, etcd.PeerTrust.TrustedCAFile,
		},
		mounts: []mount{same(etcd.DataDir), sameReadOnly(filepath.Join(n.dataDir, "server", "tls", "etcd"))},
		health: "http://127.0.0.1:2381/health?serializable=true",
	})
}

func (n *node) testETCD(ctx context.Context, test executor.TestFunc) {
	for ctx.Err() == nil {
		err := test(ctx)
		if err == nil {
			close(n.etcdReady)
			return
		}
		logrus.Infof("Waiting for etcd: %v", err)
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

// endReset takes down what a reset of the cluster has started, within the few seconds that the supervisor then leaves. The
// manifest of kube-proxy stays where the run wrote one, as RKE2 leaves it: what starts next may find it.
func (n *node) endReset(ctx context.Context) {
	<-ctx.Done()
	n.mu.Lock()
	stop := n.stopKubelet
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
	if err := errors.Join(n.pods.keep([]string{"kube-proxy"}), stopPods(n.agent.Containerd.Address)); err != nil {
		logrus.Errorf("Taking down what the reset has started: %v", err)
	}
}

// CurrentETCDOptions are those that etcd was started with: others would only restart it.
func (n *node) CurrentETCDOptions() (executor.InitialOptions, error) {
	var options executor.InitialOptions
	text, err := os.ReadFile(filepath.Join(n.dataDir, "server", "db", "etcd", "config"))
	if errors.Is(err, os.ErrNotExist) {
		return options, nil
	}
	if err == nil {
		err = yaml.Unmarshal(text, &options)
	}
	if err != nil {
		return options, fmt.Errorf("read the configuration of etcd: %w", err)
	}
	return options, nil
}

func (n *node) APIServer(ctx context.Context, args []string) error {
	mounts := n.serverFiles()
	for _, dir := range []string{"logs", "tls/temporary-certs"} { // for the audit log, and for its own client
		path := filepath.Join(n.dataDir, "server", dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		mounts = append(mounts, same(path))
	}
	go n.writeAfter(ctx, n.etcdReady, pod{
		name: "kube-apiserver", args: args, mounts: mounts,
		ready: []string{"kubectl", "get", "--raw=/readyz", "--kubeconfig=" + filepath.Join(n.dataDir, "server", "cred", "admin.kubeconfig")},
	})
	return nil
}

func (n *node) ControllerManager(ctx context.Context, args []string) error {
	go n.writeAfter(ctx, n.apiServerReady, pod{name: "kube-controller-manager", args: args, mounts: n.serverFiles(), health: "https://127.0.0.1:" + portOf(args, "10257") + "/healthz"})
	return nil
}

func (n *node) Scheduler(ctx context.Context, _ <-chan struct{}, args []string) error {
	go n.writeAfter(ctx, n.apiServerReady, pod{name: "kube-scheduler", args: args, mounts: n.serverFiles(), health: "https://127.0.0.1:" + portOf(args, "10259") + "/healthz"})
	return nil
}

func (n *node) CloudControllerManager(ctx context.Context, privileged <-chan struct{}, args []string) error {
	go n.writeAfter(ctx, privileged, pod{name: "cloud-controller-manager", args: args, mounts: n.serverFiles()})
	return nil
}

// serverFiles are what the parts of the control plane read. They may write nothing of it but what a flag mounts over it.
func (n *node) serverFiles() []mount {
	server := filepath.Join(n.dataDir, "server")
	return []mount{sameReadOnly(filepath.Join(server, "tls")), sameReadOnly(filepath.Join(server, "cred")), sameReadOnly(filepath.Join(server, "etc"))}
}

// writeAfter writes a pod when something is ready.
func (n *node) writeAfter(ctx context.Context, ready <-chan struct{}, p pod) {
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	if err := n.pods.write(p); err != nil {
		logrus.Fatalf("Writing the static pod %s: %v", p.name, err)
	}
}

// APIServerHandlers are what the supervisor asks the API server for: who a bearer token belongs to. Its own port serves
// nothing of the API.
func (n *node) APIServerHandlers(ctx context.Context) (authenticator.Request, http.Handler, error) {
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-n.apiServerReady:
	}
	tokens, err := newTokenReviewer(filepath.Join(n.dataDir, "server", "cred", "api-server.kubeconfig"))
	return tokens, http.NotFoundHandler(), err
}

func (n *node) APIServerReadyChan() <-chan struct{} { return n.apiServerReady }
func (n *node) ETCDReadyChan() <-chan struct{}      { return n.etcdReady }
func (n *node) CRIReadyChan() <-chan struct{}       { return n.criReady }

// kubeProxyMounts are kube-proxy's own files and the host's iptables, for which its image has the links.
func kubeProxyMounts(dataDir string) []mount {
	mounts := []mount{sameReadOnly(filepath.Join(dataDir, "agent")), same("/run")}
	for _, dir := range []string{"/usr", "/etc/alternatives", "/lib/modules"} {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, sameReadOnly(dir))
		}
	}
	return mounts
}
