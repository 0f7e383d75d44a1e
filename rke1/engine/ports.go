// Ports: whether those that the cluster's components will listen on are free on new hosts,
// and whether hosts reach each other there.

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/wanted"
)

// portsOf are the ports of each role, with the container that listens there while they are checked.
var portsOf = []struct {
	role, listener string
	ports          []string
}{
	{config.RoleEtcd, wanted.EtcdPortListener, []string{"2379", "2380"}},
	{config.RoleControlPlane, wanted.ControlPortListener, []string{"6443"}},
	{config.RoleWorker, wanted.WorkerPortListener, []string{"10250"}},
}

// checkPorts looks at the ports of hosts that are new or have a new role.
func (r *run) checkPorts(ctx context.Context) error {
	if r.work.DisablePortCheck {
		return nil
	}
	fresh := slices.DeleteFunc(r.with(""), func(h *host) bool {
		was, there := find(r.deployed(), h.node.Address)
		return there && !slices.ContainsFunc(h.node.Role, func(role string) bool { return !was.Has(role) })
	})
	if len(fresh) == 0 {
		r.line("network", "No hosts added existing cluster, skipping port check")
		return nil
	}
	// Those that an interrupted run left would look like somebody else's.
	r.stopListening(ctx, fresh)
	if err := each(ctx, fresh, parallel, r.portsFree); err != nil {
		return err
	}
	r.line("network", "Deploying port listener containers")
	defer func() {
		r.line("network", "Removing port listener containers")
		r.stopListening(ctx, fresh)
	}()
	if err := each(ctx, fresh, parallel, r.listen); err != nil {
		return err
	}
	if err := each(ctx, r.with(""), parallel, func(ctx context.Context, h *host) error { return r.reaches(ctx, h, fresh) }); err != nil {
		return err
	}
	r.line("network", "Successfully checked the ports of all hosts")
	return nil
}

// PortTakenError is that something else listens on a port of the cluster.
type PortTakenError struct {
	Host string
	Port string
	// By are the lines of netstat about it, with the process.
	By []string
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %s of host %s is taken: %s; stop that, or give the cluster another host", e.Port, e.Host, strings.Join(e.By, "; "))
}

// portsFree looks whether something else listens on a port of the host's roles.
func (r *run) portsFree(ctx context.Context, h *host) error {
	for _, p := range portsOf {
		if !h.node.Has(p.role) || r.runs(h, p.role) {
			continue
		}
		for _, port := range p.ports {
			conn, err := h.OpenTCP(ctx, net.JoinHostPort("localhost", port))
			if err != nil {
				continue
			}
			conn.Close()
			return &PortTakenError{Host: h.node.Address, Port: port, By: r.whoListens(ctx, h, port)}
		}
	}
	return nil
}

// whoListens names the process at a port, as far as the host's own tools say it.
func (r *run) whoListens(ctx context.Context, h *host, port string) []string {
	once := r.shell(wanted.PortChecker, h, nil, `netstat -lntp 2>/dev/null | grep ":$1 " || ss -Hlntp "sport = :$1"`, "who", port)
	once.Process.NetworkMode, once.Process.PidMode, once.Process.Privileged = "host", "host", true
	output, err := h.Run(ctx, once)
	if err != nil || len(output) == 0 {
		return []string{"by a process that the host does not name"}
	}
	return output
}

// listen opens the ports of a host's roles in containers.
func (r *run) listen(ctx context.Context, h *host) error {
	once, err := r.plan.Once(h.node.Address)
	if err != nil {
		return err
	}
	for _, p := range portsOf {
		if !h.node.Has(p.role) || r.runs(h, p.role) {
			continue
		}
		if err := h.Start(ctx, once.PortListener(p.role)); err != nil {
			return fmt.Errorf("check the ports of host %s: %w", h.node.Address, err)
		}
	}
	return nil
}

// runs says that a component of a role runs on the host already.
func (r *run) runs(h *host, role string) bool {
	return slices.ContainsFunc(h.found.Containers, func(c nodeconfig.Container) bool { return c.Running && planeTitle(h, c.Name) == role })
}

func (r *run) stopListening(ctx context.Context, hosts []*host) {
	err := each(context.WithoutCancel(ctx), hosts, parallel, func(ctx context.Context, h *host) error {
		var faults []error
		for _, p := range portsOf {
			faults = append(faults, h.Discard(ctx, p.listener))
		}
		return errors.Join(faults...)
	})
	if err != nil {
		r.Report.Warn(err.Error())
	}
}

// UnreachablePortsError is that a host does not reach ports of another.
type UnreachablePortsError struct {
	Host  string
	Ports []string
}

func (e *UnreachablePortsError) Error() string {
	return fmt.Sprintf("[network] Host [%s] is not able to connect to the following ports: [%s]. Please check network policies and firewall rules",
		e.Host, strings.Join(e.Ports, ", "))
}

// reaches connects from a host to the ports of new ones that it will need.
func (r *run) reaches(ctx context.Context, from *host, fresh []*host) error {
	var targets []string
	for _, to := range fresh {
		if to == from {
			continue
		}
		for _, port := range needed(from.node, to.node) {
			targets = append(targets, internal(to.node), port)
		}
	}
	if len(targets) == 0 {
		return nil
	}
	// By its path: shells of some builds of busybox have an nc of their own, without -z.
	script := `nc=$(which nc); while [ $# -gt 1 ]; do "$nc" -w 5 -z "$1" "$2" </dev/null >/dev/null 2>&1 || echo "$1:$2"; shift 2; done`
	var missing []string
	for range 3 {
		once := r.shell(wanted.PortChecker, from, nil, script, append([]string{"check"}, targets...)...)
		once.Process.NetworkMode = "host"
		output, err := from.Run(ctx, once)
		if err != nil {
			return err
		}
		if missing = output; len(missing) == 0 {
			return nil
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
	return &UnreachablePortsError{Host: from.node.Address, Ports: missing}
}

// needed are the ports of a host that another one connects to.
func needed(from, to config.Node) []string {
	var ports []string
	if from.Has(config.RoleEtcd) && to.Has(config.RoleEtcd) {
		ports = append(ports, "2379", "2380")
	} else if from.Has(config.RoleControlPlane) && to.Has(config.RoleEtcd) {
		ports = append(ports, "2379")
	}
	if to.Has(config.RoleControlPlane) && !from.Has(config.RoleControlPlane) {
		ports = append(ports, "6443")
	}
	if from.Has(config.RoleControlPlane) && to.Has(config.RoleWorker) {
		ports = append(ports, "10250")
	}
	return ports
}

// pullImages fetches what is not on the hosts yet, all at the same time, before anything stops.
func (r *run) pullImages(ctx context.Context) error {
	r.line("", "Pre-pulling kubernetes images")
	err := each(ctx, r.with(""), parallel, func(ctx context.Context, h *host) error {
		for _, image := range h.wanted.Images {
			if _, there := h.found.Images[image]; there {
				continue
			}
			base, err := h.Engine().Pull(ctx, image, r.plan.Login(image))
			if err != nil {
				return fmt.Errorf("host %s: %w", h.node.Address, err)
			}
			r.line("", "Pulled image [%s] on host [%s]", image, h.node.Address)
			h.found.Images[image] = *base
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.line("", "Kubernetes images pulled successfully")
	return nil
}
