// What is remembered from one decision on a cluster to the next, to save work.

package pass

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/report"
	"github.com/drover-project/drover/server/records"
)

// Keeps says that the job in the delivered plan of a machine stays in it as long as nothing else changes.
func (p *Pass) Keeps(m *Member) bool {
	return m.Report.Job != "" && (m.Report.InSync || p.Daytwo())
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
	report   report.Report
	plan     []byte // the delivered one
	contents report.Contents
	basis    Basis
	wanted   string // checksum
}

// Basis is what a plan is made of, in a form that is quick to compare.
type Basis struct {
	texts
	address, internal  []string
	labels, nodeLabels map[string]string
	taints             []records.Taint
}

// texts are what of a Basis can be compared at once.
type texts struct {
	cluster                string // its UID
	generation             int64
	renderer, restarts     int
	relabelled, keeps      bool
	release                uintptr
	image, server, token   string
	registry, objects      string
	uid, nodeName          string
	roles                  records.Roles
	clusterName, clusterID string
}

func (b Basis) equal(o Basis) bool {
	return b.texts == o.texts && slices.Equal(b.address, o.address) && slices.Equal(b.internal, o.internal) &&
		maps.Equal(b.labels, o.labels) && maps.Equal(b.nodeLabels, o.nodeLabels) && slices.Equal(b.taints, o.taints)
}

// BasisOf is what the wanted plan of a machine is made of.
func BasisOf(p *Pass, m *Member) Basis {
	return Basis{texts: texts{
		cluster: p.Cluster.UID, generation: p.Cluster.Generation, renderer: p.Verdict.Renderer, restarts: m.Next.Restarts, relabelled: m.Next.Relabelled, keeps: p.Keeps(m),
		release: reflect.ValueOf(p.Release.ServerArgs).Pointer(), image: p.InstallerImage, registry: p.DefaultRegistry, objects: p.ObjectsVersion, server: m.Server, token: p.Secrets.ServerToken,
		uid: m.UID, nodeName: m.NodeName, roles: m.Roles, clusterName: p.Cluster.Name, clusterID: p.Cluster.ID,
	}, address: m.Address, internal: m.InternalAddress, labels: m.Labels, nodeLabels: m.NodeLabels, taints: m.NodeTaints}
}

// reportOf reads the report of a machine, or remembers it.
func (s Snapshot) reportOf(m Machine) report.Report {
	if s.Memo == nil || m.SecretRevision == 0 {
		return report.Read(m.Data(), report.ContentsOf(m.Plan()))
	}
	known := s.Memo.machines[m.MachineKey()]
	if known == nil {
		known = &remembered{}
		s.Memo.machines[m.MachineKey()] = known
	}
	if known.revision != m.SecretRevision {
		if plan := m.Plan(); !bytes.Equal(known.plan, plan) {
			known.contents = report.ContentsOf(plan)
		}
		known.plan = m.Plan()
		known.report, known.revision = report.Read(m.Data(), known.contents), m.SecretRevision
	}
	return known.report
}

// IsWanted says that the machine is known to have its wanted plan.
func (memo *Memo) IsWanted(m *Member, b Basis) bool {
	if memo == nil || m.Report.Checksum == "" {
		return false
	}
	known := memo.machines[m.MachineKey()]
	return known != nil && known.wanted == m.Report.Checksum && known.basis.equal(b)
}

// Remember keeps the checksum of a machine's wanted plan.
func (memo *Memo) Remember(m *Member, b Basis, wanted []byte) {
	if memo == nil {
		return
	}
	if known := memo.machines[m.MachineKey()]; known != nil {
		known.basis, known.wanted = b, plans.Checksum(wanted)
	}
}

// Forget drops machines that are not in the snapshot any more.
func (memo *Memo) Forget(s Snapshot) {
	if memo == nil || len(memo.machines) <= len(s.Machines) {
		return
	}
	there := make(map[records.MachineKey]bool, len(s.Machines))
	for _, one := range s.Machines {
		there[one.MachineKey()] = true
	}
	maps.DeleteFunc(memo.machines, func(key records.MachineKey, _ *remembered) bool { return !there[key] })
}
