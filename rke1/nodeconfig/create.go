// Containers are made.

package nodeconfig

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"
)

// make creates a container of a process, which its label names. The last request of a run that was killed can reach Docker after the next run
// has looked: a container of that name and label that has never been started is of no use to anything, and makes room.
func (e *Engine) make(ctx context.Context, p Process, name string) (id string, err error) {
	p.Name, p.Labels = name, labels(p)
	id, err = e.Create(ctx, p)
	if !errdefs.IsConflict(err) {
		return id, err
	}
	if late, failed := e.inspect(ctx, name); failed != nil || late == nil || late.Labels[Label] != p.Labels[Label] || !late.Started.IsZero() {
		return "", errors.Join(err, failed)
	}
	if err := e.remove(ctx, name); err != nil {
		return "", err
	}
	return e.Create(ctx, p)
}

// Create creates a container as a process says, without starting it, and pulls its image
// when that is not there. It gets no label but the given ones.
func (e *Engine) Create(ctx context.Context, p Process) (id string, err error) {
	config, host, err := request(p)
	if err != nil {
		return "", err
	}
	create := func() (container.CreateResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		return e.Docker.ContainerCreate(ctx, config, host, nil, nil, p.Name)
	}
	r, err := create()
	if errdefs.IsNotFound(err) { // most often the image is there, and is not asked for before
		if err := e.pull(ctx, p); err != nil {
			return "", err
		}
		r, err = create()
	}
	if err != nil {
		return "", fmt.Errorf("create it from image %s: %w", p.Image, err)
	}
	return r.ID, nil
}

// request is what Docker is asked to create.
func request(p Process) (*container.Config, *container.HostConfig, error) {
	exposed, published, err := nat.ParsePortSpecs(p.Publish)
	if err != nil {
		return nil, nil, fmt.Errorf("publish: %w", err)
	}
	config := &container.Config{
		Image: p.Image, Entrypoint: p.Command, Cmd: p.Args, Env: p.Env, Labels: p.Labels, User: p.User,
	}
	host := &container.HostConfig{
		Binds: p.Binds, VolumesFrom: p.VolumesFrom, NetworkMode: container.NetworkMode(p.NetworkMode),
		PidMode: container.PidMode(p.PidMode), Privileged: p.Privileged, RestartPolicy: restart(p.RestartPolicy), SecurityOpt: p.SecurityOpt,
	}
	if len(p.Publish) > 0 {
		config.ExposedPorts, host.PortBindings = exposed, published
	}
	return config, host, nil
}
