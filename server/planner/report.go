// What an agent reports, read once for each change of its plan Secret.

package planner

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// report is what a plan Secret says, as far as decisions depend on it.
type report struct {
	// checksum is that of the delivered plan; empty while there is none.
	checksum string
	state    plans.State
	// unreadable is what could not be read of the agent's report.
	unreadable error
	// inSync says that the delivered plan was carried out, failed that it could not be.
	inSync, failed bool
	// applied says that some plan was carried out before.
	applied bool
	// sick are the plan's probes that are not healthy, sorted.
	sick []string
	// errand is the ID of the errand in the delivered plan; empty without one.
	errand string
	// address is that of the machine's own etcd, as Announce asks for; empty when it is not reported.
	address string
}

// healthy says that the delivered plan was carried out and that all its probes are healthy.
func (r report) healthy() bool { return r.inSync && len(r.sick) == 0 }

// contents are what reports depend on of a delivered plan.
type contents struct {
	checksum string
	probes   []string // sorted
	errand   string
}

func contentsOf(plan []byte) contents {
	if len(plan) == 0 {
		return contents{}
	}
	c := contents{checksum: plans.Checksum(plan)}
	if p, err := plans.Parse(plan); err == nil {
		c.probes, c.errand = slices.Sorted(maps.Keys(p.Probes)), errand.Of(p.Instructions)
	}
	return c
}

// readReport reads the data of a plan Secret, whose plan has these contents.
func readReport(data map[string][]byte, delivered contents) report {
	if delivered.checksum == "" {
		return report{}
	}
	outcome, err := plans.ReadOutcome(data)
	return report{
		checksum: delivered.checksum, errand: delivered.errand, state: outcome.State, unreadable: err,
		inSync: inSync(outcome, data), failed: isFailed(outcome, data), applied: outcome.AppliedChecksum != "",
		sick: unhealthy(delivered.probes, outcome), address: announced(outcome),
	}
}

// announced is the address that the machine's own etcd reports of it, as its plan asks for.
func announced(o plans.Outcome) string {
	name := strings.TrimSpace(string(o.PeriodicOutput[installers.EtcdNameName].Stdout))
	var info struct {
		Members []struct {
			Name       string   `json:"name"`
			ClientURLs []string `json:"clientURLs"`
		} `json:"members"`
	}
	if name == "" || json.Unmarshal(o.PeriodicOutput[installers.AddressName].Stdout, &info) != nil {
		return ""
	}
	for _, member := range info.Members {
		if member.Name == name && len(member.ClientURLs) > 0 {
			return hostOf(member.ClientURLs[0])
		}
	}
	return ""
}

// Memo remembers of the machines of one cluster what is costly to find and changes rarely: the report of a
// Secret by its revision, and the checksum of a wanted plan by what it is made of. A decision is the same with
// and without it. It is for one decision at a time.
type Memo struct {
	machines map[records.MachineKey]*remembered
}

// NewMemo is one that remembers nothing yet.
func NewMemo() *Memo { return &Memo{machines: map[records.MachineKey]*remembered{}} }

type remembered struct {
	revision int64 // of the Secret
	report   report
	plan     []byte // the delivered one
	contents contents
	basis    basis
	wanted   string // checksum
}

// basis is what a plan is made of, in a form that is quick to compare.
type basis struct {
	cluster                string // its UID
	generation             int64
	renderer, restarts     int
	relabelled, keeps      bool
	release                uintptr
	image, server, token   string
	registry, objects      string
	uid, nodeName          string
	roles                  records.Roles
	address, internal      []string
	labels, nodeLabels     map[string]string
	taints                 []records.Taint
	clusterName, clusterID string
}

func (b basis) equal(o basis) bool {
	return b.cluster == o.cluster && b.generation == o.generation && b.renderer == o.renderer && b.restarts == o.restarts && b.relabelled == o.relabelled && b.keeps == o.keeps &&
		b.release == o.release && b.image == o.image && b.registry == o.registry && b.objects == o.objects && b.server == o.server && b.token == o.token && b.uid == o.uid && b.nodeName == o.nodeName && b.roles == o.roles &&
		slices.Equal(b.address, o.address) && slices.Equal(b.internal, o.internal) && maps.Equal(b.labels, o.labels) && maps.Equal(b.nodeLabels, o.nodeLabels) &&
		slices.Equal(b.taints, o.taints) && b.clusterName == o.clusterName && b.clusterID == o.clusterID
}

func (r *round) basis(m *member) basis {
	return basis{
		cluster: r.Cluster.UID, generation: r.Cluster.Generation, renderer: r.cluster.renderer, restarts: m.next.restarts, relabelled: m.next.relabelled, keeps: r.keeps(m),
		release: reflect.ValueOf(r.Release.ServerArgs).Pointer(), image: r.InstallerImage, registry: r.DefaultRegistry, objects: r.ObjectsVersion, server: m.server, token: r.Secrets.ServerToken,
		uid: m.UID, nodeName: m.NodeName, roles: m.Roles, address: m.Address, internal: m.InternalAddress, labels: m.Labels, nodeLabels: m.NodeLabels,
		taints: m.NodeTaints, clusterName: r.Cluster.Name, clusterID: r.Cluster.ID,
	}
}

// reportOf reads the report of a machine, or remembers it.
func (s Snapshot) reportOf(m Machine) report {
	if s.Memo == nil || m.SecretRevision == 0 {
		return readReport(m.data(), contentsOf(m.plan()))
	}
	known := s.Memo.machines[m.key()]
	if known == nil {
		known = &remembered{}
		s.Memo.machines[m.key()] = known
	}
	if known.revision != m.SecretRevision {
		if plan := m.plan(); !bytes.Equal(known.plan, plan) {
			known.contents = contentsOf(plan)
		}
		known.plan = m.plan()
		known.report, known.revision = readReport(m.data(), known.contents), m.SecretRevision
	}
	return known.report
}

// isWanted says that the machine is known to have its wanted plan.
func (r *round) isWanted(m *member, b basis) bool {
	if r.Memo == nil || m.report.checksum == "" {
		return false
	}
	known := r.Memo.machines[m.key()]
	return known != nil && known.wanted == m.report.checksum && known.basis.equal(b)
}

// remember keeps the checksum of a machine's wanted plan.
func (r *round) remember(m *member, b basis, wanted []byte) {
	if r.Memo == nil {
		return
	}
	if known := r.Memo.machines[m.key()]; known != nil {
		known.basis, known.wanted = b, plans.Checksum(wanted)
	}
}

// forget drops machines that are not in the snapshot any more.
func (m *Memo) forget(s Snapshot) {
	if m == nil || len(m.machines) <= len(s.Machines) {
		return
	}
	there := make(map[records.MachineKey]bool, len(s.Machines))
	for _, one := range s.Machines {
		there[one.key()] = true
	}
	maps.DeleteFunc(m.machines, func(key records.MachineKey, _ *remembered) bool { return !there[key] })
}
