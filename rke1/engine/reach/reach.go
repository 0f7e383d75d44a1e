// Package reach opens the hosts of a run, each of which is asked who it is, all at the same time, and looks at what should be there
// and what is there.
package reach

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/onhost"
)

// Every reaches every host of some roles, "" being all: what they would miss could not be made up for later. The error has that of each host that is
// missing, and advice.
func Every(ctx context.Context, r *run.Run, roles ...string) error {
	if err := Some(ctx, r); err != nil {
		return err
	}
	var missing []error
	for _, address := range run.SortedKeys(r.Down) {
		n, _ := run.Find(r.Work.Config.Nodes, address)
		for _, role := range roles {
			if role == "" || n.Has(role) {
				missing = append(missing, r.Down[address])
				break
			}
		}
	}
	if len(missing) > 0 {
		return advice.With(fmt.Errorf("this needs every host, and nothing was changed: %w", errors.Join(missing...)), advice.Step{Kind: advice.DropLostHosts})
	}
	warnDown(r)
	return nil
}

// UnsupportedDockerError is that a host's Docker is older than what a Kubernetes version was made for.
type UnsupportedDockerError struct{ Host, Docker, Kubernetes string }

func (e *UnsupportedDockerError) Error() string {
	return fmt.Sprintf("Unsupported Docker version found [%s] on host [%s] for Kubernetes %s: install another one there, "+
		"or set ignore_docker_version: true", e.Docker, e.Host, e.Kubernetes)
}

// All opens every host of the config, and those that leave. What cannot be reached is warned of and left
// for the next run, as long as etcd has a host.
func All(ctx context.Context, r *run.Run) error {
	if err := Some(ctx, r); err != nil {
		return err
	}
	warnDown(r)
	return nil
}

// warnDown names the hosts that could not be reached; where a run ends for them its error does.
func warnDown(r *run.Run) {
	for _, address := range run.SortedKeys(r.Down) {
		r.Report.Warn(fmt.Sprintf("host [%s] cannot be reached: %v", address, run.Why(r.Down[address])))
	}
}

// Some is reach without a word about hosts that could not be reached. It returns an error where no host of etcd or none of the control plane answers.
func Some(ctx context.Context, r *run.Run) error {
	r.Line("", "Building Kubernetes cluster")
	var all []*run.Host
	for _, n := range r.Work.Config.Nodes {
		all = append(all, &run.Host{Node: n})
	}
	for _, n := range r.Deployed() {
		if _, stays := run.Find(r.Work.Config.Nodes, n.Address); !stays {
			all = append(all, &run.Host{Node: n, Leaves: true})
		}
	}
	if err := run.Each(ctx, all, run.Parallel, r.On(open)); err != nil {
		return err
	}
	if len(r.Work.Config.Services.Etcd.ExternalURLs) == 0 && len(r.With(config.RoleEtcd)) == 0 {
		return fmt.Errorf("no etcd host can be reached, so that nothing was changed: %w", errors.Join(run.Values(r.Down)...))
	}
	if len(r.With(config.RoleControlPlane)) == 0 {
		return fmt.Errorf("no control plane host can be reached, so that nothing was changed: %w", errors.Join(run.Values(r.Down)...))
	}
	return nil
}

// open asks a host who it is. Its error is one for which the run has to end.
func open(ctx context.Context, r *run.Run, h *run.Host) error {
	r.Line("dialer", "Setup tunnel for host [%s]", h.Node.Address)
	opened, err := onhost.Open(ctx, h.Node.Address, h.Node.DockerSocket, r.Dial(h.Node), r.Now, r.Logger)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if err != nil {
		r.Down[h.Node.Address] = err
		return nil
	}
	h.Host = opened
	r.Hosts[h.Node.Address] = h
	h.Facts = desired.Facts{
		OSType: opened.Info.OSType, OperatingSystem: opened.Info.OperatingSystem, Architecture: opened.Info.Architecture,
		DockerRootDir: opened.Info.DockerRootDir, SecurityOptions: opened.Info.SecurityOptions, ServerVersion: opened.Info.ServerVersion,
	}
	h.Prefix = desired.Prefix(r.Work.Config, h.Facts)
	if h.Leaves {
		return nil
	}
	return checkDocker(r, h)
}

func checkDocker(r *run.Run, h *run.Host) error {
	c := r.Work.Config
	if r.Work.IgnoreDockerVersion || c.IgnoreDockerVersion != nil && *c.IgnoreDockerVersion {
		return nil
	}
	supported, newer := r.Versions.DockerSupported(c.KubernetesVersion, h.Facts.ServerVersion)
	switch {
	case supported:
	case newer:
		r.Report.Warn(fmt.Sprintf("host [%s] has Docker %s, which is newer than those that Kubernetes %s was tried with",
			h.Node.Address, h.Facts.ServerVersion, c.KubernetesVersion))
	default:
		return &UnsupportedDockerError{Host: h.Node.Address, Docker: h.Facts.ServerVersion, Kubernetes: c.KubernetesVersion}
	}
	return nil
}

// Any opens the hosts of a cluster that is to go; no role has to be among those that answer. It returns an error where none answers.
func Any(ctx context.Context, r *run.Run) error {
	r.Line("", "Tearing down Kubernetes cluster")
	r.Work.IgnoreDockerVersion = true
	var all []*run.Host
	for _, n := range r.Work.Config.Nodes {
		all = append(all, &run.Host{Node: n})
	}
	if err := run.Each(ctx, all, run.Parallel, r.On(open)); err != nil {
		return err
	}
	if len(r.Hosts) == 0 {
		return fmt.Errorf("no host can be reached, so that nothing was removed: %w", errors.Join(run.Values(r.Down)...))
	}
	warnDown(r)
	facts := map[string]desired.Facts{}
	for address, h := range r.Hosts {
		facts[address] = h.Facts
	}
	var err error
	r.Plan, err = desired.New(desired.Input{Config: r.Work.Config, Versions: r.Versions, Hosts: facts, Encryption: r.Before.Desired.Encryption})
	return err
}

// Preview reaches the hosts without a word about those that could not be reached, which the changes name. The errors are those of Some.
func Preview(ctx context.Context, r *run.Run, c *run.Changes) error {
	c.Unknown = r.Down
	return Some(ctx, r)
}
