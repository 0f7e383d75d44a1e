package steps

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// settles is for how long a member that has joined again may be a learner, although its node, which is as old as the
// snapshot, says that it votes. The distribution makes it a voter within some seconds.
const settles = 15 * time.Second

var (
	fetch = Step{
		Name: "fetch", Title: "fetch the snapshot from S3 to %s", OnFailure: OnFailure{Tries: 3},
		Job: func(d *decider, id string, m Machine) (Job, error) {
			from, err := d.Fetch(d.request.Snapshot, d.request.Size)
			if err != nil {
				return Job{}, err
			}
			return beside(m)(m.Host.Fetch(id, d.Operation.ID, d.request.Snapshot, from))
		},
	}
	check = Step{
		Name: "check", Title: "look whether the snapshot can be restored on %s", OnFailure: OnFailure{Tries: 1},
		Job: func(d *decider, id string, m Machine) (Job, error) {
			return beside(m)(m.Host.Check(id, d.file(m), d.request.likely(d.Secrets)))
		},
		Done: Done{Read: func(d *decider, m Machine) (string, error) {
			file, err := hostjob.ReadFile(m.Output)
			if err != nil {
				return "", err
			}
			if file.TokenHash != "" { // an archive does not say it
				// Once servers have stopped for it, they start with the token that the snapshot needs.
				needs := d.request
				needs.TokenHash = file.TokenHash
				d.now(needs)
			}
			return found(file), nil
		}},
	}
	stop = Step{
		Name: "stop", Title: "stop %s", Needs: Needs{Turn: Together}, OnFailure: OnFailure{Tries: 3, Irreversible: true}, Stops: true,
		Job: func(d *decider, id string, m Machine) (Job, error) {
			e, err := just(m.Host.Stop(id, d.Operation.ID))
			e.Base, e.Anew = Files, true
			return e, err
		},
	}
	restore = Step{
		Name: "restore", Title: "restore the snapshot on %s", Needs: Needs{Token: true, Spec: true}, OnFailure: OnFailure{Tries: 2, Irreversible: true}, Stops: true,
		Job: func(d *decider, id string, m Machine) (Job, error) {
			return Job{Base: Wanted, Anew: true, Instructions: append(d.Install(m.Name), m.Host.Restore(id, d.Operation.ID, d.file(m)))}, nil
		},
	}
	start = Step{Name: "start", Title: "start %s", OnFailure: OnFailure{Tries: 3, Irreversible: true}}
	// Beside the server token a snapshot holds the agent token of its time, in a file that the distribution compares with its own
	// when it starts: one that is newer than what etcd has ends it. So a restore by a token that people brought has the server write
	// that anew before anything starts a second time. Source: k3s-io/k3s pkg/cluster/bootstrap.go, ReconcileBootstrapData.
	seal = Step{
		Name: "seal", Title: "have %s write what etcd holds with the agent token of this server", Job: tokenOfNow,
		Needs: Needs{Unless: func(d *decider) string {
			if d.Secrets.BroughtToken() {
				return ""
			}
			return "it has that one already"
		}},
		OnFailure: OnFailure{Tries: 3, Irreversible: true, Advice: "; drover operations retry tries it again. The runtime there does not start another time before that: it finds a server/cred/passwd that is newer than what etcd holds"},
	}
	forget = Step{
		Name: "forget", Title: "delete nodes of machines that are gone, on %s", Done: Done{Works: true}, OnFailure: OnFailure{Tries: 3, Irreversible: true},
		Job: func(d *decider, id string, m Machine) (Job, error) {
			var uids []string
			for _, other := range d.Machines {
				uids = append(uids, other.UID)
			}
			return just(m.Host.Forget(id, uids))
		},
	}
	join      = Step{Name: "join", Title: "have %s join again", Done: Done{Works: true, Settles: settles}, OnFailure: OnFailure{Tries: 3, Irreversible: true}}
	reconnect = Step{
		Name: "reconnect", Title: "restart the kubelet of %s", Needs: Needs{Turn: Together, Skip: true}, Done: Done{Works: true},
		OnFailure: OnFailure{Tries: 3, Continue: true, Irreversible: true},
		Job: func(_ *decider, id string, m Machine) (Job, error) {
			e, err := just(m.Host.Restart(id))
			e.Base = Joined
			return e, err
		},
	}
	clean = Step{
		Name: "clean", Title: "remove on %s what the restore replaced", Needs: Needs{Turn: Together, Skip: true},
		OnFailure: OnFailure{Tries: 3, Continue: true, Irreversible: true},
		Job:       func(_ *decider, id string, m Machine) (Job, error) { return just(m.Host.Clean(id)) },
	}
)

// beside is a job beside the plan of a machine, or beside nothing but its files while it has none.
func beside(m Machine) func(plans.OneTimeInstruction) (Job, error) {
	return func(in plans.OneTimeInstruction) (Job, error) {
		e, err := just(in)
		if !m.Plan {
			e.Base = Files
		}
		return e, err
	}
}

// file is what is restored, as the host of a machine has it.
func (p planning) file(m Machine) string {
	if p.request.FromS3 {
		return m.Host.Fetched(p.Operation.ID, p.request.Snapshot)
	}
	return p.request.Snapshot
}

// likely are the hashes of a cluster's server tokens, that of the request first: its snapshot was listed with it.
func (r Request) likely(s records.ClusterSecrets) []string {
	hashes := s.TokenHashes()
	if i := slices.Index(hashes, r.TokenHash); i > 0 {
		return slices.Concat(hashes[i:i+1], hashes[:i], hashes[i+1:])
	}
	return hashes
}

// restore are the steps of a restore.
func (p planning) restore() ([]on, error) {
	var target *Machine
	var others, servers []Machine
	for i, m := range p.Machines {
		server := (m.Roles.Etcd || m.Roles.ControlPlane) && m.Plan
		switch {
		case m.Name == p.request.Target:
			target = &p.Machines[i]
		case server:
			others = append(others, m)
		}
		if server && !m.Connected {
			return nil, fmt.Errorf("%s has to be stopped, and %s; bring it back, or remove it by drover machines rm %s --force", m.Title, m.Absent, m.Name)
		}
		if server {
			servers = append(servers, m)
		}
	}
	switch {
	case target == nil:
		return nil, fmt.Errorf("the cluster has no machine %s", p.request.Target)
	case !target.Roles.Etcd:
		return nil, fmt.Errorf("%s has no etcd", target.Title)
	case !target.Connected:
		return nil, fmt.Errorf("the snapshot would be restored on %s, and %s", target.Title, target.Absent)
	}
	to := p.guards()
	if p.request.FromS3 {
		to = append(to, on{fetch, *target})
	}
	to = slices.Concat(to, each(check, *target), each(stop, servers...), each(restore, *target), each(start, *target))
	if len(p.Secrets.Brought) > 0 {
		to = append(to, on{seal, *target})
	}
	forgets := target.Roles.ControlPlane
	if forgets {
		to = append(to, on{forget, *target})
	}
	for _, m := range others {
		to = append(to, on{join, m})
		if !forgets && m.Roles.ControlPlane {
			forgets = true
			to = append(to, on{forget, m})
		}
	}
	return slices.Concat(to, each(reconnect, p.workers()...), each(clean, *target), each(clean, others...)), nil
}
