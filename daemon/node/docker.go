// The Docker engine of this host: whether it answers, what it says of itself, and when
// something has happened to its containers.

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/tunnel/connect"
)

const (
	dockerLimit = 20 * time.Second
	// dockerCheck is how often an engine is asked that has been silent: a stopped one closes
	// the stream of events, a stuck one does not.
	dockerCheck = time.Minute
)

type docker struct {
	client     *client.Client
	socket     string
	liveStatus *liveStatus
	// stirred has one entry when containers may have changed or the engine has come back.
	stirred chan struct{}

	mu   sync.Mutex
	info *connect.DockerInfo // what it said last; nil before
}

func newDocker(c *client.Client, socket string, b *liveStatus) *docker {
	return &docker{client: c, socket: socket, liveStatus: b, stirred: make(chan struct{}, 1)}
}

// said is what Docker said of itself last, nil when it never did.
func (d *docker) said() *connect.DockerInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info
}

func (d *docker) stir() {
	select {
	case d.stirred <- struct{}{}:
	default:
	}
}

// run follows the engine until the context ends. That it is missing is a condition and no end.
func (d *docker) run(ctx context.Context) error {
	pause := backoff.Backoff{Min: time.Second, Max: 15 * time.Second, Floor: 0.5}
	for {
		err := d.ask(ctx)
		if err == nil {
			pause.Reset()
			d.liveStatus.set(onDocker, nil)
			d.stir()
			err = d.follow(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.liveStatus.set(onDocker, explainDocker(d.socket, d.cause(ctx, err)))
		if err := backoff.Wait(ctx, pause.Next()); err != nil {
			return err
		}
	}
}

// ask asks the engine what it is.
func (d *docker) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dockerLimit)
	defer cancel()
	i, err := d.client.Info(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.info = &connect.DockerInfo{
		ID:           i.ID,
		Architecture: i.Architecture, CgroupDriver: i.CgroupDriver, Debug: i.Debug, DockerRootDir: i.DockerRootDir, Driver: i.Driver,
		ExperimentalBuild: i.ExperimentalBuild, HTTPProxy: withoutUser(i.HTTPProxy), HTTPSProxy: withoutUser(i.HTTPSProxy),
		IndexServerAddress: i.IndexServerAddress, InitBinary: i.InitBinary, KernelVersion: i.KernelVersion, Labels: i.Labels,
		LoggingDriver: i.LoggingDriver, Name: i.Name, NoProxy: i.NoProxy, OSType: i.OSType, OperatingSystem: i.OperatingSystem,
		SecurityOptions: i.SecurityOptions, ServerVersion: i.ServerVersion,
	}
	return nil
}

// withoutUser takes the credentials out of a proxy's address.
func withoutUser(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// follow listens to the engine's events and asks it now and then, until one of them fails.
func (d *docker) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	happened, failed := d.client.Events(ctx, events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", "container"), filters.Arg("label", nodeconfig.Label), filters.Arg("event", "die"), filters.Arg("event", "destroy"), filters.Arg("event", "rename"))})
	check := time.NewTicker(dockerCheck)
	defer check.Stop()
	for {
		select {
		case <-happened:
			d.stir()
		case err := <-failed:
			if err == nil {
				err = errors.New("the engine has stopped")
			}
			return fmt.Errorf("listen to the engine: %w", err)
		case <-check.C:
			if err := d.ask(ctx); err != nil {
				return err
			}
		}
	}
}

// cause is why the socket cannot be used, when that is so; Docker's client does not say.
func (d *docker) cause(ctx context.Context, err error) error {
	c, dialed := (&net.Dialer{Timeout: dockerLimit}).DialContext(ctx, "unix", d.socket)
	if dialed != nil {
		return dialed
	}
	c.Close()
	return err
}

// explainDocker says of an error with a socket what a person can do.
func explainDocker(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing: start Docker, or in a container mount /var/run of the host", socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: start Docker, or in a container mount all of /var/run and not the socket alone", socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be used by this user: run the agent as root, in a container with --privileged", socket)
	}
	return fmt.Errorf("the Docker engine on %s does not answer: %w", socket, err)
}
