// How clusters and machines stand, in the words of the peers' clients:
// states, conditions, drivers, ids. They are computed from the records whenever
// they are read and never stored.
//
// Wire source: rancher/wrangler pkg/summary, rancher/rancher pkg/apis/management.cattle.io.

package k8sobjects

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// DescriptionAnnotation is where the peers keep descriptions.
const DescriptionAnnotation = "field.cattle.io/description"

// The states of what is shown beside clusters and machines, in Rancher's words.
const (
	Active       = string(records.ClusterActive)
	Pending      = string(records.ClusterPending)
	provisioning = string(records.ClusterProvisioning)
	unavailable  = string(records.ClusterUnavailable)
	Removing     = string(records.ClusterRemoving)
	Error        = string(records.ClusterError)
	Failed       = string(operations.Failed)
)

// Summary is a state as the peers summarise conditions: Transitioning is "no", "yes" or "error".
type Summary struct {
	State, Transitioning, Message string
}

// Into sets the fields of a resource of /v3.
func (s Summary) Into(fields map[string]any) {
	fields["state"], fields["transitioning"], fields["transitioningMessage"] = s.State, s.Transitioning, s.Message
}

// ClusterSummary is the state of a cluster.
func ClusterSummary(cl records.Cluster) Summary {
	s := Summary{State: string(cl.Status.State), Transitioning: "yes", Message: cl.Status.Message}
	s.State = cmp.Or(s.State, Pending)
	if !cl.Deleting.IsZero() {
		s.State = Removing
	}
	switch {
	case cl.Status.Failed:
		s.Transitioning = "error"
	case cl.Exported != nil && cl.Deleting.IsZero():
		s.Transitioning = "no" // nothing is on its way
	case s.State == Active:
		s.Transitioning = "no"
		if !cl.Spec.Docker() { // whose message says how many hosts are there
			s.Message = ""
		}
	case s.Message == "" && s.State == Removing:
		s.Message = "waiting for the cluster's machines to be removed"
	}
	return s
}

// ClusterSummaryOfV3 is the state of a cluster for clients of /v3. One of RKE1 is never pending there: its configuration is there from the
// start, and Terraform's provider gives up on a new one that is neither provisioning nor active.
func ClusterSummaryOfV3(cl records.Cluster) Summary {
	s := ClusterSummary(cl)
	if s.State == Pending && cl.Spec.RKE1() {
		s.State = provisioning
	}
	return s
}

// Condition is one condition of an object, as the peers write them.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	LastUpdateTime     string `json:"lastUpdateTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
}

// ConditionsOf are made from the status, in the order clients know them.
func ConditionsOf(cl records.Cluster, machines int) []Condition {
	st := cl.Status
	pick := func(done bool) string {
		switch {
		case done:
			return "True"
		case st.Failed:
			return "False"
		}
		return "Unknown"
	}
	boolean := func(b bool) string {
		if b {
			return "True"
		}
		return "False"
	}
	updated := st.ObservedGeneration >= cl.Generation && st.Initialized && (st.State == records.ClusterActive || st.State == records.ClusterUnavailable || cl.Exported != nil)
	waiting := st.Message
	ready := Condition{Type: "Ready", Status: boolean(st.Ready)}
	if !st.Ready {
		ready.Message = waiting
		if st.Initialized && !st.Connected {
			ready.Reason = "Disconnected"
		}
	}
	pending := Condition{Type: "Pending", Status: "True"}
	if cl.Spec.Imported() && !st.Initialized {
		pending.Status, pending.Message = "Unknown", waiting
	} else if machines == 0 && !st.Initialized {
		pending.Status, pending.Message = "Unknown", "waiting for the first host to join"
	}
	list := []Condition{
		pending,
		{Type: "Provisioned", Status: pick(st.Initialized), Message: unless(st.Initialized, waiting)},
		{Type: "Waiting", Status: pick(st.Initialized), Message: unless(st.Initialized, waiting)},
		{Type: "DefaultProjectCreated", Status: "True"},
		{Type: "SystemProjectCreated", Status: "True"},
		{Type: "Connected", Status: boolean(st.Connected)},
		ready,
		{Type: "Updated", Status: pick(updated), Message: unless(updated, waiting)},
	}
	if cl.Spec.RKE1() {
		for _, name := range []string{"etcd", "CertsGenerated", "AddonDeploy"} {
			list = append(list, Condition{Type: name, Status: pick(st.Initialized), Message: unless(st.Initialized, waiting)})
		}
	}
	if cl.Exported != nil { // a condition of drover's own, which others do not have
		list = append(list, Condition{Type: "Exported", Status: "True", Message: records.ExportedSince(*cl.Exported, cl.Name)})
	}
	if cl.Differs != nil { // another one
		list = append(list, Condition{Type: "RightsKept", Status: "False", Reason: "ChangedByHand", Message: cl.Differs.Sentence()})
	}
	for i := range list {
		list[i].LastUpdateTime, list[i].LastTransitionTime = updatedAt(cl), updatedAt(cl)
	}
	return list
}

// health are the two conditions by which Flux, Argo CD and others who go by kstatus see that a cluster is on its way, or
// has failed, though its API answers: with Ready alone a change that is still rolled out would look finished.
//
// Source: sigs.k8s.io/cli-utils pkg/kstatus, "Reconciling" and "Stalled".
func health(cl records.Cluster) []Condition {
	reconciling, stalled := Condition{Type: "Reconciling", Status: "False"}, Condition{Type: "Stalled", Status: "False"}
	switch s := ClusterSummary(cl); {
	case s.Transitioning == "error":
		stalled.Status, stalled.Reason, stalled.Message = "True", "Failed", s.Message
	case s.Transitioning == "yes" || cl.Exported == nil && cl.Status.ObservedGeneration < cl.Generation:
		reconciling.Status, reconciling.Reason, reconciling.Message = "True", "InProgress", s.Message
	}
	both := []Condition{reconciling, stalled}
	for i := range both {
		both[i].LastUpdateTime, both[i].LastTransitionTime = updatedAt(cl), updatedAt(cl)
	}
	return both
}

// updatedAt is since when the status is what it is.
func updatedAt(cl records.Cluster) string {
	at := cl.Status.Since
	if at.IsZero() {
		at = cl.Created
	}
	return at.UTC().Format(time.RFC3339)
}

func unless(done bool, message string) string {
	if done {
		return ""
	}
	return message
}

// Driver is "" until the first host has registered, or the agent of an imported cluster: the CLI gives out join
// commands for such clusters only. For Docker hosts it is known from the start.
func Driver(cl records.Cluster, machines int) (driver, provider string) {
	switch {
	case cl.Spec.Docker():
		return "rancherKubernetesEngine", "rke"
	case cl.Spec.Imported() && cl.Status.Initialized:
		for _, runtime := range versions.Runtimes() {
			if strings.Contains(cl.Status.Version, "+"+string(runtime)) {
				return "imported", string(runtime)
			}
		}
		return "imported", "imported"
	case machines == 0 || cl.Spec.KubernetesVersion == "":
		return "", ""
	}
	runtime := string(versions.RuntimeOf(cl.Spec.KubernetesVersion))
	return runtime, runtime
}

// MachineState is the registration state as it is shown: a machine that is being removed
// is Removing with any status.
func MachineState(m *records.Machine) records.MachineState {
	switch {
	case !m.Deleting.IsZero():
		return records.Removing
	case m.Status.State == "":
		return records.Registering
	}
	return m.Status.State
}

// MachineSummary is the state in the words that the peers' clients compare with.
func MachineSummary(m records.Machine) Summary {
	message := m.Status.Cause
	if message == "" && m.Status.WaitingFor != "" {
		message = "waiting for " + m.Status.WaitingFor
	}
	switch MachineState(&m) {
	case records.Registering:
		return Summary{"registering", "yes", message}
	case records.Removing:
		return Summary{Removing, "yes", message}
	case records.Failed:
		return Summary{Error, "error", message}
	case records.Connected:
		return Well()
	case records.Disconnected, records.Unavailable:
		return Summary{unavailable, "yes", message}
	case records.Active:
		if n := m.Status.Node; n != nil && !n.Ready {
			return Summary{unavailable, "yes", n.NotReady}
		}
		return Well()
	case records.WaitingForPlan, records.ApplyingPlan, records.WaitingForProbes, records.WaitingForNode:
	}
	return Summary{provisioning, "yes", message}
}

// NodeID is "<cluster id>:m-<12 hex>", for the life of the machine: the hex digits of
// its name, or of a hash of its key when the name has another form.
func NodeID(m records.Machine) string {
	if m.Docker != nil {
		return m.ClusterID + ":" + m.Name
	}
	short, ok := strings.CutPrefix(m.Name, "custom-")
	if _, err := hex.DecodeString(short); !ok || err != nil || len(short) != 12 {
		sum := sha256.Sum256([]byte(m.Key()))
		short = hex.EncodeToString(sum[:6])
	}
	return m.ClusterID + ":m-" + short
}

// ActionsOf are what can be done: a cluster of Docker hosts without RKE1 has no Kubernetes to reach.
func ActionsOf(cl records.Cluster) []string {
	if cl.Spec.Docker() && !cl.Spec.RKE1() {
		return nil
	}
	return []string{"generateKubeconfig"}
}

// Well is the state of what is as it should be.
func Well() Summary { return Summary{Active, "no", ""} }

// NewSummary is a state with its parts.
func NewSummary(state, transitioning, message string) Summary {
	return Summary{State: state, Transitioning: transitioning, Message: message}
}
