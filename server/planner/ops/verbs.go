// What an operation consists of: verbs, each done on a machine, in their order.

package ops

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
)

// MaxMachines bounds the machines of an operation: each has a task in its record.
const MaxMachines = 500

// verb is what is done on a machine. A task is named by its verb and its machine, and tasks of one verb that stand
// together in an operation are done side by side, as far as its limit allows.
type verb struct {
	title string // of its tasks, with the machine
	// limit is how many machines are at it at a time; 0: all.
	limit int
	// tries is how often it is begun before it has failed.
	tries int
	// gate has it wait until etcd bears that the machine restarts.
	gate bool
	// works says that it is done when the machine works, and settles after that for some time.
	works   bool
	settles time.Duration
	// away says that a machine whose agent is not there is left out.
	away bool
	// further says that the operation goes on when it has failed.
	further bool
	// firm says that there is no way back once it has begun.
	firm bool
	// whole says that the machine gets the wanted plan itself.
	whole bool
	// mends has machines that are down go first, since what they get is what they lack.
	mends bool
	// sole says that it is not left out when its machine has gone.
	sole bool
	// stops says that it leaves the distribution of its machine stopped.
	stops bool
	// wayOut is what a person does when it has failed.
	wayOut string
}

// settles is for how long a member that has joined again may be a learner, although its node, which is as old as the
// snapshot, says that it votes. The distribution makes it a voter within some seconds.
const settles = 15 * time.Second

var verbs = map[string]verb{
	"guard": {
		title: "take a snapshot on %s before anything changes", limit: 1, tries: 3,
		wayOut: "; nothing was changed. Mend that and try again with drover operations retry, or ask for it anew with --no-snapshot",
	},
	"save":   {title: "take a snapshot on %s", limit: 1, tries: 3, away: true, further: true},
	"rotate": {title: "renew the certificates of %s", limit: 1, tries: 3, gate: true, works: true},
	"renew":  {title: "renew the certificates of %s", tries: 3, works: true, away: true, further: true},
	"keys":   {title: "make a new key on %s and write all Secrets with it", limit: 1, tries: 2},
	"token": {
		title: "have %s write what etcd holds with the new server token", limit: 1, tries: 3, firm: true, sole: true,
		wayOut: "; drover operations retry goes on, and looks first how far it came. Until then no server should be restarted: etcd may have the new token, with which none of them starts yet",
	},
	"retoken": {title: "restart %s with the new server token", limit: 1, tries: 3, gate: true, works: true, firm: true, whole: true, mends: true},
	"prove":   {title: "see on %s that the new server token opens the cluster", limit: 1, tries: 3, firm: true},
	"newcas":  {title: "make new CAs on %s, signed by those of now", limit: 1, tries: 3, sole: true},
	"takecas": {
		title: "have %s take the new CAs to etcd", limit: 1, tries: 3, firm: true, sole: true,
		wayOut: "; drover operations retry goes on. etcd may have the new CAs, with which each server comes up that starts again; both are trusted",
	},
	"reload": {
		title: "restart %s with the new CAs", limit: 1, tries: 3, gate: true, works: true, firm: true, mends: true,
		wayOut: "; drover operations retry goes on. Those that have started again and those that have not trust each other",
	},
	"tidy":    {title: "remove on %s what the rotation kept there", limit: 1, tries: 3, firm: true},
	"restart": {title: "restart %s with the new key", limit: 1, tries: 5, gate: true, works: true},
	"fetch":   {title: "fetch the snapshot from S3 to %s", limit: 1, tries: 3},
	"check":   {title: "look whether the snapshot can be restored on %s", limit: 1, tries: 1},
	"stop":    {title: "stop %s", tries: 3, firm: true, stops: true},
	"restore": {title: "restore the snapshot on %s", limit: 1, tries: 2, firm: true, stops: true},
	"start":   {title: "start %s", limit: 1, tries: 3, firm: true, whole: true},
	"seal": {
		title: "have %s write what etcd holds with the agent token of this server", limit: 1, tries: 3, firm: true,
		wayOut: "; drover operations retry tries it again. The runtime there does not start another time before that: it finds a server/cred/passwd that is newer than what etcd holds",
	},
	"forget":    {title: "delete nodes of machines that are gone, on %s", limit: 1, tries: 3, works: true, firm: true},
	"join":      {title: "have %s join again", limit: 1, tries: 3, works: true, settles: settles, firm: true, whole: true},
	"reconnect": {title: "restart the kubelet of %s", tries: 3, works: true, away: true, further: true, firm: true},
	"clean":     {title: "remove on %s what the restore replaced", tries: 3, away: true, further: true, firm: true},
}

// taskID names the task of a verb on a machine.
func taskID(verb, machine string) string { return verb + " " + machine }

// Stops says that the errand of an ID leaves the distribution of its host stopped, until another plan starts it.
func Stops(id string) bool {
	parts := strings.Split(id, "-") // as decider.id writes it
	return len(parts) > 2 && verbs[parts[len(parts)-2]].stops
}

func verbOf(t operations.Task) string { name, _, _ := strings.Cut(t.ID, " "); return name }

func machineOf(t operations.Task) string { _, name, _ := strings.Cut(t.ID, " "); return name }

// services are those whose certificates can be renewed by name. Source: k3s-io/k3s pkg/util/services.
var services = []string{
	"admin", "api-server", "auth-proxy", "cloud-controller", "controller-manager", "etcd", "k3s-controller", "k3s-server",
	"kube-proxy", "kubelet", "program-controller", "program-server", "rke2-controller", "rke2-server", "scheduler", "supervisor",
}

// concerned says whether a service has certificates on a machine; see section "certificate rotation" of Rancher's planner
// (rancher/rancher pkg/capr/planner/certificaterotation.go).
func concerned(m Machine, asked []string) bool {
	worker := []string{"rke2-server", "k3s-server", "api-server", "kubelet", "kube-proxy", "auth-proxy"}
	control := append([]string{"controller-manager", "scheduler", "rke2-controller", "k3s-controller", "admin", "cloud-controller", "supervisor", "program-server", "program-controller"}, worker...)
	etcd := []string{"etcd", "kubelet", "k3s-server", "rke2-server"}
	return len(asked) == 0 || slices.ContainsFunc(asked, func(s string) bool {
		return m.Roles.Worker && slices.Contains(worker, s) || m.Roles.ControlPlane && slices.Contains(control, s) || m.Roles.Etcd && slices.Contains(etcd, s)
	})
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?$`)

// fileForm is a path or a name of a snapshot; a shell takes it as it is.
var fileForm = regexp.MustCompile(`^/?[A-Za-z0-9._+@-][A-Za-z0-9._+@/-]{0,1000}$`)

// Check is what is wrong with a request of a kind; nil when it can be asked for.
func (r Request) Check(kind string) error {
	if r.Name != "" && !nameForm.MatchString(r.Name) {
		return fmt.Errorf("%.60q cannot begin the name of a snapshot: it takes small letters, digits, dots and hyphens, 42 at most", r.Name)
	}
	for _, s := range r.Services {
		if !slices.Contains(services, s) {
			return fmt.Errorf("%.60q is not a service with certificates; those are %s", s, strings.Join(services, ", "))
		}
	}
	if kind != KindRestore {
		return nil
	}
	switch {
	case r.Target == "":
		return fmt.Errorf("a restore needs the machine on whose host the snapshot is")
	case !fileForm.MatchString(r.Snapshot) || strings.Contains(r.Snapshot, "..") || strings.Contains(strings.TrimPrefix(r.Snapshot, "/"), "/") && r.Snapshot[0] != '/':
		return fmt.Errorf("%.80q is neither the path of a snapshot nor the name of one", r.Snapshot)
	case r.FromS3 && (strings.Contains(r.Snapshot, "/") || r.Size <= 0):
		return fmt.Errorf("%.80q is not the name of a snapshot in S3", r.Snapshot)
	}
	return nil
}

// fileOn is what is restored, as the host of a machine has it.
func (d *decider) fileOn(m Machine) string {
	if d.request.FromS3 {
		return m.Host.Fetched(d.Operation.ID, d.request.Snapshot)
	}
	return d.request.Snapshot
}

// errand is what a machine gets for a verb. The error is why it cannot get it.
func (d *decider) errand(name, id string, m Machine) (Errand, error) {
	e := Errand{Machine: m.Name}
	only := func(in plans.OneTimeInstruction) []plans.OneTimeInstruction { return []plans.OneTimeInstruction{in} }
	switch r, restore := d.request, d.Operation.ID; name {
	case "save":
		prefix := r.Name
		if prefix == "" {
			prefix = DefaultName
		}
		e.Instructions = only(m.Host.Save(id, prefix))
	case guardVerb:
		prefix, known := guardNames[d.Operation.Kind]
		if !known {
			prefix = guardName
		}
		e.Instructions = only(m.Host.Save(id, prefix))
		if m.Failed && m.Errand == "" {
			e.Base = Files // what has failed would fail again, before the snapshot that is to come before its correction
		}
	case "rotate", "renew":
		e.Instructions = only(m.Host.Certificates(id, r.Services))
	case "keys":
		e.Instructions = only(m.Host.Keys(id))
	case "token":
		if d.Secrets.Next == nil || TokenHash(d.Secrets.Next.Token) != r.TokenHash {
			return e, fmt.Errorf("the new token of this rotation is not known here any more; ask for another")
		}
		e.Instructions = only(m.Host.Token(id, d.Secrets.Next.Token, r.TokenHash, opens(d.Secrets)))
	case "prove", "seal":
		e.Instructions = only(m.Host.Token(id, d.Secrets.ServerToken, TokenHash(d.Secrets.ServerToken), []string{d.Secrets.ServerToken}))
	case "newcas", "takecas", "reload", "tidy":
		in, err := r.reissue(name, id, m)
		e.Instructions = only(in)
		return e, err
	case "restart":
		e.Instructions = only(m.Host.Restart(id))
	case "reconnect":
		e.Base, e.Instructions = Joined, only(m.Host.Restart(id))
	case "fetch":
		from, err := d.Fetch(r.Snapshot, r.Size)
		if err != nil {
			return e, err
		}
		e.Base, e.Instructions = Files, only(m.Host.Fetch(id, restore, r.Snapshot, from))
		if m.Plan {
			e.Base = Delivered
		}
	case "check":
		e.Base, e.Instructions = Files, only(m.Host.Check(id, d.fileOn(m), r.likely(d.Secrets)))
		if m.Plan {
			e.Base = Delivered
		}
	case "stop":
		e.Base, e.Anew, e.Instructions = Files, true, only(m.Host.Stop(id, restore))
	case "restore":
		e.Base, e.Anew, e.Instructions = Wanted, true, append(d.Install(m.Name), m.Host.Restore(id, restore, d.fileOn(m)))
	case "start", "join", "retoken":
		e.Base = Whole
	case "forget":
		var uids []string
		for _, other := range d.Machines {
			uids = append(uids, other.UID)
		}
		e.Instructions = only(m.Host.Forget(id, uids))
	case "clean":
		e.Instructions = only(m.Host.Clean(id))
	}
	return e, nil
}

// step is a task to come.
type step struct {
	verb    string
	machine Machine
}

// steps are those of the operation, in their order; the error is why it cannot begin.
func (d *decider) steps() ([]step, error) {
	var all []step
	add := func(verb string, machines ...Machine) {
		for _, m := range machines {
			all = append(all, step{verb, m})
		}
	}
	if len(d.Machines) > MaxMachines {
		return nil, fmt.Errorf("the cluster has %d machines, and an operation of this kind takes %d at most", len(d.Machines), MaxMachines)
	}
	etcd := d.with(func(m Machine) bool { return m.Roles.Etcd && !m.Roles.ControlPlane && m.Plan })
	both := d.with(func(m Machine) bool { return m.Roles.Etcd && m.Roles.ControlPlane && m.Plan })
	control := d.with(func(m Machine) bool { return !m.Roles.Etcd && m.Roles.ControlPlane && m.Plan })
	workers := d.with(func(m Machine) bool { return !m.Roles.Etcd && !m.Roles.ControlPlane && m.Plan })
	switch d.Operation.Kind {
	case KindSnapshot:
		for _, name := range d.request.Machines {
			if !slices.ContainsFunc(d.Machines, func(m Machine) bool { return m.Name == name && m.Roles.Etcd }) {
				return nil, fmt.Errorf("the cluster has no machine %s with etcd", name)
			}
		}
		add("save", d.with(func(m Machine) bool {
			return m.Roles.Etcd && m.Member && (len(d.request.Machines) == 0 || slices.Contains(d.request.Machines, m.Name))
		})...)
	case KindCertificates:
		for _, m := range slices.Concat(etcd, both, control) {
			if concerned(m, d.request.Services) {
				add("rotate", m)
			}
		}
		for _, m := range workers {
			if concerned(m, d.request.Services) {
				add("renew", m)
			}
		}
	case KindKeys:
		leaders := append(d.with(func(m Machine) bool { return m.Roles.ControlPlane && m.Plan && m.Works && m.Connected }), d.with(func(m Machine) bool { return m.Roles.ControlPlane && m.Plan })...)
		if len(leaders) == 0 {
			break
		}
		add("keys", leaders[0])
		add("restart", etcd...)
		add("restart", leaders[0])
		add("restart", slices.DeleteFunc(append(both, control...), func(m Machine) bool { return m.Name == leaders[0].Name })...)
	case KindToken:
		return rotating(d.Machines)
	case KindCA:
		return d.request.reissuing(d.Machines, workers, d.guards())
	case KindRestore:
		return d.restoring(workers)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no machine that it concerns: none has a plan and the role for it")
	}
	return all, nil
}

// restoring are the steps of a restore.
func (d *decider) restoring(workers []Machine) ([]step, error) {
	var target *Machine
	var others, stops []Machine
	for i, m := range d.Machines {
		server := m.Roles.Etcd || m.Roles.ControlPlane
		switch {
		case m.Name == d.request.Target:
			target = &d.Machines[i]
		case server && m.Plan:
			others = append(others, m)
		}
		if server && m.Plan {
			stops = append(stops, m)
		}
		if server && m.Plan && !m.Connected {
			return nil, fmt.Errorf("%s has to be stopped, and %s; bring it back, or remove it by drover machines rm %s --force", m.Title, m.Absent, m.Name)
		}
	}
	switch {
	case target == nil:
		return nil, fmt.Errorf("the cluster has no machine %s", d.request.Target)
	case !target.Roles.Etcd:
		return nil, fmt.Errorf("%s has no etcd", target.Title)
	case !target.Connected:
		return nil, fmt.Errorf("the snapshot would be restored on %s, and %s", target.Title, target.Absent)
	}
	all := d.guards()
	if d.request.FromS3 {
		all = append(all, step{"fetch", *target})
	}
	all = append(all, step{"check", *target})
	for _, m := range stops {
		all = append(all, step{"stop", m})
	}
	all = append(all, step{"restore", *target}, step{"start", *target})
	if len(d.Secrets.Brought) > 0 {
		all = append(all, step{"seal", *target})
	}
	forgets := target.Roles.ControlPlane
	if forgets {
		all = append(all, step{"forget", *target})
	}
	for _, m := range others {
		all = append(all, step{"join", m})
		if !forgets && m.Roles.ControlPlane {
			forgets = true
			all = append(all, step{"forget", m})
		}
	}
	for _, m := range workers {
		all = append(all, step{"reconnect", m})
	}
	for _, m := range append([]Machine{*target}, others...) {
		all = append(all, step{"clean", m})
	}
	return all, nil
}

func (d *decider) with(is func(Machine) bool) []Machine {
	return slices.DeleteFunc(slices.Clone(d.Machines), func(m Machine) bool { return !is(m) })
}

// saved is the snapshot that a machine says it has.
func saved(m Machine) (errand.File, error) { return errand.ReadFile(m.Output) }
