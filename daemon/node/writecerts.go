// The other life of the agent: as the container share-mnt it shares the kubelet's mounts
// and writes the certificates at the host's boot, when no other agent runs, and stops
// itself until the next one.

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

func (a *agent) writeCerts(ctx context.Context) error {
	changed, err := shareMounts(a.Share)
	a.liveStatus.set(onMounts, err)
	if len(changed) > 0 {
		a.Logger.Info("mounts are shared now", "paths", changed)
	}
	renewed, err := a.bringCerts(ctx)
	if err != nil {
		return nil // it was stopped
	}
	a.Logger.Info("certificates are written", "changed", renewed)
	if err := a.wakeKubelet(ctx, renewed || len(changed) > 0); err != nil {
		a.Logger.Warn("the kubelet is as it was", "error", err)
	}
	if err := a.stopShareMnt(ctx); err != nil {
		a.Logger.Warn("this container cannot stop itself and will be started again", "error", err)
	}
	return nil
}

// bringCerts writes the certificates of the node config, however long it takes to get one.
func (a *agent) bringCerts(ctx context.Context) (renewed bool, err error) {
	p := newPull(a)
	for {
		wanted, err := p.get(ctx, 0)
		next := p.weigh(err)
		if err == nil {
			renewed, err = nodeconfig.WriteFiles(hostfs.FS{Root: a.Root}, &nodeconfig.NodeConfig{Certs: wanted.Certs})
		}
		a.liveStatus.set(onConfig, err)
		if err == nil {
			return renewed, nil
		}
		if errors.Is(err, errNoConfig) && p.none >= nothingTries {
			return false, nil // this host has none to write
		}
		if err := backoff.Wait(ctx, max(next, p.spared.Left(p.Now()))); err != nil {
			return false, err
		}
	}
}

// wakeKubelet restarts the kubelet when something has changed below it, and starts one that
// Docker could not start at boot. A host that has none yet gets it from the agent proper.
func (a *agent) wakeKubelet(ctx context.Context, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, dockerLimit)
	defer cancel()
	is, err := a.docker.client.ContainerInspect(ctx, "kubelet")
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for the kubelet: %w", err)
	case is.State != nil && is.State.Running && !changed:
		return nil
	}
	if err := a.docker.client.ContainerRestart(ctx, is.ID, container.StopOptions{}); err != nil {
		return fmt.Errorf("restart the kubelet: %w", err)
	}
	return nil
}

// stopShareMnt stops the container that this is: Docker restarts one that ends by
// itself, and leaves one alone that was stopped.
func (a *agent) stopShareMnt(whole context.Context) error {
	ctx, cancel := context.WithTimeout(whole, dockerLimit)
	defer cancel()
	found, err := a.docker.client.ContainerList(ctx, container.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", nodeconfig.Label+"="+nodeconfig.ShareMnt))})
	if err != nil {
		return fmt.Errorf("look for this container: %w", err)
	}
	for _, c := range found {
		if len(c.Names) == 0 || strings.TrimPrefix(c.Names[0], "/") != nodeconfig.ShareMnt {
			continue
		}
		err := a.docker.client.ContainerStop(ctx, c.ID, container.StopOptions{})
		if whole.Err() != nil {
			return nil // Docker's signal has come before its answer
		}
		if err != nil {
			return fmt.Errorf("stop this container: %w", err)
		}
	}
	return nil
}
