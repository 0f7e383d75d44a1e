// Package api is the cluster's own API: reached through any control plane host, and given what an engine
// leaves there.
package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// RestartPods restarts the pods of the cluster's own add-ons: they keep the CA of before in memory. The error is that of the API.
func RestartPods(ctx context.Context, r *run.Run) error {
	r.Line("restart", "Restarting network, ingress, and metrics pods")
	n, err := r.API.DeletePods(ctx, kube.ClusterPods())
	if err != nil {
		return err
	}
	r.Line("restart", "%d pods restart", n)
	return nil
}

// apiPort is where an API server listens on its host.
const apiPort = "6443"

// Open waits until the API answers. The error says what the API answered at the last try.
func Open(ctx context.Context, r *run.Run) error {
	if r.API == nil {
		ca, admin := r.Bundle()[pki.CA], r.Bundle()[pki.Admin]
		api, err := kube.Open(kube.Credentials{
			CA: []byte(ca.CertificatePEM), Certificate: []byte(admin.CertificatePEM), Key: []byte(admin.KeyPEM),
		}, func(ctx context.Context) (net.Conn, error) { return Dial(ctx, r) })
		if err != nil {
			return err
		}
		r.API = api
	}
	return r.API.Await(ctx, run.HealthTries, r.Pause, func(attempt int, err error) {
		r.Line("reconcile", "the cluster's API does not answer yet, try %d of %d: %v", attempt, run.HealthTries, err)
	})
}

// Dial opens a connection to the first API server that takes one. The error has that of each host.
func Dial(ctx context.Context, r *run.Run) (net.Conn, error) {
	hosts := r.With(config.RoleControlPlane)
	var faults []error
	for _, h := range hosts {
		conn, err := h.OpenTCP(ctx, net.JoinHostPort("localhost", apiPort))
		if err == nil {
			return conn, nil
		}
		faults = append(faults, err)
	}
	return nil, fmt.Errorf("no API server of %s takes a connection: %w", run.Names(hosts), errors.Join(faults...))
}

// KeepState notes that the control plane is what the config says, before the workers follow. The errors are those of the API and of saving.
func KeepState(ctx context.Context, r *run.Run) error {
	if err := r.API.GrantComponents(ctx); err != nil {
		return err
	}
	next := r.State.Deployed()
	next.Current.Config = deployedConfig(r)
	return Keep(ctx, r, next)
}

// Keep saves a state here and in the cluster. The errors are those of saving: the state here may be newer than the cluster's then, which the next run
// mends.
func Keep(ctx context.Context, r *run.Run, s *state.State) error {
	if err := r.SaveState(ctx, s); err != nil {
		return err
	}
	text, err := state.Compact(s)
	if err != nil {
		return err
	}
	r.Line("state", "Saving full cluster state to Kubernetes")
	if err := r.API.SaveState(ctx, text); err != nil {
		return err
	}
	r.Line("state", "Successfully Saved full cluster state to Kubernetes Secret: full-cluster-state")
	return nil
}

// deployedConfig is the config with the hosts that have it: those that leave are in it until
// they have left, those that could not be reached as they were before, and not at all when
// they are new.
func deployedConfig(r *run.Run) *config.Cluster {
	c := *r.Work.Config
	c.Nodes = nil
	for _, n := range r.Work.Config.Nodes {
		if r.Down[n.Address] == nil {
			c.Nodes = append(c.Nodes, n)
		} else if was, ok := run.Find(r.Deployed(), n.Address); ok {
			c.Nodes = append(c.Nodes, was)
		}
	}
	for _, n := range r.Deployed() {
		if _, stays := run.Find(r.Work.Config.Nodes, n.Address); !stays {
			c.Nodes = append(c.Nodes, n)
		}
	}
	return &c
}

// Left notes that hosts have gone. The errors are those of Keep.
func Left(ctx context.Context, r *run.Run, addresses []string) error {
	c := *r.State.Current.Config
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n config.Node) bool { return slices.Contains(addresses, n.Address) })
	next := &state.State{Desired: r.State.Desired, Current: r.State.Current}
	next.Current.Config = &c
	return Keep(ctx, r, next)
}

// AwaitReady waits until a host's node is ready. The error names the node, and says why it is not ready; or it is the context's.
func AwaitReady(ctx context.Context, r *run.Run, h *run.Host) error {
	name := run.NodeName(h.Node)
	for attempt := 1; ; attempt++ {
		message := ""
		nodes, err := r.API.Nodes(ctx)
		if err == nil {
			node, there := nodes[name]
			ready := false
			if message = "it has not registered"; there {
				ready, message = kube.Ready(node)
			}
			if ready {
				return nil
			}
			err = errors.New(message)
		}
		if attempt == run.EtcdTries {
			return fmt.Errorf("node %s is not Ready: %w", name, err)
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
}
