// Reaching the hosts: each is asked who it is, all at the same time.

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/onhost"
)

// host is a host that answered.
type host struct {
	*onhost.Host
	node  config.Node
	facts desired.Facts
	// prefix stands before the paths on the host.
	prefix string
	// schedules says that the run has made the container that takes snapshots again and again.
	schedules bool
	// leaves says that the host is not in the config any more.
	leaves bool
	// wanted is what should be on the host, found what was there when the run began.
	desired desired.Host
	found   diff.Found
	// written is when the files below /etc/kubernetes were written, by path.
	written map[string]onhost.File
}

// UnsupportedDockerError is that a host's Docker is older than what a Kubernetes version was made for.
type UnsupportedDockerError struct{ Host, Docker, Kubernetes string }

func (e *UnsupportedDockerError) Error() string {
	return fmt.Sprintf("Unsupported Docker version found [%s] on host [%s] for Kubernetes %s: install another one there, "+
		"or set ignore_docker_version: true", e.Docker, e.Host, e.Kubernetes)
}

// reach opens every host of the config, and those that leave. What cannot be reached is warned of and left
// for the next run, as long as etcd has a host.
func (r *run) reach(ctx context.Context) error {
	if err := r.reachSome(ctx); err != nil {
		return err
	}
	r.warnDown()
	return nil
}

// warnDown names the hosts that could not be reached; where a run ends for them its error does.
func (r *run) warnDown() {
	for _, address := range sortedKeys(r.down) {
		r.Report.Warn(fmt.Sprintf("host [%s] cannot be reached: %v", address, why(r.down[address])))
	}
}

// reachSome is reach without a word about hosts that could not be reached.
func (r *run) reachSome(ctx context.Context) error {
	r.line("", "Building Kubernetes cluster")
	var all []*host
	for _, n := range r.work.Config.Nodes {
		all = append(all, &host{node: n})
	}
	for _, n := range r.deployed() {
		if _, stays := find(r.work.Config.Nodes, n.Address); !stays {
			all = append(all, &host{node: n, leaves: true})
		}
	}
	if err := each(ctx, all, parallel, r.open); err != nil {
		return err
	}
	if len(r.work.Config.Services.Etcd.ExternalURLs) == 0 && len(r.with(config.RoleEtcd)) == 0 {
		return fmt.Errorf("no etcd host can be reached, so that nothing was changed: %w", errors.Join(values(r.down)...))
	}
	if len(r.with(config.RoleControlPlane)) == 0 {
		return fmt.Errorf("no control plane host can be reached, so that nothing was changed: %w", errors.Join(values(r.down)...))
	}
	return nil
}

// open asks a host who it is. Its error is one for which the run has to end.
func (r *run) open(ctx context.Context, h *host) error {
	r.line("dialer", "Setup tunnel for host [%s]", h.node.Address)
	opened, err := onhost.Open(ctx, h.node.Address, h.node.DockerSocket, r.Dial(h.node), r.Now, r.Logger)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.down[h.node.Address] = err
		return nil
	}
	h.Host = opened
	r.hosts[h.node.Address] = h
	h.facts = desired.Facts{
		OSType: opened.Info.OSType, OperatingSystem: opened.Info.OperatingSystem, Architecture: opened.Info.Architecture,
		DockerRootDir: opened.Info.DockerRootDir, SecurityOptions: opened.Info.SecurityOptions, ServerVersion: opened.Info.ServerVersion,
	}
	h.prefix = desired.Prefix(r.work.Config, h.facts)
	if h.leaves {
		return nil
	}
	return r.checkDocker(h)
}

func (r *run) checkDocker(h *host) error {
	c := r.work.Config
	if r.work.IgnoreDockerVersion || c.IgnoreDockerVersion != nil && *c.IgnoreDockerVersion {
		return nil
	}
	supported, newer := r.Versions.DockerSupported(c.KubernetesVersion, h.facts.ServerVersion)
	switch {
	case supported:
	case newer:
		r.Report.Warn(fmt.Sprintf("host [%s] has Docker %s, which is newer than those that Kubernetes %s was tried with",
			h.node.Address, h.facts.ServerVersion, c.KubernetesVersion))
	default:
		return &UnsupportedDockerError{Host: h.node.Address, Docker: h.facts.ServerVersion, Kubernetes: c.KubernetesVersion}
	}
	return nil
}

// close ends the connections to all hosts.
func (r *run) close() {
	for _, h := range r.hosts {
		h.Close()
	}
}

// calls is how many calls of Docker's API the run has made.
func (r *run) calls() (all int64) {
	for _, h := range r.hosts {
		all += h.Calls()
	}
	return all
}

// why is the reason that a host was not opened, without its name.
func why(err error) error {
	if away, ok := errors.AsType[*onhost.UnreachableError](err); ok {
		return away.Err
	}
	return err
}

// values are those of a map, in the order of its keys.
func values(m map[string]error) []error {
	var all []error
	for _, key := range sortedKeys(m) {
		all = append(all, m[key])
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// names are the addresses of hosts, for sentences.
func names(hosts []*host) string {
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = h.node.Address
	}
	return strings.Join(all, ", ")
}
