// What a node is to its cluster: addresses, labels and taints.

package render

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// addresses are those the host gave at registration. External ones are set only beside internal
// ones, since a lone external address would make the runtime choose its own internal one.
func (r render) addresses(config map[string]any) {
	first := firstFamily(r.merged()["service-cidr"]) // of workers too, whose own config does not have it
	internal := inOrder(unique(append(texts(config["node-ip"]), r.Machine.InternalAddress...)), first)
	var external []string
	for _, a := range unique(append(texts(config["node-external-ip"]), r.Machine.Address...)) {
		if ip, err := netip.ParseAddr(a); !slices.Contains(internal, a) && (err != nil || !ip.IsLinkLocalUnicast()) {
			external = append(external, a)
		}
	}
	external = inOrder(external, first)
	if len(internal) == 0 {
		return
	}
	config["node-ip"] = internal
	if _, cloud := config["cloud-provider-name"]; cloud || len(external) == 0 {
		return
	}
	config["node-external-ip"] = external
	if r.server() {
		config["advertise-address"] = internal[0]
		config["tls-san"] = unique(append(texts(config["tls-san"]), external...))
	}
}

// family is that of an address or of a network.
type family int

const (
	either family = iota
	ipv4
	ipv6
)

func familyOf(text string) family {
	text, _, _ = strings.Cut(text, "/")
	switch ip, err := netip.ParseAddr(text); {
	case err != nil:
		return either
	case ip.Unmap().Is4():
		return ipv4
	default:
		return ipv6
	}
}

// firstFamily is that of the first network of a setting like "10.43.0.0/16,fd00:43::/112".
func firstFamily(setting any) family {
	for _, text := range texts(setting) {
		first, _, _ := strings.Cut(text, ",")
		return familyOf(strings.TrimSpace(first))
	}
	return either
}

// inOrder has the addresses of a family before the others: the first one is the node's main address.
func inOrder(addresses []string, first family) []string {
	if first == either {
		return addresses
	}
	slices.SortStableFunc(addresses, func(a, b string) int {
		return cmp.Compare(rank(familyOf(a), first), rank(familyOf(b), first))
	})
	return addresses
}

func rank(f, first family) int {
	if f == first {
		return 0
	}
	return 1
}

func (r render) nodeLabels() []string {
	labels := []string{"rke.cattle.io/machine=" + r.Machine.UID}
	for key, value := range r.Machine.NodeLabels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	return labels
}

func (r render) nodeTaints() []string {
	taints := r.Machine.NodeTaints
	if !r.Machine.Roles.Worker {
		if r.Machine.Roles.Etcd && !(r.Machine.Roles.ControlPlane && r.distribution.OneTaint) {
			taints = append(slices.Clone(taints), records.Taint{Key: "node-role.kubernetes.io/etcd", Effect: "NoExecute"})
		}
		if r.Machine.Roles.ControlPlane {
			taints = append(slices.Clone(taints), records.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"})
		}
	}
	var list []string
	for _, t := range taints {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		list = append(list, text+":"+t.Effect)
	}
	slices.Sort(list)
	return list
}
