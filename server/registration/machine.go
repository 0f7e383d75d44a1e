// The records that a registration makes: the machine, and its plan Secret with the
// labels and annotations that agents, hooks and tools read there.
//
// Wire source: rancher/rancher pkg/capr and pkg/controllers/capr/unmanaged.

package registration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration/hostrequest"
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

// machineName is the name of a custom machine, the same for the same machine id.
func machineName(machineID string) string {
	sum := sha256.Sum256([]byte(machineID))
	return "custom-" + hex.EncodeToString(sum[:])[:12]
}

// newMachine is the machine of a host that registers for the first time.
func newMachine(to home, asked hostrequest.Request, now time.Time) records.Machine {
	m := hostrequest.Apply(records.Machine{
		Object: records.Object{
			Namespace:  to.Namespace,
			Name:       machineName(asked.MachineID),
			UID:        random.UID(),
			Generation: 1,
			Created:    now,
		},
		ClusterName: to.Name,
		ClusterID:   to.id,
		MachineID:   asked.MachineID,
	}, asked)
	m.Status = records.MachineStatus{
		Condition: records.Condition{
			State:      records.Registering,
			Cause:      "the host has registered; its agent has not asked for a plan yet",
			WaitingFor: "the first connection of the agent",
			NextStep:   "on the host: systemctl status rancher-system-agent",
		},
		Since:   now,
		History: []records.Transition{{State: records.Registering, At: now}},
	}
	return describe(m)
}

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
		if m.Labels[key] == value && key != hostrequest.LabelOS {
			delete(m.Labels, key)
		}
	}
	return m
}

// newPlanSecret is the empty plan Secret of a machine.
func newPlanSecret(m records.Machine, now time.Time) records.PlanSecret {
	return describeSecret(records.PlanSecret{
		Object: records.Object{Namespace: m.Namespace, Name: m.PlanSecretName(), UID: random.UID(), Created: now},
	}, m)
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
		hostrequest.LabelOS:  m.OS,
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
