// What is done to a Docker engine: looking, and performing one action.

package nodeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

const (
	// stopSeconds is how long a process may take to end before it is killed.
	stopSeconds = 10
	// callLimit bounds one call of Docker's API, pullLimit the download of one image.
	callLimit = time.Minute
	pullLimit = 15 * time.Minute
)

// Engine is a Docker engine that runs processes.
type Engine struct {
	Docker *client.Client
	Logger *slog.Logger
}

// Look finds the containers of processes: those that carry the label, and those that
// have one of the names. The errors are those of Docker.
func (e *Engine) Look(ctx context.Context, wanted *NodeConfig) ([]Container, error) {
	containers, _, err := e.Survey(ctx, wanted, nil)
	return containers, err
}

// Survey is Look, and says besides what images give to their containers, by the names that are asked for; those that are not on the host are left
// out. Everything is asked once, and some of it at the same time: over SSH each call costs a round trip. The errors are those of Docker.
func (e *Engine) Survey(ctx context.Context, wanted *NodeConfig, images []string) ([]Container, map[string]Base, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	named, byID := map[string]Base{}, map[string]*Base{}
	var mu sync.Mutex
	err := together(len(images), func(i int) error {
		id, base, err := e.base(ctx, images[i])
		if err != nil || base == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		named[images[i]], byID[id] = *base, base
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	listed, err := e.Docker.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, nil, fmt.Errorf("list the containers: %w", err)
	}
	listed = slices.DeleteFunc(listed, func(one container.Summary) bool { return !concerns(one, wanted) })
	all := make([]*inspected, len(listed))
	if err := together(len(listed), func(i int) (err error) { all[i], err = e.inspect(ctx, listed[i].ID); return err }); err != nil {
		return nil, nil, err
	}
	var found []Container
	for _, one := range all {
		if one == nil {
			continue // it went between the two calls
		}
		base, known := byID[one.image]
		if !known {
			if _, base, err = e.base(ctx, one.image); err != nil {
				return nil, nil, err
			}
			byID[one.image] = base
		}
		one.Base = base
		found = append(found, one.Container)
	}
	return found, named, nil
}

// atOnce is how many calls of one engine are under way together, for which connections are kept.
const atOnce = 4

// together does so many things, some at the same time, and waits for all.
func together(n int, do func(int) error) error {
	errs, room := make([]error, n), make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// inspected is a container, and the ID of its image.
type inspected struct {
	Container
	image string
}

func concerns(one container.Summary, wanted *NodeConfig) bool {
	if one.Labels[Label] != "" || one.Labels[formerLabel] != "" {
		return true
	}
	for _, name := range one.Names {
		if _, ok := wanted.Processes[strings.TrimPrefix(name, "/")]; ok {
			return true
		}
	}
	return false
}

// inspect looks at a container; nil is one that has gone. Its Base is left open.
func (e *Engine) inspect(ctx context.Context, id string) (*inspected, error) {
	r, err := e.Docker.ContainerInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspect container %.12s: %w", id, err)
	}
	if r.ContainerJSONBase == nil || r.Config == nil || r.HostConfig == nil || r.State == nil {
		return nil, fmt.Errorf("inspect container %.12s: Docker's answer is not whole", id)
	}
	c := Container{
		ID: r.ID, Name: strings.TrimPrefix(r.Name, "/"), Image: r.Config.Image,
		Entrypoint: r.Config.Entrypoint, Cmd: r.Config.Cmd, Env: r.Config.Env, User: r.Config.User, Labels: r.Config.Labels,
		Binds: r.HostConfig.Binds, VolumesFrom: r.HostConfig.VolumesFrom, NetworkMode: string(r.HostConfig.NetworkMode),
		PidMode: string(r.HostConfig.PidMode), Privileged: r.HostConfig.Privileged, Ports: r.HostConfig.PortBindings,
		SecurityOpt: r.HostConfig.SecurityOpt, Running: r.State.Running || r.State.Restarting, Restarting: r.State.Restarting, LogPath: r.LogPath,
	}
	// Docker says so in a form of its own; what it does not say was long ago.
	c.Started, _ = time.Parse(time.RFC3339Nano, r.State.StartedAt)
	return &inspected{c, r.Image}, nil
}

// base is what an image gives to its containers, and its ID; nil when it is not on the host.
func (e *Engine) base(ctx context.Context, ref string) (id string, given *Base, err error) {
	r, err := e.Docker.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("inspect image %.200s: %w", ref, err)
	}
	b := &Base{}
	if r.Config != nil {
		b = &Base{Entrypoint: r.Config.Entrypoint, Cmd: r.Config.Cmd, Env: r.Config.Env, Labels: r.Config.Labels, User: r.Config.User}
	}
	return r.ID, b, nil
}

// Image is what an image gives to its containers; nil when it is not on the host. The error is that of Docker.
func (e *Engine) Image(ctx context.Context, ref string) (*Base, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, base, err := e.base(ctx, ref)
	return base, err
}

// Pull fetches an image that is not on the host, and returns what it gives to its containers. The error is Docker's or the registry's.
func (e *Engine) Pull(ctx context.Context, ref, auth string) (*Base, error) {
	if err := e.pull(ctx, Process{Image: ref, ImageRegistryAuthConfig: auth}); err != nil {
		return nil, err
	}
	base, err := e.Image(ctx, ref)
	if err == nil && base == nil {
		err = fmt.Errorf("image %s was pulled and is gone again: is the disk full, so that Docker cleans up?", ref)
	}
	return base, err
}

// Perform does what an action says. It can be interrupted at any point: the next Plan
// takes up from what is there then.
func (e *Engine) Perform(ctx context.Context, a Action) error {
	e.Logger.Info("container changes", "action", a.Kind, "process", a.Name, "because", strings.Join(a.Reasons, ", "))
	var err error
	switch a.Kind {
	case Create:
		err = e.create(ctx, a)
	case Replace:
		err = e.replace(ctx, a)
	case Start:
		err = e.start(ctx, a.Found)
	case Restart:
		err = e.restart(ctx, a.Found)
	case Discard:
		err = e.remove(ctx, a.Found)
	default:
		err = errors.New("no such action")
	}
	if err != nil {
		return fmt.Errorf("%s container %s: %w", a.Kind, a.Name, err)
	}
	return nil
}

// create makes and starts a container that is not there. When it cannot, an older one
// that an interrupted replacement left comes back.
func (e *Engine) create(ctx context.Context, a Action) error {
	id, err := e.make(ctx, *a.Process, a.Name)
	if err == nil {
		err = e.startNew(ctx, a.Name, id)
	}
	if a.Found == "" {
		return err
	}
	if err == nil {
		return e.remove(ctx, a.Found)
	}
	return errors.Join(err, e.putBack(ctx, a.Name, a.Found))
}

// replace makes the new container before it touches the old one.
func (e *Engine) replace(ctx context.Context, a Action) error {
	id, err := e.make(ctx, *a.Process, NewPrefix+a.Name)
	if err != nil {
		return fmt.Errorf("%w; the old one goes on", err)
	}
	if err := e.stop(ctx, a.Found); err != nil {
		return errors.Join(err, e.remove(ctx, id))
	}
	err = e.rename(ctx, a.Found, OldPrefix+a.Name)
	if err == nil {
		err = e.rename(ctx, id, a.Name)
	}
	if err == nil {
		err = e.startNew(ctx, a.Name, id)
	} else {
		err = errors.Join(err, e.remove(ctx, id))
	}
	if err != nil {
		return errors.Join(err, e.putBack(ctx, a.Name, a.Found))
	}
	return e.remove(ctx, a.Found)
}

// startNew starts a container that was just made, and removes it when it does not start.
func (e *Engine) startNew(ctx context.Context, name, id string) error {
	if name == Sidekick {
		return nil
	}
	if err := e.start(ctx, id); err != nil {
		return errors.Join(err, e.remove(ctx, id))
	}
	return nil
}

// putBack gives an old container its name again and starts it.
func (e *Engine) putBack(ctx context.Context, name, id string) error {
	// The agent may be stopping; a process without its container would be worse than being late.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	c, err := e.inspect(ctx, id)
	if err == nil && c.Name != name {
		err = e.rename(ctx, id, name)
	}
	if err != nil {
		return fmt.Errorf("put the old one back: %w", err)
	}
	if name == Sidekick {
		return nil
	}
	if err := e.start(ctx, id); err != nil {
		return fmt.Errorf("put the old one back: %w", err)
	}
	e.Logger.Warn("the old container was put back", "process", name)
	return nil
}

func restart(policy string) container.RestartPolicy {
	name, count, _ := strings.Cut(policy, ":")
	n, _ := strconv.Atoi(count) // Decode lets only numbers pass
	return container.RestartPolicy{Name: container.RestartPolicyMode(name), MaximumRetryCount: n}
}

// pull fetches an image that is not on the host.
func (e *Engine) pull(ctx context.Context, p Process) error {
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	_, err := e.Docker.ImageInspect(ctx, p.Image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return fmt.Errorf("inspect image %s: %w", p.Image, err)
	}
	e.Logger.Info("image is pulled", "image", p.Image)
	progress, err := e.Docker.ImagePull(ctx, p.Image, image.PullOptions{RegistryAuth: p.ImageRegistryAuthConfig})
	if err != nil {
		return fmt.Errorf("pull image %s: %w", p.Image, err)
	}
	defer progress.Close()
	if err := pulled(progress); err != nil {
		return fmt.Errorf("pull image %s: %w", p.Image, err)
	}
	return nil
}

// pulled reads a pull to its end, which may report errors in the middle of a good answer.
func pulled(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var line struct {
			Error string `json:"error"`
		}
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read Docker's progress: %w", err)
		}
		if line.Error != "" {
			return fmt.Errorf("answer of the Docker engine: %.300s", line.Error)
		}
	}
}

func (e *Engine) start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := e.Docker.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return fmt.Errorf("start it: %w", err)
	}
	return nil
}

func (e *Engine) stop(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	seconds := stopSeconds
	if err := e.Docker.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds}); err != nil {
		return fmt.Errorf("stop it: %w", err)
	}
	return nil
}

func (e *Engine) restart(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	seconds := stopSeconds
	if err := e.Docker.ContainerRestart(ctx, id, container.StopOptions{Timeout: &seconds}); err != nil {
		return fmt.Errorf("restart it: %w", err)
	}
	return nil
}

func (e *Engine) rename(ctx context.Context, id, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := e.Docker.ContainerRename(ctx, id, name); err != nil {
		return fmt.Errorf("rename container %.12s to %s: %w", id, name, err)
	}
	return nil
}

func (e *Engine) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	err := e.Docker.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %.12s: %w", id, err)
	}
	return nil
}
