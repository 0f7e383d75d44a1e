// What a host asks to be when it registers, and what becomes of that:
// pure functions over headers and records. All of the headers is checked here, once:
// what passes can become labels, annotations and config values.
//
// Wire source: rancher/system-agent install.sh, rancher/rancher pkg/capr/configserver.

package registration

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/connect"
)

// The headers of /v3/connect/agent; one with an empty value is not transmitted at all.
const (
	headerID              = "X-Cattle-Id"
	headerEtcd            = "X-Cattle-Role-Etcd"
	headerControlPlane    = "X-Cattle-Role-Control-Plane"
	headerWorker          = "X-Cattle-Role-Worker"
	headerNodeName        = "X-Cattle-Node-Name"
	headerAddress         = "X-Cattle-Address"
	headerInternalAddress = "X-Cattle-Internal-Address"
	headerLabels          = "X-Cattle-Labels"
	headerTaints          = "X-Cattle-Taints"
	// headerHostname is drover's own: Rancher's install script has none, and its server reads none.
	headerHostname = "X-Drover-Hostname"
)

// Bounds of what a host may ask for.
const (
	maxHeader    = 16 << 10 // bytes of one header
	maxAddresses = 8
	maxLabels    = 100
	maxTaints    = 50
)

// labelOS is the label by which a host says what it runs; without it, it runs linux.
const labelOS = "cattle.io/os"

// hostRequest is what a host asks to be; see the fields of records.Machine.
type hostRequest struct {
	MachineID       string
	Roles           records.Roles
	OS              string
	NodeName        string
	Hostname        string
	Address         []string
	InternalAddress []string
	Labels          map[string]string
	Taints          []records.Taint
}

// readRequest reads the headers. Its error is a *norman.Error that names the header.
func readRequest(h http.Header) (hostRequest, error) {
	q := hostRequest{OS: "linux"}
	r := reader{header: h}
	q.MachineID = r.machineID()
	q.Roles = records.Roles{Etcd: r.flag(headerEtcd), ControlPlane: r.flag(headerControlPlane), Worker: r.flag(headerWorker)}
	q.NodeName, q.Hostname = r.nodeName(), r.hostname()
	q.Address = r.addresses(headerAddress)
	q.InternalAddress = r.addresses(headerInternalAddress)
	read(&r, headerLabels, parseLabels, &q.Labels)
	read(&r, headerTaints, parseTaints, &q.Taints)
	if name, ok := q.Labels[labelOS]; ok {
		q.OS = name
	}
	if r.err != nil {
		return hostRequest{}, r.err
	}
	return q, nil
}

// FitsFleet says whether a host may join a fleet so. Its error is a *norman.Error.
func (q hostRequest) FitsFleet(name string) error {
	switch {
	case q.Roles != records.Roles{}:
		return norman.Errorf(http.StatusBadRequest, norman.InvalidOption, "fleet %s is no cluster, and its machines have no roles: register without %s, as `drover fleets join-command %s` prints it", name, q.Roles, name)
	case len(q.Taints) > 0:
		return norman.Errorf(http.StatusBadRequest, norman.InvalidOption, "fleet %s is no cluster, and taints are for the nodes of one: register without them; labels are taken", name)
	}
	return nil
}

// reader reads headers and keeps the first complaint.
type reader struct {
	header http.Header
	err    *norman.Error
}

func (r *reader) refuse(header, format string, args ...any) {
	if r.err == nil {
		r.err = norman.Errorf(http.StatusBadRequest, norman.InvalidFormat, "header %s: %s", header, fmt.Sprintf(format, args...))
	}
}

// value is a header without surrounding blanks; several of one name count as one list.
func (r *reader) value(header string) string {
	v := strings.TrimSpace(strings.Join(r.header.Values(header), ","))
	if len(v) > maxHeader {
		r.refuse(header, "is longer than %d bytes", maxHeader)
		return ""
	}
	return v
}

func (r *reader) machineID() string {
	id := r.value(headerID)
	switch {
	case id == "":
		r.err = norman.Errorf(http.StatusBadRequest, norman.MissingRequired,
			"header %s is missing: a host sends its machine id there, which install.sh keeps in its file cattle-id", headerID)
	case id == "" || forms.LabelValue(id) != "":
		r.refuse(headerID, "%s is not a valid machine id: 1 to 63 letters, digits, dots, dashes and underscores belong there", quoted(id))
	}
	return id
}

func (r *reader) flag(header string) bool {
	switch v := strings.ToLower(r.value(header)); v {
	case "true", "t", "yes", "y":
		return true
	case "", "false", "f", "no", "n":
		return false
	default:
		r.refuse(header, "%s is neither true nor false", quoted(v))
		return false
	}
}

// nodeName is in lower case, as k3s and RKE2 write the name of their node.
func (r *reader) nodeName() string {
	given := r.value(headerNodeName)
	name := strings.ToLower(given)
	if name != "" && (len(name) > 63 || !forms.Subdomain(name)) {
		r.refuse(headerNodeName, "%s is not a valid node name: up to 63 lower-case letters, digits, dots and dashes belong there", quoted(given))
	}
	return name
}

// hostname is only shown, so that a host with a name that is none joins all the same.
func (r *reader) hostname() string {
	name := strings.ToLower(r.value(headerHostname))
	if len(name) > 253 || !forms.Subdomain(name) {
		return ""
	}
	return name
}

func (r *reader) addresses(header string) []string {
	list := items(r.value(header))
	if len(list) > maxAddresses {
		r.refuse(header, "has %d addresses, but at most %d are allowed", len(list), maxAddresses)
		return nil
	}
	for i, text := range list {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			r.refuse(header, "%s is no IP address of a host", quoted(text))
			return nil
		}
		if reason := connect.HostAddress(text); reason != "" {
			r.refuse(header, "%s %s", quoted(text), reason)
			return nil
		}
		list[i] = a.String()
	}
	return list
}

// read parses one header into a value.
func read[T any](r *reader, header string, parse func(string) (T, error), into *T) {
	v, err := parse(r.value(header))
	if err != nil {
		r.refuse(header, "%v", err)
		return
	}
	*into = v
}

// items splits a comma list; empty items do not count.
func items(list string) []string {
	var all []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}

// parseLabels reads k=v,k2=v2. There is no escaping, so no value can hold a comma.
func parseLabels(list string) (map[string]string, error) {
	labels := map[string]string{}
	for _, item := range items(list) {
		key, value, ok := strings.Cut(item, "=")
		if !ok {
			return nil, fmt.Errorf("%s is not of the form key=value", quoted(item))
		}
		if err := checkLabel(key, value); err != nil {
			return nil, err
		}
		if old, twice := labels[key]; twice && old != value {
			return nil, fmt.Errorf("label %s is given twice, as %s and as %s", key, quoted(old), quoted(value))
		}
		labels[key] = value
	}
	if len(labels) > maxLabels {
		return nil, fmt.Errorf("has %d labels, but at most %d are allowed", len(labels), maxLabels)
	}
	if len(labels) == 0 {
		return nil, nil
	}
	return labels, nil
}

// checkLabel says why a host may not have a label.
func checkLabel(key, value string) error {
	if reason := labelKeyFault(key); reason != "" {
		return fmt.Errorf("label key %s %s", quoted(key), reason)
	}
	if reason := forms.LabelValue(value); reason != "" {
		return fmt.Errorf("value %s of label %s %s", quoted(value), key, reason)
	}
	if key == labelOS && value != "linux" {
		return fmt.Errorf("label %s is %s, but drover looks after hosts with linux only; Windows workers join clusters of a Rancher server", key, quoted(value))
	}
	return nil
}

// serverPrefixes are of label keys that the server gives a meaning to: a host that
// could set them would choose its own roles.
var serverPrefixes = []string{"rke.cattle.io", "plan.cattle.io", "cluster.x-k8s.io", "machine.cluster.x-k8s.io", "resources.cattle.io"}

// labelKeyFault is why a host may not have a label of this key.
func labelKeyFault(key string) string {
	if reason := forms.LabelKey(key); reason != "" {
		return reason
	}
	prefix, _, prefixed := strings.Cut(key, "/")
	switch {
	case !prefixed:
		return ""
	case slices.Contains(serverPrefixes, prefix):
		return "belongs to the server: roles are asked for with --etcd, --controlplane and --worker"
	case !kubeletTakes(prefix, key):
		return "would keep the kubelet from starting: in kubernetes.io and k8s.io it takes only well-known labels and those below node.kubernetes.io/ and kubelet.kubernetes.io/"
	}
	return ""
}

// kubeletOwn are the labels of kubernetes.io that a kubelet may set on its own node.
// Source: k8s.io/kubelet pkg/apis/well_known_labels.go.
var kubeletOwn = []string{
	"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
}

func kubeletTakes(prefix, key string) bool {
	below := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	return !below("kubernetes.io") && !below("k8s.io") ||
		below("node.kubernetes.io") || below("kubelet.kubernetes.io") || slices.Contains(kubeletOwn, key)
}

// parseTaints reads key=value:Effect,key:Effect. The original drops what it cannot
// read; a host that waits for a taint that never comes is worse than a refusal.
func parseTaints(list string) ([]records.Taint, error) {
	taints := map[string]records.Taint{}
	for _, item := range items(list) {
		key, value, effect, reason := forms.Taint(item)
		if reason != "" {
			return nil, fmt.Errorf("taint %s %s", quoted(item), reason)
		}
		taint := records.Taint{Key: key, Value: value, Effect: effect}
		if old, twice := taints[key+":"+effect]; twice && old != taint {
			return nil, fmt.Errorf("taint %s:%s is given twice, with the values %s and %s", key, effect, quoted(old.Value), quoted(value))
		}
		taints[key+":"+effect] = taint
	}
	if len(taints) > maxTaints {
		return nil, fmt.Errorf("has %d taints, but at most %d are allowed", len(taints), maxTaints)
	}
	var all []records.Taint
	for _, id := range slices.Sorted(maps.Keys(taints)) {
		all = append(all, taints[id])
	}
	return all, nil
}

// quoted shows hostile text in a sentence: printable and short.
func quoted(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return fmt.Sprintf("%q", s)
}
