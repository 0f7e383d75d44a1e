// The rotation of the server token of a cluster of k3s or RKE2.
//
// The distribution's command for it writes what etcd holds anew and no settings: from then on a server that starts with the old
// token does not come up. So all servers have to work before it, the store has both tokens, and those that went down go first.

package steps

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/operations"
)

var (
	token = Step{
		Name: "token", Title: "have %s write what etcd holds with the new server token",
		OnFailure: OnFailure{Tries: 3, Irreversible: true, Gone: true, Advice: "; drover operations retry goes on, and looks first how far it came. Until then no server should be restarted: etcd may have the new token, with which none of them starts yet"},
		Job: func(d *decider, id string, m Machine) (Job, error) {
			if d.Secrets.Next == nil || d.Secrets.Next.Hash() != d.request.TokenHash {
				return Job{}, fmt.Errorf("the new token of this rotation is not known here any more; ask for another")
			}
			return just(m.Host.Token(id, d.Secrets.Next.Token, d.request.TokenHash, d.Secrets.Opening()))
		},
	}
	retoken = Step{
		Name: "retoken", Title: "restart %s with the new server token", Needs: Needs{Quorum: true, DownFirst: true, Token: true}, Done: Done{Works: true},
		OnFailure: OnFailure{Tries: 3, Irreversible: true},
	}
	prove = Step{
		Name: "prove", Title: "see on %s that the new server token opens the cluster", Needs: Needs{Token: true},
		OnFailure: OnFailure{Tries: 3, Irreversible: true}, Job: tokenOfNow,
	}
)

// tokenOfNow has a server write what etcd holds with the token that the cluster has.
func tokenOfNow(d *decider, id string, m Machine) (Job, error) {
	now := d.Secrets.ServerToken
	return just(m.Host.Token(id, now, installers.HashServerToken(now), []string{now}))
}

// rotateToken are the steps of a rotation of the server token. It begins on the machine that began the cluster, if that has what it is
// to have: those that join meet it there.
func (p planning) rotateToken() ([]on, error) {
	servers, err := p.working("a server that does not get the new token cannot start again", "as they restart with the new token")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(servers, func(m Machine) bool { return m.Roles.Etcd && m.Current })
	if i < 0 {
		return nil, fmt.Errorf("no server with etcd has the plan that the cluster wants; let that change come to its end first")
	}
	leader := servers[i]
	others := slices.DeleteFunc(servers, func(m Machine) bool { return m.Name == leader.Name })
	return slices.Concat(each(token, leader), each(retoken, leader), each(retoken, others...), each(prove, leader)), nil
}

// working are the servers, all of which have to work before a rotation that each of them restarts for. away says what becomes of one
// that is not there then, and why for what they have to.
func (p planning) working(away, why string) (servers []Machine, err error) {
	for _, m := range p.Machines {
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

// otherToken says that the request needs another server token than the cluster has.
func (p planning) otherToken() bool {
	return p.request.TokenHash != "" && p.request.TokenHash != p.Secrets.TokenHash()
}

// retokens has the cluster's token become what the request needs.
func (d *decider) retokens(m Machine) error {
	if _, known := d.Secrets.InForce(d.request.TokenHash); !known {
		return fmt.Errorf("the server token with the hash %s is not known here any more", d.request.TokenHash)
	}
	d.out.Token = d.request.TokenHash
	d.waits(m, "the cluster takes the server token that it needs", "")
	return nil
}

// now has the request be another one from now on, in the record, too.
func (d *decider) now(r Request) { d.request, d.out.Operation = r, needing(d.out.Operation, r) }

// needing is the record of an operation with a request in the place of its own.
func needing(o operations.Operation, r Request) operations.Operation {
	params := map[string]json.RawMessage{}
	ask, err := json.Marshal(r)
	if err != nil || json.Unmarshal(o.Params, &params) != nil {
		return o // it could not have been read
	}
	params["ask"] = ask
	if text, err := json.Marshal(params); err == nil {
		o.Params = text
	}
	return o
}
