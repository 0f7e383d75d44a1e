// The labels and annotations of machines and plan Secrets that follow from what a host asked for: agents, hooks, tools
// and selectors read them.
//
// Wire source: rancher/rancher pkg/capr and pkg/controllers/capr/unmanaged.

package registration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// Labels and annotations of machines and plan Secrets.
const (
	labelEtcd             = "rke.cattle.io/etcd-role"
	labelControlPlane     = "rke.cattle.io/control-plane-role"
	labelWorker           = "rke.cattle.io/worker-role"
	labelClusterName      = "rke.cattle.io/cluster-name"
	labelCAPIClusterName  = "cluster.x-k8s.io/cluster-name"
	labelCAPIControlPlane = "cluster.x-k8s.io/control-plane"
	labelMachineID        = "rke.cattle.io/machine-id"
	labelMachineName      = "rke.cattle.io/machine-name"
	labelMachineNamespace = "rke.cattle.io/machine-namespace"
	labelNodeName         = "rke.cattle.io/node-name"
	labelBackup           = "resources.cattle.io/backup"

	annotationAddress         = "rke.cattle.io/address"
	annotationInternalAddress = "rke.cattle.io/internal-address"
	annotationLabels          = "rke.cattle.io/labels"
	annotationTaints          = "rke.cattle.io/taints"
)

// describe sets the labels and annotations of a machine that follow from its fields.
// Other labels stay, and the host's own labels are added where nothing stands yet, as
// selectors of machine configuration match them.
func describe(m records.Machine) records.Machine {
	labels := replaced(m.Labels, commonLabels(m))
	set(labels, labelCAPIControlPlane, flag(m.Roles.ControlPlane))
	for key, value := range m.NodeLabels {
		if _, taken := labels[key]; !taken {
			labels[key] = value
		}
	}
	m.Labels = labels
	m.Annotations = replaced(m.Annotations, hostAnnotations(m))
	return m
}

// undescribe takes the host's labels back off a machine, before others are put on.
func undescribe(m records.Machine) records.Machine {
	m.Labels = maps.Clone(m.Labels)
	for key, value := range m.NodeLabels {
		if m.Labels[key] == value && key != labelOS {
			delete(m.Labels, key)
		}
	}
	return m
}

// describeSecret sets the labels and annotations that follow from the machine.
func describeSecret(s records.PlanSecret, m records.Machine) records.PlanSecret {
	labels := commonLabels(m)
	labels[labelMachineName] = m.Name
	labels[labelMachineNamespace] = m.Namespace
	labels[labelBackup] = "true"
	s.Labels = replaced(s.Labels, labels)
	s.Annotations = replaced(s.Annotations, hostAnnotations(m))
	return s
}

// commonLabels are on machines and plan Secrets; an empty value means no such label.
func commonLabels(m records.Machine) map[string]string {
	return map[string]string{
		labelEtcd:            flag(m.Roles.Etcd),
		labelControlPlane:    flag(m.Roles.ControlPlane),
		labelWorker:          flag(m.Roles.Worker),
		labelClusterName:     m.ClusterName,
		labelCAPIClusterName: m.ClusterName,
		labelMachineID:       m.MachineID,
		labelNodeName:        m.NodeName,
		labelOS:              m.OS,
	}
}

// hostAnnotations are what the host asked for; an empty value means no such annotation.
func hostAnnotations(m records.Machine) map[string]string {
	return map[string]string{
		annotationAddress:         strings.Join(m.Address, ","),
		annotationInternalAddress: strings.Join(m.InternalAddress, ","),
		annotationLabels:          jsonText(m.NodeLabels, len(m.NodeLabels)),
		annotationTaints:          jsonText(m.NodeTaints, len(m.NodeTaints)),
	}
}

func jsonText(v any, length int) string {
	if length == 0 {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "" // cannot happen: maps and structs of strings
	}
	return string(b)
}

func flag(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// replaced is a copy of all with the values of some; an empty value removes.
func replaced(all, some map[string]string) map[string]string {
	next := maps.Clone(all)
	if next == nil {
		next = map[string]string{}
	}
	for key, value := range some {
		set(next, key, value)
	}
	return next
}

func set(m map[string]string, key, value string) {
	if value == "" {
		delete(m, key)
		return
	}
	m[key] = value
}

// relabel is the machine with other node labels: each of set is added or replaced, and those with a key of remove are
// taken off; one that is not there is no error. The rules are those of a host's own labels, and the label of the
// operating system stays. The error is a sentence for people.
func relabel(m records.Machine, set map[string]string, remove []string) (records.Machine, error) {
	labels := maps.Clone(m.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, key := range remove {
		if _, both := set[key]; both {
			return m, fmt.Errorf("label %s is set and removed at once", quoted(key))
		}
		if key == labelOS {
			return m, fmt.Errorf("label %s stays: it says what the host runs", labelOS)
		}
		delete(labels, key)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if err := checkLabel(key, set[key]); err != nil {
			return m, err
		}
		labels[key] = set[key]
	}
	if len(labels) > maxLabels {
		return m, fmt.Errorf("machine %s would have %d labels, but at most %d are allowed", m.Name, len(labels), maxLabels)
	}
	m.NodeLabels = labels
	return m, nil
}
