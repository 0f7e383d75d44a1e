// Package adopt finds the state of a running RKE1 cluster on its own hosts, for people who have nothing else of it: no cluster.rkestate,
// no kubeconfig and perhaps no whole cluster.yml. Nothing is changed on the hosts. Containers are made there to look with, as every
// dry run does, and are gone afterwards.
//
// Wire source: rancher/rke v1.6 cluster/state.go and services/etcd.go (Secret, file names), rancher/rke-tools etcd-backup (archives).
package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/state"
)

// parallel is how many hosts are looked at together.
const parallel = 20

// Options are the surroundings. All are required.
type Options struct {
	// Dial is the way to a host.
	Dial   func(config.Node) dial.Dialer
	Now    func() time.Time
	Logger *slog.Logger
}

// Found is the state of a running cluster.
type Found struct {
	State *state.State
	// Text is the state as it was found.
	Text []byte
	// Notes say where it was found, and what is remarkable or could not be known, a sentence each.
	Notes []string
}

// MissingError is that the hosts do not have the state of a cluster.
type MissingError struct {
	// Reasons say what was looked for and what became of it, a clause each.
	Reasons []string
}

func (e *MissingError) Error() string {
	return "the hosts do not have the state of the cluster: " + strings.Join(e.Reasons, "; ") +
		". It cannot be made of what runs there: what is needed is a cluster.rkestate, a kubeconfig by which the cluster answers, or the archive of a snapshot with the state in it"
}

// host is a host that answered.
type host struct {
	*onhost.Host
	// dir is its /etc/kubernetes, below the prefix that its containers were made with; "" without such a container.
	dir string
	// tools is the image of rke-tools that it has; "" for none.
	tools string
	// files are those below dir, by path.
	files map[string]onhost.File
}

// Read finds the state of the cluster that runs on hosts, of which no more than the way to them has to be known. What the cluster keeps itself is
// the best: it is asked for by the controller manager's certificate, which lies on each host of the control plane. Else the newest is
// taken of the files in /etc/kubernetes and the archives of snapshots. A state with another CA than that of the hosts is not taken.
// The error is a *MissingError when there is none.
func Read(ctx context.Context, o Options, nodes []config.Node) (*Found, error) {
	hosts, away, err := open(ctx, o, nodes)
	defer func() {
		for _, h := range hosts {
			h.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	found, reasons := choose(askCluster(ctx, hosts), hosts)
	if found == nil {
		kept, failed, err := search(ctx, hosts)
		if err != nil {
			return nil, err
		}
		next, more := choose(kept, hosts)
		found, reasons = next, slices.Concat(reasons, failed, more)
	}
	if found == nil {
		for _, address := range slices.Sorted(maps.Keys(away)) {
			reasons = append(reasons, fmt.Sprintf("host %s was not looked at: %v", address, away[address]))
		}
		return nil, &MissingError{Reasons: reasons}
	}
	found.Notes = append(found.Notes, reasons...)
	found.Notes = append(found.Notes, remarks(found.State, nodes, hosts, away)...)
	return found, nil
}

// open looks at all hosts. Of those that do not answer the reasons are returned by address; the error is that none does.
func open(ctx context.Context, o Options, nodes []config.Node) ([]*host, map[string]error, error) {
	all, away := make([]*host, len(nodes)), map[string]error{}
	var mu sync.Mutex
	indexes := make([]int, len(nodes))
	for i := range indexes {
		indexes[i] = i
	}
	failed := onhost.Each(ctx, indexes, parallel, func(ctx context.Context, i int) error {
		h, err := readHost(ctx, o, nodes[i])
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			away[nodes[i].Address] = err
			if unreachable, ok := errors.AsType[*onhost.UnreachableError](err); ok {
				away[nodes[i].Address] = unreachable.Err
			}
			return err
		}
		all[i] = h
		return nil
	})
	hosts := slices.DeleteFunc(all, func(h *host) bool { return h == nil })
	if ctx.Err() != nil {
		return hosts, nil, context.Cause(ctx)
	}
	if len(hosts) == 0 {
		return nil, nil, fmt.Errorf("none of the %d hosts can be looked at: %w", len(nodes), failed)
	}
	return hosts, away, nil
}

// readHost finds out what a host has of a cluster.
func readHost(ctx context.Context, o Options, n config.Node) (*host, error) {
	opened, err := onhost.Open(ctx, n.Address, n.DockerSocket, o.Dial(n), o.Now, o.Logger)
	if err != nil {
		return nil, err
	}
	h := &host{Host: opened}
	if err := h.read(ctx); err != nil {
		opened.Close()
		return nil, err
	}
	return h, nil
}

func (h *host) read(ctx context.Context) error {
	processes := map[string]nodeconfig.Process{}
	for _, name := range desired.Names() {
		processes[name] = nodeconfig.Process{Name: name}
	}
	containers, err := h.Engine().Look(ctx, &nodeconfig.NodeConfig{Processes: processes})
	if err != nil {
		return fmt.Errorf("look at host %s: %w", h.Address, err)
	}
	for _, c := range containers {
		if c.Name == desired.Sidekick {
			h.tools = c.Image
		}
		for _, bind := range c.Binds {
			if from, _, _ := strings.Cut(bind, ":"); strings.HasSuffix(from, kubernetesDir) && slices.Contains(desired.Names(), c.Name) {
				h.dir = from
			}
		}
	}
	if h.dir == "" || h.tools == "" {
		return nil
	}
	h.files, err = h.Read(ctx, onhost.Directory{OnHost: h.dir, Path: h.dir, Image: h.tools})
	return err
}
