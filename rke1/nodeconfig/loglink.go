// The links by which people and log collectors find the logs of RKE's containers:
// /var/lib/rancher/rke/log/<name>_<container id>.log.

package nodeconfig

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

const (
	// LinkerPrefix and the name of a container are the name of the container that links its log.
	LinkerPrefix = "rke-log-linker-"
	logDirectory = "/var/lib/rancher/rke/log"
)

// linkScript gets the directory, the log, the link and what the links of the process begin with as arguments, so that no
// name is ever part of a script. The links of containers that went before are removed: nothing else does, and they are
// told by their IDs, so that a process whose name begins like another's keeps its own.
const linkScript = `mkdir -p "$1" && ln -sfn "$2" "$3" || exit 1
for old in "$4"_*.log; do
	id=${old#"$4"_}
	id=${id%.log}
	case $id in *[!0-9a-f]*) continue ;; esac
	if [ ${#id} -eq 64 ] && [ "$old" != "$3" ] && [ -L "$old" ]; then rm -f -- "$old"; fi
done`

// link is the linker's command for a log. The log need not be below /var/lib: a link can name what is not seen here.
func link(dir, log, name, id string) []string {
	return []string{"sh", "-c", linkScript, "link", dir, log, fmt.Sprintf("%s/%s_%s.log", dir, name, id), dir + "/" + name}
}

// LinkLogOf makes the link to the log of the container of a name, as LinkLog does. The errors are those of LinkLog, and that there is no such
// container.
func (e *Engine) LinkLogOf(ctx context.Context, image, name string) error {
	inspectCtx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := e.Docker.ContainerInspect(inspectCtx, name)
	if err != nil {
		return fmt.Errorf("link the log of %s: %w", name, err)
	}
	return e.LinkLog(ctx, image, Container{ID: r.ID, Name: name, LogPath: r.LogPath})
}

// LinkLog makes the link to a container's log by a short-lived container, because the
// agent itself need not see the host's /var/lib. image is one on the host that has a
// shell. A container without a log file is not an error.
func (e *Engine) LinkLog(ctx context.Context, image string, c Container) error {
	if c.LogPath == "" || c.Name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	name := LinkerPrefix + c.Name
	// A container that was left over would keep the name, and its result would be an old one.
	if err := e.removeNamed(ctx, name); err != nil {
		return fmt.Errorf("link the log of %s: %w", c.Name, err)
	}
	config := &container.Config{Image: image, Entrypoint: link(logDirectory, c.LogPath, c.Name, c.ID)}
	// Docker removes it, so that none stays when this program is killed meanwhile.
	host := &container.HostConfig{Binds: []string{"/var/lib:/var/lib"}, Privileged: true, NetworkMode: "none", AutoRemove: true}
	r, err := e.Docker.ContainerCreate(ctx, config, host, nil, nil, name)
	if err != nil {
		return fmt.Errorf("link the log of %s: create %s: %w", c.Name, name, err)
	}
	if err := e.runToEnd(ctx, r.ID); err != nil {
		return fmt.Errorf("link the log of %s: %w", c.Name, errors.Join(err, e.remove(ctx, r.ID)))
	}
	return nil
}

// runToEnd starts a container that Docker removes when it has ended, and waits until it is gone.
func (e *Engine) runToEnd(ctx context.Context, id string) error {
	ended, failed := e.Docker.ContainerWait(ctx, id, container.WaitConditionRemoved)
	if err := e.start(ctx, id); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("wait for its end: %w", err)
	case r := <-ended:
		if r.StatusCode != 0 {
			return fmt.Errorf("it ended with code %d", r.StatusCode)
		}
		return nil
	}
}

func (e *Engine) removeNamed(ctx context.Context, name string) error {
	r, err := e.Docker.ContainerInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", name, err)
	}
	return e.remove(ctx, r.ID)
}
