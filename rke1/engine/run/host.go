// The hosts of a run.

package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// Host is a host that answered.
type Host struct {
	*onhost.Host
	Node  config.Node
	Facts desired.Facts
	// Prefix stands before the paths on the host.
	Prefix string
	// Schedules says that the run has made the container that takes snapshots again and again.
	Schedules bool
	// Leaves says that the host is not in the config any more.
	Leaves bool
	// Desired is what should be on the host, Found what was there when the run began.
	Desired desired.Host
	Found   diff.Found
	// Written is when the files below /etc/kubernetes were written, by path.
	Written map[string]onhost.File
}

// Close ends the connections to all hosts.
func (r *Run) Close() {
	for _, h := range r.Hosts {
		h.Close()
	}
}

// Calls is how many calls of Docker's API the run has made.
func (r *Run) Calls() (all int64) {
	for _, h := range r.Hosts {
		all += h.Calls()
	}
	return all
}

// Why is the reason that a host was not opened, without its name. It returns the error itself where it does not name a host.
func Why(err error) error {
	if away, ok := errors.AsType[*onhost.UnreachableError](err); ok {
		return away.Err
	}
	return err
}

// Values are those of a map, in the order of its keys.
func Values(m map[string]error) []error {
	var all []error
	for _, key := range SortedKeys(m) {
		all = append(all, m[key])
	}
	return all
}

// SortedKeys are the keys of a map.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Names are the addresses of hosts, for sentences.
func Names(hosts []*Host) string {
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = h.Node.Address
	}
	return strings.Join(all, ", ")
}

// TakenError is that a host has containers which are not the cluster's and have the names of its containers.
type TakenError struct{ Containers []string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("containers that are not of this cluster have names that it needs; remove or rename them (docker rename): %v", e.Containers)
}

// Directory is the host's /etc/kubernetes.
func Directory(r *Run, h *Host) onhost.Directory {
	where := path.Join(h.Prefix, KubernetesDir)
	return onhost.Directory{OnHost: where, Path: where, Image: r.Work.Config.SystemImages.Alpine, Auth: r.Plan.Login(r.Work.Config.SystemImages.Alpine)}
}

// RemoveFiles takes files away that the config has no more. The error names the files.
func RemoveFiles(ctx context.Context, r *Run, h *Host, names []string) error {
	if len(names) == 0 {
		return nil
	}
	dir := Directory(r, h)
	_, err := h.Run(ctx, onhost.Once{Process: nodeconfig.Process{
		Name: "file-deployer", Image: dir.Image, ImageRegistryAuthConfig: dir.Auth, NetworkMode: "none", Binds: []string{dir.OnHost + ":" + dir.Path},
		Command: append([]string{"rm", "-f", "--"}, names...),
	}})
	if err != nil {
		return fmt.Errorf("remove files %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}
