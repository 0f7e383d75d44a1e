// A host of a custom cluster begins with an agent that a person started. Once the agent
// runs as a pod, the one of the beginning is in its way and goes.

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

const (
	agentLabel = "io.cattle.agent"
	podLabel   = "io.kubernetes.pod.uid"
	takeOver   = 15 * time.Second
)

// sweep removes agents that were started by hand, some time after each connection.
func (a *agent) sweep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.connected:
		}
		pause := backoff.Backoff{Min: a.TakeOver, Max: 5 * time.Minute, Floor: 1}
		for {
			if err := backoff.Wait(ctx, pause.Next()); err != nil {
				return err
			}
			err := a.removeHandStarted(ctx)
			if err == nil {
				break
			}
			if ctx.Err() == nil {
				a.Logger.Warn("agents that were started by hand are still there", "error", err)
			}
		}
	}
}

func (a *agent) removeHandStarted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dockerLimit)
	defer cancel()
	found, err := a.docker.client.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", agentLabel+"=true"))})
	if err != nil {
		return fmt.Errorf("look for them: %w", err)
	}
	own, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("find out which container this is: %w", err)
	}
	var faults []error
	for _, c := range handStarted(found, string(own)) {
		if err := a.docker.client.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}); err != nil {
			faults = append(faults, fmt.Errorf("remove %s: %w", containerTitle(c), err))
			continue
		}
		a.Logger.Info("agent that was started by hand is removed: this one runs as a pod", "container", containerTitle(c))
	}
	return errors.Join(faults...)
}

// handStarted are the agents that are neither pods nor share-mnt nor this one, whose
// mounts name its container.
func handStarted(found []container.Summary, ownMounts string) (gone []container.Summary) {
	for _, c := range found {
		title := containerTitle(c)
		pod := c.Labels[podLabel] != "" || strings.HasPrefix(title, "k8s_")
		shareMnt := title == nodeconfig.ShareMnt || c.Labels[nodeconfig.Label] == nodeconfig.ShareMnt
		if c.Labels[agentLabel] == "true" && !pod && !shareMnt && !strings.Contains(ownMounts, c.ID) {
			gone = append(gone, c)
		}
	}
	return gone
}

func containerTitle(c container.Summary) string {
	if len(c.Names) == 0 {
		return c.ID
	}
	return strings.TrimPrefix(c.Names[0], "/")
}
