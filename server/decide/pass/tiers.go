// The tiers of a cluster, the change of each machine, and the gate before all of them.

package pass

import (
	"math"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/records"
)

// Concurrency reads a limit of the upgrade strategy: a number, or a part of all in per cent that is rounded
// up; 0 is no limit, and nothing is 1.
func Concurrency(text string, all int) int {
	part, isPart := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(part)
	switch {
	case err != nil || n < 0:
		return 1
	case isPart:
		return max(1, int(math.Ceil(float64(n)*float64(all)/100)))
	case n == 0:
		return math.MaxInt
	}
	return n
}

// Gate is a reason why no machine may get a plan.
type Gate struct {
	Code    catalogue.Code
	Message string
	Failed  bool
	State   records.ClusterState
	Next    string
}

// Shut says that there is such a reason.
func (g Gate) Shut() bool { return g.Message != "" }

// NotYet is the plan text of a machine whose turn has not come.
const NotYet = "waiting for at least one control plane, etcd, and worker node to be registered"

// Tier is a part of the cluster that changes before the next part begins.
type Tier struct {
	Name    string
	Members []*Member
	Limit   int // how many may be unavailable
	Drain   *clusterspec.DrainOptions
}

// Tiers are the machines that stay, in the order in which they change: the one that began the cluster, the others
// with etcd, the other control planes, and the workers.
func (p *Pass) Tiers() []Tier {
	var u clusterspec.UpgradeStrategy
	if given := p.Cluster.Spec.RKEConfig; given != nil && given.UpgradeStrategy != nil {
		u = *given.UpgradeStrategy
	}
	all := []Tier{
		{Name: "bootstrap", Limit: 1, Drain: u.ControlPlaneDrainOptions}, {Name: "etcd", Limit: 1, Drain: u.ControlPlaneDrainOptions},
		{Name: "control plane", Drain: u.ControlPlaneDrainOptions}, {Name: "worker", Drain: u.WorkerDrainOptions},
	}
	for _, m := range p.Staying {
		i := p.TierOf(m)
		all[i].Members = append(all[i].Members, m)
	}
	all[2].Limit = Concurrency(u.ControlPlaneConcurrency, len(all[2].Members))
	if p.Fleet != nil {
		u.WorkerConcurrency = "10%" // a fleet has no strategy of its own
	}
	all[3].Limit = Concurrency(u.WorkerConcurrency, len(all[3].Members))
	return all
}

// TierOf is the index of a machine's tier in Tiers.
func (p *Pass) TierOf(m *Member) int {
	switch {
	case m == p.Init:
		return 0
	case m.Roles.Etcd:
		return 1
	case m.Roles.ControlPlane:
		return 2
	}
	return 3
}

// Change is what it takes to bring a machine to its wanted plan.
type Change int

const (
	// Unchanged: it has the plan.
	Unchanged Change = iota
	// First: it has none yet, and joins by it.
	First
	// Quiet: something differs, and nothing restarts.
	Quiet
	// Restart: the distribution restarts.
	Restart
	// Broken: no plan can be made.
	Broken
)
