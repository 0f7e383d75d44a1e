// The agents in clusters, kept by the leader, and what goes when a cluster leaves.

package server

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/clusteragents"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/downstream/accounts"
	"github.com/drover-project/drover/server/nodeagents"
	"github.com/drover-project/drover/server/records"
)

// tunnelAgents makes what lets the agents of Docker hosts and of clusters in, which come to the same address.
func (s *Server) tunnelAgents(p *parts) {
	p.inClusters = clusteragents.New(clusteragents.Options{
		State: s.state, Tokens: p.register, Settings: s.settings, Accept: p.hosts.Accept, Now: s.Now, Logger: s.Logger,
	})
	p.agents = nodeagents.New(nodeagents.Options{
		State: s.state, Tokens: p.register, Tunnel: p.hosts.Tunnel, Accept: p.hosts.Accept, Cluster: p.inClusters.Serve, Now: s.Now, Logger: s.Logger,
	})
}

// agentsInClusters makes what keeps the agents in clusters.
func (s *Server) agentsInClusters(p *parts) {
	clear := func(ctx context.Context, key records.ClusterKey, client kubernetes.Interface) error {
		cl, _ := s.state.Clusters.Get(string(key))
		err := rights.Clear(ctx, client, cl.Value.ID)
		err = errors.Join(err, p.accounts.Sweep(ctx, key, func(string) bool { return false }))
		if gone := client.CoreV1().Namespaces().Delete(ctx, accounts.Namespace, metav1.DeleteOptions{}); gone != nil && !apierrors.IsNotFound(gone) {
			err = errors.Join(err, fmt.Errorf("remove namespace %s: %w", accounts.Namespace, gone))
		}
		return err
	}
	p.deployed = clusteragents.NewKeeper(p.inClusters, p.clusters.Client, p.clusters.CA, clear)
}
