// The rotation of the CAs of a cluster of k3s or RKE2.
//
// One server makes new CAs, signed by those of now too, and has etcd take them. Each server takes them from there when it starts,
// and gives itself new certificates; each worker gets its own when its agent starts. Since either CA is trusted through the other,
// those that have started again and those that have not work together, so that they go one after the other. A rotation that has
// begun with etcd goes on to its end: what it needs stays on the first host until then, and another one begins there where it ended.

package steps

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
)

var (
	newCAs = Step{
		Name: "newcas", Title: "make new CAs on %s, signed by those of now", OnFailure: OnFailure{Tries: 3, Gone: true},
		Job: func(_ *decider, id string, m Machine) (Job, error) { return just(m.Host.NewCAs(id)) },
		Done: Done{Read: func(d *decider, m Machine) (string, error) {
			made := d.request
			var err error
			if made.CA, err = hostjob.ReadCAs(m.Output); err != nil {
				return "", err
			}
			d.now(made)
			return hostjob.Removed(m.Output), nil
		}},
	}
	takeCAs = Step{
		Name: "takecas", Title: "have %s take the new CAs to etcd",
		OnFailure: OnFailure{Tries: 3, Irreversible: true, Gone: true, Advice: "; drover operations retry goes on. etcd may have the new CAs, with which each server comes up that starts again; both are trusted"},
		Job:       withCAs(func(id, ca string, m Machine) plans.OneTimeInstruction { return m.Host.TakeCAs(id, ca) }),
	}
	reload = Step{
		Name: "reload", Title: "restart %s with the new CAs", Needs: Needs{Quorum: true, DownFirst: true}, Done: Done{Works: true},
		OnFailure: OnFailure{Tries: 3, Irreversible: true, Advice: "; drover operations retry goes on. Those that have started again and those that have not trust each other"},
		Job: withCAs(func(id, ca string, m Machine) plans.OneTimeInstruction {
			return m.Host.StartWithCAs(id, ca, m.Roles.ControlPlane)
		}),
	}
	tidy = Step{
		Name: "tidy", Title: "remove on %s what the rotation kept there", OnFailure: OnFailure{Tries: 3, Irreversible: true},
		Job: func(_ *decider, id string, m Machine) (Job, error) { return just(m.Host.DropCAs(id)) },
	}
)

// withCAs is a job that needs the CAs which were made.
func withCAs(in func(id, ca string, m Machine) plans.OneTimeInstruction) func(*decider, string, Machine) (Job, error) {
	return func(d *decider, id string, m Machine) (Job, error) {
		if d.request.CA == "" {
			return Job{}, fmt.Errorf("it is not known any more which CAs were made; ask for another rotation")
		}
		return just(in(id, d.request.CA, m))
	}
}

// rotateCA are the steps of a rotation of the CAs. It begins on the first server with etcd.
func (p planning) rotateCA() ([]on, error) {
	servers, err := p.working("it would stay with the CAs of now", "as they restart with the new CAs")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(servers, func(m Machine) bool { return m.Roles.Etcd })
	if i < 0 {
		return nil, fmt.Errorf("no server with etcd has a plan")
	}
	leader, guards := servers[i], p.guards()
	if len(guards) == 0 && !p.request.NoSnapshot {
		return nil, fmt.Errorf("no snapshot can be taken before it, as the cluster's API does not answer; mend that, or ask for it with --no-snapshot")
	}
	others := slices.DeleteFunc(servers, func(m Machine) bool { return m.Name == leader.Name })
	return slices.Concat(guards, each(newCAs, leader), each(takeCAs, leader), each(reload, leader), each(reload, others...), each(renew, p.workers()...), each(tidy, leader)), nil
}
