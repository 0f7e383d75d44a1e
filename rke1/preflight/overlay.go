// The port of the network between pods, over which datagrams go: nothing says that one did not arrive, and a cluster with
// this port shut looks well until two pods on different hosts talk.

package preflight

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/onhost"
)

// overlay is the UDP port over which hosts carry their pods' packets, "" when the plugin needs none.
func overlay(n config.Network) string {
	kind, port := "", ""
	switch n.Plugin {
	case "canal":
		kind, port = n.Options["canal_flannel_backend_type"], n.Options["canal_flannel_backend_port"]
	case "flannel":
		kind, port = n.Options["flannel_backend_type"], n.Options["flannel_backend_port"]
	default:
		return ""
	}
	if kind != "" && kind != "vxlan" {
		return ""
	}
	if port == "" {
		return "8472"
	}
	return port
}

// bound says whether a UDP port is in use, given as its four hexadecimal digits: a process, or the kernel for a network device.
const bound = `awk -v port=":$1" 'substr($2, length($2) - 4) == port { print "taken"; exit }' /proc/net/udp /proc/net/udp6 2>/dev/null
netstat -lnup 2>/dev/null | grep ":$2 "
exit 0`

// hexadecimal is a port as /proc/net/udp has it.
func hexadecimal(port string) string {
	number, _ := strconv.ParseUint(port, 10, 16) // 0 for what is not a port, which is never in use
	return fmt.Sprintf("%04X", number)
}

// overlayFree looks whether the port is in use of the network between pods on a host.
func (c Check) overlayFree(ctx context.Context, h *Host) error {
	port := overlay(c.Config.Network)
	if port == "" || h.runs(config.RoleWorker) {
		return nil // none is needed, or the cluster itself has it
	}
	p := c.shell(desired.PortChecker, bound, hexadecimal(port), port)
	p.NetworkMode, p.PidMode, p.Privileged = "host", "host", true
	output, err := h.Run(ctx, onhost.Once{Process: p})
	if err != nil {
		return err
	}
	if len(output) == 0 {
		return nil
	}
	by := output[1:]
	if len(by) == 0 || strings.HasSuffix(strings.TrimSpace(by[0]), " -") {
		by = []string{"by a network device of the kernel, such as flannel.1 of another cluster (`ip -details link` names it, `ip link delete` removes it)"}
	}
	return &PortTakenError{Host: h.Node.Address, Port: port + "/udp", By: by, Instead: c.Config.Network.Plugin + "'s port in network.options"}
}

// echo answers each datagram with its first line. One answers one sender; the next is answered by the next.
const echo = `while :; do nc -u -l -p 1337 -e head -n 1 2>/dev/null || sleep 1; done`

// call writes those of its arguments, pairs of host and port, that do not answer a datagram in several tries; the argument
// before them is how long it waits between two tries, in seconds.
const call = `nc=$(which nc)
pause=$1
shift
while [ $# -gt 1 ]; do
	answer=
	for try in 1 2 3 4 5 6; do
		answer=$(echo drover | "$nc" -u -w 1 "$1" "$2" 2>/dev/null)
		[ "$answer" = drover ] && break
		sleep "$pause"
	done
	[ "$answer" = drover ] || echo "$1:$2/udp"
	shift 2
done`

// datagrams sends one from each host to the new ones. What does not arrive is warned of: datagrams may be lost, and the images of some have
// an nc that cannot send any.
func (c Check) datagrams(ctx context.Context, fresh []*Host) error {
	port := overlay(c.Config.Network)
	if port == "" || len(c.Hosts) < 2 {
		return nil
	}
	if err := onhost.Each(ctx, fresh, parallel, func(ctx context.Context, h *Host) error {
		if h.runs(config.RoleWorker) {
			return nil
		}
		p := c.shell(desired.OverlayPortListener, echo)
		p.Publish = []string{"0.0.0.0:" + port + ":1337/udp"}
		if err := h.Start(ctx, p); err != nil {
			return fmt.Errorf("check the ports of host %s: %w", h.Node.Address, err)
		}
		return nil
	}); err != nil {
		return err
	}
	return onhost.Each(ctx, c.Hosts, parallel, func(ctx context.Context, from *Host) error {
		var targets []string
		for _, to := range fresh {
			if to != from && !to.runs(config.RoleWorker) {
				targets = append(targets, internal(to.Node), port)
			}
		}
		if len(targets) == 0 {
			return nil
		}
		p := c.shell(desired.PortChecker, call, append([]string{"1"}, targets...)...)
		p.NetworkMode = "host"
		missing, err := from.Run(ctx, onhost.Once{Process: p, Limit: time.Minute + time.Duration(len(targets)/2)*15*time.Second})
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			c.Warn(fmt.Sprintf("host [%s] gets no answer from %s: where a firewall is between them, their pods will not reach each other", from.Node.Address, strings.Join(missing, ", ")))
		}
		return nil
	})
}
