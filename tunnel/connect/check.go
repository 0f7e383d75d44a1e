// What Params may hold: what passes here can become names, labels and log lines.

package connect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	if strings.ContainsAny(n.RequestedHostname, "/: ") {
		return errors.New("node.requestedHostname has a slash, a colon or a space in it")
	}
	if n.CustomConfig == nil {
		return nil
	}
	return n.CustomConfig.check()
}

func (c *CustomConfig) check() error {
	if err := text("node.customConfig.address", c.Address, maxName); err != nil {
		return err
	}
	if err := text("node.customConfig.internalAddress", c.InternalAddress, maxName); err != nil {
		return err
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
	}
	for i, taint := range c.Taints {
		if err := checkTaint(fmt.Sprintf("node.customConfig.taints[%d]", i), taint); err != nil {
			return err
		}
	}
	return nil
}

func checkTaint(field, taint string) error {
	if err := text(field, taint, maxPart); err != nil {
		return err
	}
	key, effect, ok := strings.Cut(taint, ":")
	if !ok || key == "" || strings.HasPrefix(key, "=") || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
		return fmt.Errorf("%s is not of the form key=value:NoSchedule, :PreferNoSchedule or :NoExecute", field)
	}
	return nil
}

// text refuses what is too long for its place or could break a line.
func text(field, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s is %d bytes long, at most %d are taken", field, len(s), limit)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return fmt.Errorf("%s has unprintable characters in it", field)
	}
	return nil
}
