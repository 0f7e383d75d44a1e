// What Params may hold: what passes here can become names, labels and log lines.

package connect

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/forms"
)

// The roles of CustomConfig.Roles.
const (
	RoleEtcd         = "etcd"
	RoleControlPlane = "controlplane"
	RoleWorker       = "worker"
)

// Bounds of what an agent may say.
const (
	maxName   = 253 // bytes of a hostname or an address
	maxLabels = 100
	maxTaints = 50
	maxPart   = 400 // bytes of a label or a taint
)

func check(p Params) error {
	if p.NodeVersion < 0 {
		return fmt.Errorf("nodeVersion is %d, versions begin at 1", p.NodeVersion)
	}
	switch {
	case p.Cluster != nil && p.Node != nil:
		return errors.New("node and cluster are both there; an agent is of one of them")
	case p.Cluster != nil:
		return p.Cluster.check()
	case p.Node == nil:
		return errors.New("node and cluster are missing; an agent says there what it is on")
	}
	n := p.Node
	if n.RequestedHostname == "" {
		return errors.New("node.requestedHostname is empty; give the host a name or pass --node-name")
	}
	if err := text("node.requestedHostname", n.RequestedHostname, maxName); err != nil {
		return err
	}
	if strings.Trim(n.RequestedHostname, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != "" || n.RequestedHostname[0] == '-' {
		return errors.New("node.requestedHostname has other characters than letters, digits, dots, dashes and underscores, or begins with a dash")
	}
	if n.CustomConfig == nil {
		return nil
	}
	return n.CustomConfig.check()
}

func (c *CustomConfig) check() error {
	for field, address := range map[string]string{"address": c.Address, "internalAddress": c.InternalAddress} {
		if address == "" {
			continue
		}
		if err := text("node.customConfig."+field, address, maxName); err != nil {
			return err
		}
		if reason := HostAddress(address); reason != "" {
			return fmt.Errorf("node.customConfig.%s %s", field, reason)
		}
	}
	for i, role := range c.Roles {
		if !slices.Contains([]string{RoleEtcd, RoleControlPlane, RoleWorker}, role) {
			return fmt.Errorf("node.customConfig.roles[%d] is none of etcd, controlplane and worker", i)
		}
	}
	switch {
	case len(c.Roles) > 3:
		return errors.New("node.customConfig.roles names a role twice")
	case len(c.Label) > maxLabels:
		return fmt.Errorf("node.customConfig.label has %d entries, at most %d are taken", len(c.Label), maxLabels)
	case len(c.Taints) > maxTaints:
		return fmt.Errorf("node.customConfig.taints has %d entries, at most %d are taken", len(c.Taints), maxTaints)
	}
	for key, value := range c.Label {
		if key == "" {
			return errors.New("node.customConfig.label has an entry without a key")
		}
		if err := text("node.customConfig.label", key+"="+value, maxPart); err != nil {
			return err
		}
		if reason := forms.LabelKey(key); reason != "" {
			return errors.New("node.customConfig.label has a key that " + reason)
		}
		if reason := forms.LabelValue(value); reason != "" {
			return fmt.Errorf("node.customConfig.label has a value of %s that %s", key, reason)
		}
	}
	for i, taint := range c.Taints {
		if err := checkTaint(fmt.Sprintf("node.customConfig.taints[%d]", i), taint); err != nil {
			return err
		}
	}
	return nil
}

// hostName is a name of DNS.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// HostAddress says why a text is not an address by which other hosts reach a host; empty for an IP address or a name of DNS
// that may be one. An address that means this machine, whichever machine it is read on, or a service of its link, as metadata
// services are, would lead the cluster's other hosts and the server to themselves.
func HostAddress(address string) (reason string) {
	const form = "is no IP address and no name of a host"
	ip, err := netip.ParseAddr(address)
	if err != nil {
		last := address[strings.LastIndexByte(address, '.')+1:]
		switch {
		case !hostName.MatchString(address), strings.Trim(last, "0123456789") == "": // the latter is an address with a fault in it
			return form
		case strings.EqualFold(address, "localhost"), strings.HasSuffix(strings.ToLower(address), ".localhost"):
			return "is the host itself, wherever it is read; give the address by which other hosts reach this one"
		}
		return ""
	}
	switch ip := ip.Unmap(); {
	case ip.Zone() != "":
		return form
	case ip.IsUnspecified(), ip.IsLoopback():
		return "is the host itself, wherever it is read; give the address by which other hosts reach this one"
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is not an address by which other hosts reach this one: it is of its link alone, of metadata services or of groups"
	}
	return ""
}

func checkTaint(field, taint string) error {
	if err := text(field, taint, maxPart); err != nil {
		return err
	}
	if _, _, _, reason := forms.Taint(taint); reason != "" {
		return fmt.Errorf("%s %s", field, reason)
	}
	return nil
}

// text refuses what is too long for its place or could break a line.
func text(field, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s is %d bytes long, at most %d are taken", field, len(s), limit)
	}
	if !plans.SafeText(s) {
		return fmt.Errorf("%s has unprintable characters in it", field)
	}
	return nil
}
