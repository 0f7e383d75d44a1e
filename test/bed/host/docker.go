package host

// Hosts with a Docker engine of their own: Debian's, as its package sets it up, with what a container needs changed.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
)

const (
	// dockerPackage has dockerd, its containerd and runc, and the docker command.
	dockerPackage = "docker.io"
	// dockerStart is for an engine that never answers after the host is up.
	dockerStart = 5 * time.Minute
	dockerPoll  = 200 * time.Millisecond
	// runtimePath is where a host has the runtime that does without what this machine withholds.
	runtimePath = "/usr/local/sbin/runc-dropcap"
)

// StartWithDocker is Start for a host with a Docker engine of its own. It returns when the engine answers.
func StartWithDocker(ctx context.Context, e *engine.Engine, o Options) (*Host, error) {
	var err error
	if o.Image == "" {
		if o.Image, err = Image(ctx, e, dockerPackage); err != nil {
			return nil, err
		}
	}
	runtime, err := e.Runtime(ctx)
	if err != nil {
		return nil, err
	}
	config, err := dockerConfig(e.CacheDir(), o.DockerSettings, runtime != "")
	if err != nil {
		return nil, err
	}
	o.Mounts = append(o.Mounts, config+":/etc/docker/daemon.json:ro")
	if runtime != "" {
		o.Mounts = append(o.Mounts, runtime+":"+runtimePath+":ro")
	}
	// An overlay does not lie on another one.
	o.Volumes = append(o.Volumes, "/var/lib/docker", "/var/lib/containerd")
	h, err := Start(ctx, e, o)
	if err != nil {
		return nil, err
	}
	return h, h.awaitDocker(ctx)
}

// dockerConfig writes the engine's configuration for hosts of this machine and returns its path. Equal configurations are
// one file, which hosts of several runs have mounted.
func dockerConfig(dir string, settings map[string]any, withoutCapability bool) (string, error) {
	config := map[string]any{"bridge": "none", "iptables": false, "ip6tables": false, "ip-forward": false}
	if withoutCapability {
		config["runtimes"] = map[string]any{"dropcap": map[string]string{"path": runtimePath}}
		config["default-runtime"] = "dropcap"
	}
	for name, value := range settings {
		config[name] = value
		if value == nil {
			delete(config, name)
		}
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode the configuration of a host's Docker: %w", err)
	}
	name := "host-docker.json"
	if len(settings) > 0 {
		sum := sha256.Sum256(data)
		name = fmt.Sprintf("host-docker-%x.json", sum[:6])
	}
	path := filepath.Join(dir, name)
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
		return path, nil // hosts of other runs may have it mounted
	}
	if err := replace(path, data); err != nil {
		return "", fmt.Errorf("write the configuration of a host's Docker: %w", err)
	}
	return path, nil
}

// replace writes a file that all may read, by way of a new file, for other hosts may do so at this moment.
func replace(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), path)
}

func (h *Host) awaitDocker(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dockerStart)
	defer cancel()
	for {
		_, err := h.Docker(ctx, "version", "--format", "{{.Server.Version}}")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			journal, _ := h.Journal(context.WithoutCancel(ctx), "docker") // the error above it is what counts
			return fmt.Errorf("wait for Docker on host %s: %w; the end of its journal:\n%s", h.name, err, tail(journal))
		case <-time.After(dockerPoll):
		}
	}
}

// DialDocker connects to the socket of the host's Docker, past the host's network and everything that runs on it. Only a
// process on the machine of the host's container can, as root.
func (h *Host) DialDocker(ctx context.Context) (net.Conn, error) {
	pid, err := h.engine.Docker(ctx, "inspect", "--format", "{{.State.Pid}}", h.container)
	if err != nil {
		return nil, fmt.Errorf("find host %s: %w", h.name, err)
	}
	// The way through the host's first process leads into its file system.
	connection, err := new(net.Dialer).DialContext(ctx, "unix", "/proc/"+pid+"/root/run/docker.sock")
	if err != nil {
		return nil, fmt.Errorf("connect to Docker on host %s: %w", h.name, err)
	}
	return connection, nil
}

// Docker runs the docker command on the host and returns its output without the white space around it.
func (h *Host) Docker(ctx context.Context, args ...string) (string, error) {
	out, err := h.Run(ctx, nil, append([]string{"docker"}, args...)...)
	return strings.TrimSpace(out), err
}

// LoadImage gives the host's Docker the images of an archive of this machine.
func (h *Host) LoadImage(ctx context.Context, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("load an image on host %s: %w", h.name, err)
	}
	defer file.Close()
	if _, err := h.Run(ctx, file, "docker", "load"); err != nil {
		return fmt.Errorf("load %s: %w", archive, err)
	}
	return nil
}
