// Carrying a file from one host to another, through whoever runs the engine: the hosts need no way to
// each other, and nothing of it is kept in between.

package onhost

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/drover-project/drover/rke1/nodeconfig"
)

// carryLimit bounds the carrying of one file: etcd's largest snapshot has some 8 GiB.
const carryLimit = time.Hour

// Carry copies a file of a directory that both hosts have to the same place on another host, with its mode and
// owner. One that was interrupted leaves a file that is cut off; whoever uses it checks it first.
func (h *Host) Carry(ctx context.Context, to *Host, d Directory, name string) error {
	ctx, cancel := context.WithTimeout(ctx, carryLimit)
	defer cancel()
	err := h.withDirectory(ctx, d, func(from string) error {
		stream, _, err := h.Docker.CopyFromContainer(ctx, from, path.Join(d.Path, name))
		if err != nil {
			return err
		}
		defer stream.Close()
		return to.withDirectory(ctx, d, func(there string) error {
			return to.Docker.CopyToContainer(ctx, there, d.Path, stream, container.CopyToContainerOptions{})
		})
	})
	if err != nil {
		return fmt.Errorf("copy %s of %s from host %s to host %s: %w", name, d.OnHost, h.Address, to.Address, err)
	}
	return nil
}

// withDirectory makes a container that has a directory and is never started, for as long as something is done with it.
func (h *Host) withDirectory(ctx context.Context, d Directory, do func(id string) error) (err error) {
	id, err := h.create(ctx, nodeconfig.Process{
		Name: deployer, Image: d.Image, ImageRegistryAuthConfig: d.Auth, Binds: []string{d.OnHost + ":" + d.Path},
		// Never run; but an image without a command of its own cannot be made a container of.
		Command: []string{"true"}, NetworkMode: "none",
	})
	if err != nil {
		return err
	}
	defer func() { err = h.discard(ctx, deployer, id, err) }()
	return do(id)
}
