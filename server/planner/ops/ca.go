// The rotation of the CAs of a cluster of k3s or RKE2.
//
// One server makes new CAs, signed by those of now too, and has etcd take them. Each server takes them from there when it starts,
// and gives itself new certificates; each worker gets its own when its agent starts. Since either CA is trusted through the other,
// those that have started again and those that have not work together, so that they go one after the other. A rotation that has
// begun with etcd goes on to its end: what it needs stays on the first host until then, and another one begins there where it ended.

package ops

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/plans"
)

// working are the servers, all of which have to work before a rotation that each of them restarts for. away says what becomes of one
// that is not there then, and why for what they have to.
func working(machines []Machine, away, why string) (servers []Machine, err error) {
	for _, m := range machines {
		switch {
		case !m.Roles.Etcd && !m.Roles.ControlPlane || !m.Plan:
			continue
		case !m.Connected:
			return nil, fmt.Errorf("%s is a server, and %s; %s. Bring it back, or remove it by drover machines rm %s", m.Title, m.Absent, away, m.Name)
		case !m.Works:
			return nil, fmt.Errorf("%s is a server, and does not work: %s. All of them have to, %s", m.Title, m.Cause, why)
		}
		servers = append(servers, m)
	}
	return servers, nil
}

// reissuing are the steps of a rotation of the CAs, after those that take a snapshot. It begins on the first server with etcd.
func (r Request) reissuing(machines, workers []Machine, guards []step) ([]step, error) {
	servers, err := working(machines, "it would stay with the CAs of now", "as they restart with the new CAs")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(servers, func(m Machine) bool { return m.Roles.Etcd })
	if i < 0 {
		return nil, fmt.Errorf("no server with etcd has a plan")
	}
	leader := servers[i]
	if len(guards) == 0 && !r.NoSnapshot {
		return nil, fmt.Errorf("no snapshot can be taken before it, as the cluster's API does not answer; mend that, or ask for it with --no-snapshot")
	}
	all := append(guards, step{"newcas", leader}, step{"takecas", leader}, step{"reload", leader})
	for _, m := range servers {
		if m.Name != leader.Name {
			all = append(all, step{"reload", m})
		}
	}
	for _, m := range workers {
		all = append(all, step{"renew", m})
	}
	return append(all, step{"tidy", leader}), nil
}

// reissue is the errand of a verb of a rotation of the CAs.
func (r Request) reissue(name, id string, m Machine) (plans.OneTimeInstruction, error) {
	switch hash := r.CA; {
	case name == "newcas":
		return m.Host.NewCAs(id), nil
	case name == "tidy":
		return m.Host.DropCAs(id), nil
	case hash == "":
		return plans.OneTimeInstruction{}, fmt.Errorf("it is not known any more which CAs were made; ask for another rotation")
	case name == "takecas":
		return m.Host.TakeCAs(id, hash), nil
	default:
		return m.Host.StartWithCAs(id, hash, m.Roles.ControlPlane), nil
	}
}

// reissued is the request with the CAs that a machine has made.
func (r Request) reissued(m Machine) (Request, error) {
	hash, err := errand.ReadCAs(m.Output)
	if err == nil {
		r.CA = hash
	}
	return r, err
}
