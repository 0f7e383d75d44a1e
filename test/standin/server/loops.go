// The parts of the server that work through its API: the node's initialisation and the manifests.

package server

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/test/standin/deploy"
	"github.com/drover-project/drover/test/standin/node"
)

// crds are the kinds the real one brings, without what would act on them: manifests may use them.
//
//go:embed crds.yaml
var crds []byte

func (s *server) startLoops(ctx context.Context, loops *sync.WaitGroup) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", s.layout.credential("supervisor"))
	if err != nil {
		return fmt.Errorf("configure the server's own client: %w", err)
	}
	cfg.UserAgent = "k3s-standin"
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	manifests := &deploy.Controller{
		Dir: s.layout.manifests(), Record: s.layout.deployed(), Builtin: crds, Objects: objects, Kinds: kinds, Log: s.log, Every: time.Second,
	}
	loops.Go(func() { manifests.Run(ctx) })
	if s.settings.DisableAgent {
		return nil
	}
	initialise := &node.Initializer{
		Name: s.settings.NodeName, InternalIPs: texts(s.settings.NodeIPs), ExternalIPs: texts(s.settings.NodeExternalIPs),
		ProviderID: providerID(s.settings), Labels: s.roleLabels(), Client: client, Log: s.log,
		External: !s.settings.DisableCloudController,
	}
	loops.Go(func() { initialise.Run(ctx) })
	return nil
}

// roleLabels are the labels a server gives its own node.
func (s *server) roleLabels() map[string]string {
	labels := map[string]string{"node-role.kubernetes.io/control-plane": "true"}
	if s.settings.ClusterInit {
		labels["node-role.kubernetes.io/etcd"] = "true"
	}
	return labels
}

func texts(addrs []netip.Addr) []string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}
