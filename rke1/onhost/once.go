// Short commands, each in a container of its own that is gone afterwards.

package onhost

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/drover-project/drover/rke1/nodeconfig"
)

// onceLimit bounds a short command; longer ones bring their own limit.
const onceLimit = 5 * time.Minute

// Once is a command that runs in a container to its end.
type Once struct {
	// Process is the container; its Name is fixed for each purpose, so that the next run on
	// the host finds what was left over.
	Process nodeconfig.Process
	// Limit bounds how long it may take; 0 means five minutes.
	Limit time.Duration
}

// FailedError is that a command ended with another code than 0.
type FailedError struct {
	Host, Name string
	Code       int64
	// Output are its last lines.
	Output []string
}

func (e *FailedError) Error() string {
	text := fmt.Sprintf("container %s on host %s ended with code %d", e.Name, e.Host, e.Code)
	if len(e.Output) > 0 {
		text += ": " + strings.Join(e.Output, "; ")
	}
	return text
}

// Run runs a command and returns its last lines of output. A container of its name that
// an earlier run left is removed first: its end would say nothing about this one. The error
// is a *FailedError when the command ran and failed.
func (h *Host) Run(ctx context.Context, o Once) (output []string, err error) {
	return h.run(ctx, o, func(context.Context, string) error { return nil })
}

// Fetch runs a command and returns a file that it left in its container, of at most so many bytes. The errors are those of Run, and that there is no
// such file or a larger one.
func (h *Host) Fetch(ctx context.Context, o Once, file string, limit int64) (text []byte, err error) {
	_, err = h.run(ctx, o, func(ctx context.Context, id string) error {
		stream, stat, err := h.Docker.CopyFromContainer(ctx, id, file)
		if err != nil {
			return fmt.Errorf("read %s of container %s on host %s: %w", file, o.Process.Name, h.Address, err)
		}
		defer stream.Close()
		if stat.Size > limit {
			return fmt.Errorf("read %s of container %s on host %s: %d bytes are more than %d", file, o.Process.Name, h.Address, stat.Size, limit)
		}
		archive := tar.NewReader(stream)
		if _, err = archive.Next(); err == nil {
			text, err = io.ReadAll(io.LimitReader(archive, limit))
		}
		if err != nil {
			return fmt.Errorf("read %s of container %s on host %s: %w", file, o.Process.Name, h.Address, err)
		}
		return nil
	})
	return text, err
}

// run runs a command, and does something with its container after it has ended well.
func (h *Host) run(ctx context.Context, o Once, after func(ctx context.Context, id string) error) (output []string, err error) {
	o.Limit = cmp.Or(o.Limit, onceLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("it has not ended after %s", o.Limit))
	defer cancel()
	id, err := h.create(ctx, o.Process)
	if err != nil {
		return nil, err
	}
	defer func() { err = h.discard(ctx, o.Process.Name, id, err) }()
	code, err := h.toItsEnd(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("run container %s on host %s: %w", o.Process.Name, h.Address, err)
	}
	output, err = h.Logs(ctx, id, outputLines)
	if err == nil && code != 0 {
		err = &FailedError{Host: h.Address, Name: o.Process.Name, Code: code, Output: output}
	}
	if err == nil {
		err = after(ctx, id)
	}
	return output, err
}

// Start makes a container and starts it, in place of one of its name, and leaves it running. The error names container and host.
func (h *Host) Start(ctx context.Context, p nodeconfig.Process) error {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	id, err := h.create(ctx, p)
	if err != nil {
		return err
	}
	if err := h.Docker.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return h.discard(ctx, p.Name, id, fmt.Errorf("start container %s on host %s: %w", p.Name, h.Address, err))
	}
	return nil
}

// outputLines is how many of a command's last lines are kept.
const outputLines = 20

// toItsEnd starts a container and waits until it has ended.
func (h *Host) toItsEnd(ctx context.Context, id string) (code int64, err error) {
	// Asked before the start, an end cannot be missed.
	ended, failed := h.Docker.ContainerWait(ctx, id, container.WaitConditionNextExit)
	if err := h.Docker.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return 0, fmt.Errorf("start it: %w", err)
	}
	select {
	case end := <-ended:
		if end.Error != nil {
			return 0, fmt.Errorf("wait for its end: %s", end.Error.Message)
		}
		return end.StatusCode, nil
	case err := <-failed:
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return 0, fmt.Errorf("wait for its end: %w", err)
	}
}

// create makes a container without starting it, in place of one of the same name.
func (h *Host) create(ctx context.Context, p nodeconfig.Process) (id string, err error) {
	id, err = h.Engine().Create(ctx, p)
	if errdefs.IsConflict(err) { // an earlier run left one, or its last request reaches Docker only now
		if err := h.Discard(ctx, p.Name); err != nil {
			return "", err
		}
		id, err = h.Engine().Create(ctx, p)
	}
	if err != nil {
		return "", fmt.Errorf("create container %s on host %s: %w", p.Name, h.Address, err)
	}
	return id, nil
}

// discard removes a container that has done its work, even when the context has ended.
func (h *Host) discard(ctx context.Context, name, id string, before error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	err := h.Docker.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if before != nil || err == nil || errdefs.IsNotFound(err) {
		return before
	}
	return fmt.Errorf("remove container %s on host %s: %w", name, h.Address, err)
}

// Discard removes the container of a name, if there is one. The error names container and host.
func (h *Host) Discard(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := h.Docker.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %s on host %s: %w", name, h.Address, err)
	}
	return nil
}
