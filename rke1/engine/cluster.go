// The cluster's own API: reached through any control plane host, and given what an engine
// leaves there.

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// apiPort is where an API server listens on its host.
const apiPort = "6443"

// openAPI waits until the API answers.
func (r *run) openAPI(ctx context.Context) error {
	if r.api == nil {
		ca, admin := r.bundle()[pki.CA], r.bundle()[pki.Admin]
		api, err := kube.Open(kube.Credentials{
			CA: []byte(ca.CertificatePEM), Certificate: []byte(admin.CertificatePEM), Key: []byte(admin.KeyPEM),
		}, r.dialAPI)
		if err != nil {
			return err
		}
		r.api = api
	}
	return r.api.Await(ctx, healthTries, r.Pause, func(attempt int, err error) {
		r.line("reconcile", "the cluster's API does not answer yet, try %d of %d: %v", attempt, healthTries, err)
	})
}

// dialAPI opens a connection to the first API server that takes one.
func (r *run) dialAPI(ctx context.Context) (net.Conn, error) {
	hosts := r.with(config.RoleControlPlane)
	var faults []error
	for _, h := range hosts {
		conn, err := h.OpenTCP(ctx, net.JoinHostPort("localhost", apiPort))
		if err == nil {
			return conn, nil
		}
		faults = append(faults, err)
	}
	return nil, fmt.Errorf("no API server of %s takes a connection: %w", names(hosts), errors.Join(faults...))
}

// keepState notes that the control plane is what the config says, before the workers follow.
func (r *run) keepState(ctx context.Context) error {
	if err := r.api.GrantComponents(ctx); err != nil {
		return err
	}
	next := r.state.Deployed()
	next.Current.Config = r.deployedConfig()
	return r.keep(ctx, next)
}

// keep saves a state here and in the cluster.
func (r *run) keep(ctx context.Context, s *state.State) error {
	if err := r.save(ctx, s); err != nil {
		return err
	}
	text, err := state.Compact(s)
	if err != nil {
		return err
	}
	r.line("state", "Saving full cluster state to Kubernetes")
	if err := r.api.SaveState(ctx, text); err != nil {
		return err
	}
	r.line("state", "Successfully Saved full cluster state to Kubernetes Secret: full-cluster-state")
	return nil
}

// deployedConfig is the config with the hosts that have it: those that leave are in it until
// they have left, those that could not be reached as they were before, and not at all when
// they are new.
func (r *run) deployedConfig() *config.Cluster {
	c := *r.work.Config
	c.Nodes = nil
	for _, n := range r.work.Config.Nodes {
		if r.down[n.Address] == nil {
			c.Nodes = append(c.Nodes, n)
		} else if was, ok := find(r.deployed(), n.Address); ok {
			c.Nodes = append(c.Nodes, was)
		}
	}
	for _, n := range r.deployed() {
		if _, stays := find(r.work.Config.Nodes, n.Address); !stays {
			c.Nodes = append(c.Nodes, n)
		}
	}
	return &c
}

// left notes that hosts have gone.
func (r *run) left(ctx context.Context, addresses []string) error {
	c := *r.state.Current.Config
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n config.Node) bool { return slices.Contains(addresses, n.Address) })
	next := &state.State{Desired: r.state.Desired, Current: r.state.Current}
	next.Current.Config = &c
	return r.keep(ctx, next)
}
