// Looking at a host, and removing what was found.

package cleaner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// Host is a host, with an image that is there or can be pulled: that of Kubernetes, which has ip and iptables. With another one the
// network stays as it is, and the warning says so.
type Host struct {
	*onhost.Host
	Image, Auth string
}

const (
	// rules are the words by which lines of iptables-save are the cluster's.
	rules = `KUBE-|cali[-:]|CNI-|FLANNEL-|flanneld|WEAVE`
	// foundFile is where the probe writes, in its own container.
	foundFile = "/drover-found"
	// maxFound bounds that, in bytes: some thousand mounts.
	maxFound = 4 << 20
)

// tables are the variants of iptables of the image: those that name their kind where there are any.
const tables = `tables() {
	for one in iptables-legacy ip6tables-legacy iptables-nft ip6tables-nft; do command -v "$one-save"; done | sed 's/-save$//' | grep . && return
	for one in iptables ip6tables; do command -v "$one-save"; done | sed 's/-save$//'
}
`

// probe writes what Plan.read reads. Its arguments are the file to write to, the words of rules, and the directories.
const probe = tables + `out=$1 rules=$2
shift 2
{
	sed 's/^/mount /' /proc/1/mountinfo
	for link in /sys/class/net/*; do echo "link ${link##*/}"; done
	for table in $(tables); do echo "rules $("$table-save" 2>/dev/null | grep -cE "$rules")"; done
	for dir; do if [ -n "$(ls -A "/proc/1/root$dir" 2>/dev/null)" ]; then echo "directory $dir"; fi; done
	echo end
} >"$out"`

// unmount leaves what is busy, and says so: a lazy unmount takes it out of sight, so that nothing is removed through it.
const unmount = `for at; do nsenter -t 1 -m -- umount "$at" 2>/dev/null || nsenter -t 1 -m -- umount -l "$at" || echo "$at"; done`

// network removes devices, its arguments behind the first, and rules. A device of the kernel's own only loses its addresses.
const network = tables + `rules=$1
shift
for link; do
	ip link delete "$link" 2>/dev/null || { ip address flush dev "$link" && ip link set "$link" down; }
done
for table in $(tables); do
	if "$table-save" 2>/dev/null | grep -qE "$rules"; then
		"$table-save" -c | grep -vE "$rules" | "$table-restore" -c
	fi
done
exit 0`

// empty removes what is in directories, which stay. The find of some images does not know -delete.
const empty = `for dir; do rm -rf -- "$dir"/* "$dir"/.[!.]* "$dir"/..?*; done`

func (h Host) script(text string, args ...string) onhost.Once {
	return onhost.Once{Process: nodeconfig.Process{
		Name: desired.Cleaner, Image: h.Image, ImageRegistryAuthConfig: h.Auth, NetworkMode: "host", PidMode: "host", Privileged: true, RestartPolicy: "no",
		Command: append([]string{"sh", "-c", text, "clean"}, args...),
	}}
}

// Look finds what a host has, and changes nothing. The error names the host, and says why it could not be asked or that its answer cannot be read.
func (h Host) Look(ctx context.Context, p Plan) (Found, error) {
	text, err := h.Fetch(ctx, h.script(probe, append([]string{foundFile, rules}, p.Directories()...)...), foundFile, maxFound)
	if err != nil {
		return Found{}, fmt.Errorf("look what host %s has of the cluster: %w", h.Address, err)
	}
	f, err := p.read(string(text))
	if err != nil {
		return Found{}, fmt.Errorf("look what host %s has of the cluster: %w", h.Address, err)
	}
	f.Pods, err = h.pods(ctx)
	return f, err
}

// DiscardAll removes those of containers of some names that the host has, in the order of the names. The error names the host.
func (h Host) DiscardAll(ctx context.Context, names []string) error {
	all, err := h.containers(ctx)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, c := range all {
		for _, name := range c.Names {
			has[strings.TrimPrefix(name, "/")] = true
		}
	}
	for _, name := range names {
		if !has[name] {
			continue
		}
		if err := h.Discard(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (h Host) containers(ctx context.Context) ([]container.Summary, error) {
	all, err := h.Docker.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("list the containers of host %s: %w", h.Address, err)
	}
	return all, nil
}

// pods are the containers of pods, but for agents of a server, over which this may be done.
func (h Host) pods(ctx context.Context) ([]string, error) {
	all, err := h.containers(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range all {
		if c.Labels["io.kubernetes.pod.uid"] != "" && c.Labels["io.cattle.agent"] != "true" {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

// LeftError is that something could not be taken off a host.
type LeftError struct {
	Host string
	// Mounts are mount points that are still there, so that the directories that they are in were not emptied.
	Mounts []string
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("host %s is not clean: %s cannot be unmounted, and nothing was removed through a mount; see who uses it (fuser -vm), and run this again",
		e.Host, strings.Join(e.Mounts, ", "))
}

// Clean removes what is on a host of a cluster whose own containers are gone. What stays and breaks nothing is returned, as sentences. It returns a
// *LeftError where something stays mounted, and the errors of the host.
func (h Host) Clean(ctx context.Context, p Plan) (stays []string, err error) {
	f, err := h.Look(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, id := range f.Pods {
		if err := h.Discard(ctx, id); err != nil {
			return nil, err
		}
	}
	if len(f.Mounts) > 0 {
		if _, err := h.Run(ctx, h.script(unmount, f.Mounts...)); err != nil {
			return nil, fmt.Errorf("unmount what host %s has of the cluster: %w", h.Address, err)
		}
	}
	if len(f.Links)+f.Rules > 0 {
		if _, err := h.Run(ctx, h.script(network, append([]string{rules}, f.Links...)...)); err != nil {
			stays = append(stays, fmt.Sprintf("host %s keeps network devices or rules of the cluster until it is restarted: %v", h.Address, err))
		}
	}
	// Pods that went may have taken mounts along, and others may have stayed.
	now, err := h.Look(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(now.Mounts) > 0 {
		return nil, &LeftError{Host: h.Address, Mounts: now.Mounts}
	}
	for _, link := range now.Links {
		if link != "tunl0" {
			stays = append(stays, fmt.Sprintf("host %s keeps the network device %s until it is restarted", h.Address, link))
		}
	}
	if now.Rules > 0 {
		stays = append(stays, fmt.Sprintf("host %s keeps %d rules of iptables until it is restarted", h.Address, now.Rules))
	}
	var dirs []string
	for _, dir := range now.Directories {
		if at := now.Kept[dir]; at != "" {
			stays = append(stays, fmt.Sprintf("host %s keeps %s, because something is mounted on %s", h.Address, dir, at))
		} else {
			dirs = append(dirs, dir)
		}
	}
	return stays, h.Empty(ctx, dirs)
}

// Empty removes what is in directories of a host, in which nothing may be mounted. The error names host and directories.
func (h Host) Empty(ctx context.Context, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	once := h.script(empty, dirs...)
	once.Process.NetworkMode, once.Process.PidMode = "none", ""
	for _, dir := range dirs {
		once.Process.Binds = append(once.Process.Binds, dir+":"+dir)
	}
	if _, err := h.Run(ctx, once); err != nil {
		return fmt.Errorf("empty %s on host %s: %w", strings.Join(dirs, ", "), h.Address, err)
	}
	return nil
}

// ImageOf is the first of some images that is on a host; "" when none is. The error says that the host's Docker does not answer.
func ImageOf(ctx context.Context, h *onhost.Host, images ...string) (string, error) {
	for _, image := range slices.Compact(images) {
		base, err := h.Engine().Image(ctx, image)
		if err != nil {
			return "", errors.Join(fmt.Errorf("look at the images of host %s", h.Address), err)
		}
		if base != nil {
			return image, nil
		}
	}
	return "", nil
}
