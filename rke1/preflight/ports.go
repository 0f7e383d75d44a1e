// Ports: whether those that the cluster's components will listen on are free on new hosts, and whether hosts reach each
// other there.

package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/onhost"
)

// portsOf are the ports of each role, with the container that listens there while they are checked.
var portsOf = []struct {
	role, listener string
	ports          []string
}{
	{config.RoleEtcd, desired.EtcdPortListener, []string{"2379", "2380"}},
	{config.RoleControlPlane, desired.ControlPortListener, []string{"6443"}},
	{config.RoleWorker, desired.WorkerPortListener, []string{"10250"}},
}

func (c Check) ports(ctx context.Context, fresh []*Host) error {
	// Listeners that an interrupted run left would look foreign.
	c.stopListening(ctx, fresh)
	if err := onhost.Each(ctx, fresh, parallel, c.portsFree); err != nil {
		return err
	}
	c.Line("network", "Deploying port listener containers")
	defer func() {
		c.Line("network", "Removing port listener containers")
		c.stopListening(ctx, fresh)
	}()
	if err := onhost.Each(ctx, fresh, parallel, c.listen); err != nil {
		return err
	}
	if err := onhost.Each(ctx, c.Hosts, parallel, func(ctx context.Context, h *Host) error { return c.reaches(ctx, h, fresh) }); err != nil {
		return err
	}
	if err := c.datagrams(ctx, fresh); err != nil {
		return err
	}
	c.Line("network", "Successfully checked the ports of all hosts")
	return nil
}

// PortTakenError is that something else listens on a port of the cluster.
type PortTakenError struct {
	Host string
	// Port is 6443, or 8472/udp.
	Port string
	// By are the lines of netstat about it, with the process.
	By []string
	// Instead is a setting that gives the cluster another port; "" where none does.
	Instead string
}

func (e *PortTakenError) Error() string {
	text := fmt.Sprintf("port %s of host %s is taken: %s; stop that, or give the cluster another host", e.Port, e.Host, strings.Join(e.By, "; "))
	if e.Instead != "" {
		text += ", or set " + e.Instead
	}
	return text
}

// portsFree looks whether something else listens on a port of the host's roles.
func (c Check) portsFree(ctx context.Context, h *Host) error {
	for _, p := range portsOf {
		if !h.Node.Has(p.role) || h.runs(p.role) {
			continue
		}
		for _, port := range p.ports {
			if taken(ctx, h, net.JoinHostPort("localhost", port)) {
				return &PortTakenError{Host: h.Node.Address, Port: port, By: c.whoListens(ctx, h, port)}
			}
		}
	}
	if at := stream(h); at != "" && !h.runs(config.RoleWorker) && taken(ctx, h, at) {
		_, port, _ := net.SplitHostPort(at) // it was joined
		return &PortTakenError{Host: h.Node.Address, Port: port, By: c.whoListens(ctx, h, port), Instead: "cri_dockerd_stream_server_port in the config"}
	}
	return c.overlayFree(ctx, h)
}

func taken(ctx context.Context, h *Host, address string) bool {
	conn, err := h.OpenTCP(ctx, address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// stream is where cri-dockerd serves logs and terminals of pods, "" for a host without it. containerd, which Docker brings, may
// have been told to listen on the same port. Source of the default: rancher/rke-tools entrypoint.sh.
func stream(h *Host) string {
	k := h.wants(desired.Kubelet)
	if k == nil || !k.CRIDockerd() {
		return ""
	}
	return net.JoinHostPort(cmp.Or(variable(k.Env, "CRIDOCKERD_STREAM_SERVER_ADDRESS"), "127.0.0.1"), cmp.Or(variable(k.Env, "CRIDOCKERD_STREAM_SERVER_PORT"), "10010"))
}

// whoListens names the process at a port, as far as the host's own tools say it.
func (c Check) whoListens(ctx context.Context, h *Host, port string) []string {
	p := c.shell(desired.PortChecker, `netstat -lntp 2>/dev/null | grep ":$1 " || ss -Hlntp "sport = :$1"`, port)
	p.NetworkMode, p.PidMode, p.Privileged = "host", "host", true
	output, err := h.Run(ctx, onhost.Once{Process: p})
	if err != nil || len(output) == 0 {
		return []string{"by a process that the host does not name"}
	}
	return output
}

// listen opens the ports of a host's roles in containers.
func (c Check) listen(ctx context.Context, h *Host) error {
	once, err := c.Plan.Once(h.Node.Address)
	if err != nil {
		return err
	}
	for _, p := range portsOf {
		if !h.Node.Has(p.role) || h.runs(p.role) {
			continue
		}
		if err := h.Start(ctx, once.PortListener(p.role)); err != nil {
			return fmt.Errorf("check the ports of host %s: %w", h.Node.Address, err)
		}
	}
	return nil
}

func (c Check) stopListening(ctx context.Context, hosts []*Host) {
	err := onhost.Each(context.WithoutCancel(ctx), hosts, parallel, func(ctx context.Context, h *Host) error {
		faults := []error{h.Discard(ctx, desired.OverlayPortListener)}
		for _, p := range portsOf {
			faults = append(faults, h.Discard(ctx, p.listener))
		}
		return errors.Join(faults...)
	})
	if err != nil {
		c.Warn(err.Error())
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

// knock writes those of its arguments, pairs of host and port, that do not take a connection. nc is called by its path: shells of some
// builds of busybox have one of their own, without -z.
const knock = `nc=$(which nc); while [ $# -gt 1 ]; do "$nc" -w 5 -z "$1" "$2" </dev/null >/dev/null 2>&1 || echo "$1:$2"; shift 2; done`

// reaches connects from a host to the ports of new ones that it will need.
func (c Check) reaches(ctx context.Context, from *Host, fresh []*Host) error {
	var targets []string
	for _, to := range fresh {
		if to == from {
			continue
		}
		for _, port := range needed(from.Node, to.Node) {
			targets = append(targets, internal(to.Node), port)
		}
	}
	if len(targets) == 0 {
		return nil
	}
	var missing []string
	for range 3 {
		p := c.shell(desired.PortChecker, knock, targets...)
		p.NetworkMode = "host"
		output, err := from.Run(ctx, onhost.Once{Process: p})
		if err != nil {
			return err
		}
		if missing = output; len(missing) == 0 {
			return nil
		}
		if err := c.Pause(ctx); err != nil {
			return err
		}
	}
	return &UnreachablePortsError{Host: from.Node.Address, Ports: missing}
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

// internal is where the other hosts reach a host.
func internal(n config.Node) string { return cmp.Or(n.InternalAddress, n.Address) }
