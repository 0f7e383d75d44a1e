// The other life of the agent: as the container share-mnt it writes the certificates at
// the host's boot, when no other agent runs, and stops itself until the next one.

package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

func (a *agent) writeCerts(ctx context.Context) error {
	p := newPull(a)
	for {
		wanted, err := p.get(ctx, 0)
		next := p.weigh(err)
		if err == nil {
			_, err = nodeconfig.WriteFiles(hostfs.FS{Root: a.Root}, &nodeconfig.NodeConfig{Certs: wanted.Certs})
		}
		a.board.set(onConfig, err)
		if err == nil {
			break
		}
		if backoff.Wait(ctx, next) != nil {
			return nil
		}
	}
	a.Logger.Info("certificates are written")
	if err := a.stopShareMnt(ctx); err != nil {
		a.Logger.Warn("this container cannot stop itself and will be started again", "error", err)
	}
	return nil
}

// stopShareMnt stops the container that this is: Docker restarts one that ends by
// itself, and leaves one alone that was stopped.
func (a *agent) stopShareMnt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dockerLimit)
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
		if err := a.docker.client.ContainerStop(ctx, c.ID, container.StopOptions{}); err != nil {
			return fmt.Errorf("stop this container: %w", err)
		}
	}
	return nil
}
