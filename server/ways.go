// The ways between the server, hosts and clusters.

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/assets"
	"github.com/drover-project/drover/server/clusteragents"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/nodeagents"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
)

// ways lead to hosts and clusters, and let their agents in.
type ways struct {
	plans        *planapi.API
	hosts        *hosts.Hosts
	registration *registration.Registration
	inClusters   *clusteragents.Agents
	agents       *nodeagents.Agents
	clusters     *downstream.Clusters
	accounts     *downstream.Accounts
}

func newWays(ctx context.Context, d *data, i *identity) (w *ways, err error) {
	files, err := assets.Open(d.AssetsDir, filepath.Join(d.DataDir, "assets"))
	if err != nil {
		return nil, err
	}
	w = &ways{}
	w.plans = planapi.New(planapi.Options{
		State: d.state, Machine: i.machines.MachineByToken, User: i.auth.Authenticate, Until: i.until, Discovery: api.Discovery(), Now: d.Now, Logger: d.Logger,
	})
	if w.hosts, err = newHosts(ctx, d, i, w.plans.Hub()); err != nil {
		return nil, err
	}
	w.registration = registration.New(registration.Options{
		State: d.state, Settings: d.settings, Assets: files, Tokens: i.machines, Watching: w.hosts.Watching, Now: d.Now, Logger: d.Logger,
	})
	w.inClusters = clusteragents.New(clusteragents.Options{
		State: d.state, Tokens: w.registration, Settings: d.settings, Accept: w.hosts.Accept, Now: d.Now, Logger: d.Logger,
	})
	w.agents = nodeagents.New(nodeagents.Options{
		State: d.state, Tokens: w.registration, Tunnel: w.hosts.Tunnel, Accept: w.hosts.Accept, Cluster: w.inClusters.Serve, Now: d.Now, Logger: d.Logger,
	})
	w.clusters = downstream.New(downstream.Options{State: d.state, Hosts: w.hosts, Logger: d.Logger, Now: d.Now})
	w.accounts = &downstream.Accounts{Client: w.clusters.Client, Now: d.Now}
	return w, nil
}

func (w *ways) close() {
	w.inClusters.Close()
	w.agents.Close()
}

// newHosts makes the way to the hosts, through this server and the others of its store.
func newHosts(ctx context.Context, d *data, i *identity, watches hosts.Watches) (*hosts.Hosts, error) {
	secret, err := d.shared(ctx, secretRelay, func() (string, error) { return randomid.Secret(), nil })
	if err != nil {
		return nil, err
	}
	trust, err := d.peerTrust()
	if err != nil {
		return nil, err
	}
	return hosts.New(hosts.Options{
		State: d.state, Machine: i.machines.MachineByToken, Until: i.until, Watches: watches,
		Self:  records.Replica{ID: randomid.ID(8), URL: d.names.url(d.PeerURL), Version: drover.Version, Started: d.Now().UTC(), Identity: campaigner()},
		Alone: len(d.Store.Endpoints) == 0, Secret: secret, TLS: trust,
		Messages: d.Environ != nil && d.Environ("CATTLE_TUNNEL_DATA_DEBUG") == "true", Logger: d.Logger, Now: d.Now,
	}), nil
}

// campaigner names this server among those that campaign for leadership.
func campaigner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "drover"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// clear takes out of a cluster that leaves what lets people in.
func (w *ways) clear(ctx context.Context, id string, key records.ClusterKey, client kubernetes.Interface) error {
	err := rights.Clear(ctx, client, id)
	err = errors.Join(err, w.accounts.Sweep(ctx, key, func(string) bool { return false }))
	if gone := client.CoreV1().Namespaces().Delete(ctx, downstream.AccountNamespace, metav1.DeleteOptions{}); gone != nil && !apierrors.IsNotFound(gone) {
		err = errors.Join(err, fmt.Errorf("remove namespace %s: %w", downstream.AccountNamespace, gone))
	}
	return err
}

// tokenArrived waits until a token is in a cluster. It asks the cluster, since another server may be the leader.
func (w *ways) tokenArrived(ctx context.Context, cluster records.ClusterKey, token string) error {
	client, err := w.clusters.Client(cluster)
	if err != nil {
		return err
	}
	return authtokens.Await(ctx, client, token)
}
