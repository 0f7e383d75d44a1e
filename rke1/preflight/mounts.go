// What a kubelet does to the mounts of its host.

package preflight

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// Settings says what the config would do to hosts: refused where it breaks them, warned of where it may.
func (c Check) Settings() error {
	for _, h := range c.Hosts {
		if err := c.rootDir(h); err != nil {
			return err
		}
		shared := unmounted(h)
		if len(shared) == 0 {
			continue
		}
		err := &UnmountError{Host: h.Node.Address, Binds: shared}
		if h.New {
			return err
		}
		c.Warn(err.Error())
	}
	return nil
}

// RootDirError is that a kubelet would look for its pods' volumes in another directory than the one where they are mounted.
type RootDirError struct{ Host, Was, Will string }

func (e *RootDirError) Error() string {
	return fmt.Sprintf("the kubelet of host %s has its pods in %s and would have them in %s (prefix_path, or another operating system): their volumes would stay mounted in the old one. "+
		"Keep it by services.kubelet.extra_args: {root-dir: %s}, or let the hosts be drained by upgrade_strategy: {drain: true}", e.Host, e.Was, e.Will, e.Was)
}

func (c Check) rootDir(h *Host) error {
	is, will := h.has(desired.Kubelet), h.wants(desired.Kubelet)
	if is == nil || will == nil || is.Labels[nodeconfig.Label] != desired.Kubelet {
		return nil
	}
	if s := c.Config.UpgradeStrategy; s != nil && s.Drain != nil && *s.Drain {
		return nil
	}
	was, set := flag(append(slices.Clone(is.Entrypoint), is.Cmd...), "root-dir")
	now, sets := flag(append(slices.Clone(will.Command), will.Args...), "root-dir")
	if !set || !sets || path.Clean(was) == path.Clean(now) {
		return nil
	}
	return &RootDirError{Host: h.Node.Address, Was: was, Will: now}
}

// UnmountError is that mounts of a host would go when its kubelet starts.
type UnmountError struct {
	Host  string
	Binds []string
}

func (e *UnmountError) Error() string {
	return fmt.Sprintf("host %s: the kubelet's container unmounts what is below Docker's root directory, /run and /var/run when it starts, and with %s that reaches the host: "+
		"volumes there would be lost to their pods. Leave :shared out of services.kubelet.extra_binds, or keep prefix_path apart from Docker's root directory",
		e.Host, strings.Join(e.Binds, ", "))
}

// unmounted are the shared binds of a kubelet in which the start script of the helper image unmounts. Source:
// rancher/rke-tools entrypoint.sh, which unmounts inside the container alone; what is shared leaves it.
func unmounted(h *Host) []string {
	k := h.wants(desired.Kubelet)
	if k == nil {
		return nil
	}
	below := []string{"/run", "/var/run", h.Info.DockerRootDir}
	var shared []string
	for _, bind := range k.Binds {
		_, target, options := split(bind)
		if !slices.Contains(options, "shared") && !slices.Contains(options, "rshared") {
			continue
		}
		if slices.ContainsFunc(below, func(dir string) bool { return dir != "" && isBelow(target, dir) }) {
			shared = append(shared, bind)
		}
	}
	return shared
}

// split takes a bind apart: source, target and options.
func split(bind string) (source, target string, options []string) {
	parts := strings.SplitN(bind, ":", 3)
	source = parts[0]
	if len(parts) > 1 {
		target = parts[1]
	}
	if len(parts) > 2 {
		options = strings.Split(parts[2], ",")
	}
	return source, target, options
}

// isBelow says that a path is a directory or below it.
func isBelow(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// MountError is that a host cannot have the mounts of a kubelet.
type MountError struct {
	Host string
	// Cause is Docker's answer.
	Cause error
}

func (e *MountError) Error() string {
	return fmt.Sprintf("a kubelet cannot run on host %s, because its mounts cannot be shared with it (`mount --make-rshared /` there, and MountFlags= of Docker's unit neither slave nor private): %v",
		e.Host, e.Cause)
}

func (e *MountError) Unwrap() error { return e.Cause }

// mounts starts a container with the binds that a kubelet shares with its host: Docker refuses it where the kubelet would be refused
// later, when half of the cluster is there.
func (c Check) mounts(ctx context.Context, h *Host) error {
	k := h.wants(desired.Kubelet)
	if is := h.has(desired.Kubelet); k == nil || is != nil && is.Running {
		return nil
	}
	p := c.shell(desired.MountChecker, "exit 0")
	p.NetworkMode, p.Privileged = "none", true
	for _, bind := range k.Binds {
		_, _, options := split(bind)
		if slices.ContainsFunc(options, func(o string) bool { return strings.HasSuffix(o, "shared") || strings.HasSuffix(o, "slave") }) {
			p.Binds = append(p.Binds, bind)
		}
	}
	if _, err := h.Run(ctx, onhost.Once{Process: p}); err != nil {
		return &MountError{Host: h.Node.Address, Cause: err}
	}
	return nil
}
