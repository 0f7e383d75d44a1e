// Package host starts test hosts: containers that run a real systemd as PID 1, with a journal on the disk, reboots, an
// address of their own and an identity (machine id, boot id) of their own, as the machines drover looks after have.
package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
)

const (
	// bootTimeout is for a boot that never ends; an idle machine needs a second.
	bootTimeout = 5 * time.Minute
	// shutdownTimeout is how long an orderly shutdown may take before the power is cut.
	shutdownTimeout = 3 * time.Minute
	bootPoll        = 100 * time.Millisecond
)

// Options say what a host is like.
type Options struct {
	// Name is the host's name, unique in the run. Required.
	Name string
	// Image is the image of the host. Default: the one Image builds.
	Image string
	// Memory limits the host's memory, in Docker's notation ("2g"). Default: no limit.
	Memory string
	// Env are variables, as KEY=value, of everything Run and Sh start on the host. Units do not see them.
	Env []string
	// Mounts are directories or files of this machine, as SOURCE:TARGET or SOURCE:TARGET:ro.
	Mounts []string
	// Volumes are directories of the host on a file system other than the overlay its root is on, as container engines
	// on the host need for their data. They keep what is in them over reboots and go with the host.
	Volumes []string
	// Kubernetes makes volumes of the directories in which k3s and its kubelet keep containers, pods and their logs.
	Kubernetes bool
	// DockerSettings are laid over those with which StartWithDocker configures the engine; nil removes one. The engine has
	// no network of its own and changes no packet filter, unless "bridge", "iptables", "ip6tables" and "ip-forward" are
	// removed.
	DockerSettings map[string]any
	// DNS is the address of the name service that the host asks. Default: the engine's.
	DNS string
}

// Host is a running, or stopped, test host.
type Host struct {
	engine    *engine.Engine
	name      string
	container string
	env       []string
	ip        netip.Addr
}

// Start makes a host and returns when its systemd is up. On an error nothing stays behind.
func Start(ctx context.Context, e *engine.Engine, o Options) (*Host, error) {
	if o.Name == "" {
		return nil, errors.New("start a host: it has no name")
	}
	if o.Image == "" {
		image, err := Image(ctx, e)
		if err != nil {
			return nil, err
		}
		o.Image = image
	}
	ip, err := e.NextIP()
	if err != nil {
		return nil, fmt.Errorf("start host %s: %w", o.Name, err)
	}
	h := &Host{engine: e, name: o.Name, container: "drover-" + e.RunID() + "-" + o.Name, env: o.Env, ip: ip}
	begin := time.Now()
	if _, err := e.Docker(ctx, createArgs(e, h, o)...); err != nil {
		return nil, fmt.Errorf("make host %s: %w", o.Name, err)
	}
	if err := h.Boot(ctx); err != nil {
		return nil, errors.Join(err, h.Remove(context.WithoutCancel(ctx)))
	}
	e.Log.Info("started a host", "host", h.name, "ip", h.ip, "took", time.Since(begin))
	return h, nil
}

func createArgs(e *engine.Engine, h *Host, o Options) []string {
	args := []string{
		"create", "--name", h.container, "--hostname", h.name, "--label", e.RunLabel(),
		// systemd mounts, sets limits and owns its cgroup tree; with a cgroup namespace it does so on v1 and on v2.
		"--privileged", "--cgroupns", "private",
		"--network", e.Network(), "--ip", h.ip.String(), "--network-alias", h.name,
		"--tmpfs", "/run:mode=755", "--tmpfs", "/run/lock",
		"--stop-signal", "SIGRTMIN+3", // systemd's order to halt
		"--tty", // gives systemd the console that Console reads
	}
	if o.DNS != "" {
		args = append(args, "--dns", o.DNS)
	}
	if o.Memory != "" {
		args = append(args, "--memory", o.Memory)
	}
	for _, mount := range o.Mounts {
		args = append(args, "--volume", mount)
	}
	if o.Kubernetes {
		o.Volumes = append(slices.Clone(o.Volumes), "/var/lib/rancher", "/var/lib/kubelet", "/var/lib/cni", "/var/log")
	}
	for _, volume := range o.Volumes {
		args = append(args, "--volume", volume)
	}
	return append(args, o.Image)
}

// Boot starts a stopped host with the disk it has and returns when its systemd is up. That some units failed does not
// matter here.
func (h *Host) Boot(ctx context.Context) error {
	if _, err := h.engine.Docker(ctx, "start", h.container); err != nil {
		return fmt.Errorf("boot host %s: %w", h.name, err)
	}
	return h.waitUp(ctx)
}

// waitUp waits until systemd has finished what it starts at boot.
func (h *Host) waitUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	for {
		// Before its socket exists, systemctl fails at once; afterwards it waits, and fails in another way if units did.
		state, err := h.engine.Docker(ctx, "exec", h.container, "sh", "-c", "systemctl is-system-running --wait || true")
		if err == nil && (state == "running" || state == "degraded") {
			return nil
		}
		select {
		case <-ctx.Done():
			console := h.Console(context.WithoutCancel(ctx))
			return fmt.Errorf("wait for the systemd of host %s, which is %q: %w; the end of its console:\n%s",
				h.name, state, errors.Join(ctx.Err(), err), tail(console))
		case <-time.After(bootPoll):
		}
	}
}

// Reboot shuts the host down in order, boots it again with the same disk and address, and returns when it is up.
func (h *Host) Reboot(ctx context.Context) error {
	if _, err := h.engine.Docker(ctx, "stop", "-t", strconv.Itoa(int(shutdownTimeout.Seconds())), h.container); err != nil {
		return fmt.Errorf("shut host %s down: %w", h.name, err)
	}
	return h.Boot(ctx)
}

// Kill cuts the host's power. Boot starts it again.
func (h *Host) Kill(ctx context.Context) error {
	if _, err := h.engine.Docker(ctx, "kill", h.container); err != nil {
		return fmt.Errorf("cut the power of host %s: %w", h.name, err)
	}
	return nil
}

// Remove takes the host away, with its disk. A host that is gone already is not an error.
func (h *Host) Remove(ctx context.Context) error {
	id, err := h.engine.Docker(ctx, "container", "ls", "--all", "--quiet", "--filter", "name=^/"+h.container+"$")
	if err == nil && id != "" {
		_, err = h.engine.Docker(ctx, "container", "rm", "--force", "--volumes", id)
	}
	if err != nil {
		return fmt.Errorf("remove host %s: %w", h.name, err)
	}
	return nil
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// IP is the host's address, which this machine and the other hosts of the run reach. It stays the same over reboots.
func (h *Host) IP() string { return h.ip.String() }

// Gateway is the address at which the host reaches servers of this machine that listen on it.
func (h *Host) Gateway() string { return h.engine.Gateway().String() }

// Console returns what the host wrote on its console in all its boots, or why that cannot be read.
func (h *Host) Console(ctx context.Context) string {
	output, err := h.engine.Docker(ctx, "logs", h.container)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(output, "\r\n", "\n")
}

// Memory is the memory the host's processes have now, in bytes; what they share with others is counted in parts.
func (h *Host) Memory(ctx context.Context) (int64, error) {
	const sum = `cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '$1 == "Pss:" { kib += $2 } END { print kib * 1024 }'`
	output, err := h.Sh(ctx, sum)
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(output), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse the memory use of host %s: %w", h.name, err)
	}
	return bytes, nil
}
