// Package steps decides the next step of an operation on a cluster that runs: a snapshot of its etcd, a restore, a rotation
// of certificates, of CAs, of the encryption key or of the server token. It is a function: of the operation's record and of what is known of the
// machines it makes the next record and the jobs that hosts get now. The record says which step was begun, and
// the delivered plans say which job a host has, so that a crash between the two loses nothing and repeats nothing.
//
// Order and rules follow Rancher's planner (rancher/rancher pkg/capr/planner), but for what its issues found wanting: members
// are taken one at a time, each is waited for, and nothing is stopped before what is needed is known to be there.
package steps

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// Request is what is asked for; which fields count depends on the kind.
type Request struct {
	// Name begins the names of the files of a snapshot.
	Name string `json:"name,omitempty"`
	// Machines are those of whose etcd a snapshot is taken, all members without any, or whose agents are replaced by Agent.
	Machines []string `json:"machines,omitempty"`
	Agent    *Agent   `json:"agent,omitempty"`
	// Services are those whose certificates are renewed; all without any.
	Services []string `json:"services,omitempty"`
	// Snapshot is what is restored: a path on the host, or the name of one of the distribution's own there. Target is the
	// machine on whose host it is, which begins the cluster anew.
	Snapshot string `json:"snapshot,omitempty"`
	Target   string `json:"target,omitempty"`
	// NoSnapshot has a restore or a rotation of the CAs begin without a snapshot of what the cluster is now.
	NoSnapshot bool `json:"noSnapshot,omitempty"`
	// FromS3 says that Snapshot is the name of an object of Size bytes in the cluster's bucket, which Target fetches first.
	FromS3 bool  `json:"fromS3,omitempty"`
	Size   int64 `json:"size,omitempty"`
	// TokenHash is that of the server token which the cluster has to have: the new one of a rotation, or the one that a
	// restored snapshot needs, which is certain when its host has looked at it. Empty is the one that it has.
	TokenHash string `json:"tokenHash,omitempty"`
	// CA is the SHA-256, in hex, by which servers know the new CAs of a rotation; empty until a host has made them.
	CA string `json:"ca,omitempty"`
	// Spec is what the cluster is to be once its servers have stopped for the restore; nil leaves it as it is.
	Spec *clusterspec.Spec `json:"spec,omitempty"`
}

// MaxMachines bounds the machines of an operation: each has a task in its record.
const MaxMachines = 500

var (
	nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?$`) })
	// fileForm is a path or a name of a snapshot; a shell takes it as it is.
	fileForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/?[A-Za-z0-9._+@-][A-Za-z0-9._+@/-]{0,1000}$`) })
)

// Check is what is wrong with a request of a kind; nil when it can be asked for. The error is for the person who asks.
func (r Request) Check(kind operations.Kind) error {
	if r.Name != "" && !nameForm().MatchString(r.Name) {
		return fmt.Errorf("%.60q cannot begin the name of a snapshot: it takes small letters, digits, dots and hyphens, 42 at most", r.Name)
	}
	for _, s := range r.Services {
		if !slices.Contains(services, s) {
			return fmt.Errorf("%.60q is not a service with certificates; those are %s", s, strings.Join(services, ", "))
		}
	}
	if kind != operations.KindRestore {
		return nil
	}
	switch {
	case r.Target == "":
		return fmt.Errorf("a restore needs the machine on whose host the snapshot is")
	case !fileForm().MatchString(r.Snapshot) || strings.Contains(r.Snapshot, "..") || strings.Contains(strings.TrimPrefix(r.Snapshot, "/"), "/") && r.Snapshot[0] != '/':
		return fmt.Errorf("%.80q is neither the path of a snapshot nor the name of one", r.Snapshot)
	case r.FromS3 && (strings.Contains(r.Snapshot, "/") || r.Size <= 0):
		return fmt.Errorf("%.80q is not the name of a snapshot in S3", r.Snapshot)
	}
	return nil
}

// ReadRequest reads the request of an operation, which is the field ask of its parameters. The error says to ask for it anew.
func ReadRequest(o operations.Operation) (Request, error) {
	var p struct {
		Ask *Request `json:"ask"`
	}
	if err := json.Unmarshal(o.Params, &p); err != nil || p.Ask == nil {
		return Request{}, fmt.Errorf("what operation %s was to do cannot be read, as a server of another version may have written it; ask for it anew", o.ID)
	}
	return *p.Ask, nil
}

// Machine is what a step depends on of a machine that stays in the cluster.
type Machine struct {
	Name string
	// Title names the machine with its node and address, NodeName is the host's name.
	Title, NodeName string
	UID             string
	Roles           records.Roles
	// Plan says that it has a plan, Connected that its agent is there and takes what is put into that, Member that its etcd has joined.
	Plan, Connected, Member bool
	// Absent is why it is not Connected: since when and why the agent is away, or what the plan is busy with. Awaited is until when it is
	// waited for all the same, as agents come to a new leader one after the other.
	Absent  string
	Awaited time.Time
	PlanState
	// Works says that it is Active; Cause and NextStep are of its state.
	Works           bool
	Cause, NextStep string
	// Held is why it must not restart now; empty when it may.
	Held string
	// Host is where its jobs are done.
	Host hostjob.Host
}

// PlanState is the plan of a machine as it was delivered.
type PlanState struct {
	// Job is the ID of the one in it; empty without one.
	Job string
	// Applied says that it was carried out, and Failed that it could not be; Fault is why.
	Applied, Failed bool
	Fault           string
	// Current says that it is what the cluster wants, and Wanted that no job is beside it.
	Current, Wanted bool
	// Output is what its job printed.
	Output []byte
}

// Input is what a decision depends on.
type Input struct {
	Now       time.Time
	Operation operations.Operation
	// Machines are those that stay, in the order in which machines change.
	Machines []Machine
	// Concurrency is how many workers may be away at a time.
	Concurrency int
	// Secrets are the cluster's.
	Secrets records.ClusterSecrets
	// Install are the instructions that put the wanted version on the host of a machine and start nothing.
	Install func(machine string) []plans.OneTimeInstruction
	// Fetch is where a host fetches an object of the cluster's bucket from; the error says why none can.
	Fetch func(object string, size int64) (hostjob.Source, error)
	// Spec says that the cluster is as the request wants it.
	Spec bool
	// Answers says that the cluster's API can be asked, and so that its etcd works. Awaited is until when a new leader waits for that.
	Answers bool
	Awaited time.Time
	// Paused is since when the cluster is paused, as a sentence; empty when it is not.
	Paused string
}

// Base is the plan that a job is put into.
type Base int

const (
	// Delivered is the plan that the machine has.
	Delivered Base = iota
	// Files are the files of that plan: nothing is installed and no probe is asked.
	Files
	// Wanted are the files of the plan that the cluster wants.
	Wanted
	// Whole is that plan itself, with its probes, and restarts the machine.
	Whole
	// Joined is the plan that the machine has; where the server that it joined is gone, it is the wanted one with another.
	Joined
)

// Job is what a machine gets now.
type Job struct {
	Machine string
	Base    Base
	// Instructions are the job, with what goes before it.
	Instructions []plans.OneTimeInstruction
	// Anew says that the machine's etcd begins anew with it, and joins again.
	Anew bool
}

// Saved is a snapshot that was taken.
type Saved struct {
	Machine string
	File    hostjob.File
}

// Output is a decision.
type Output struct {
	// Operation is the next record.
	Operation operations.Operation
	Jobs      []Job
	Saved     []Saved
	// Respec has the cluster become what the request wants.
	Respec bool
	// Token has the cluster's server token become the one with this hash; see InForce.
	Token string
	// Begun says of a restore that servers were stopped for it, and Restored that the cluster has come up again.
	Begun, Restored bool
	// Again is when to look again though nothing changed; zero: not.
	Again time.Duration
}

// Target is the machine that begins the cluster anew by an operation; empty when none does.
func Target(o operations.Operation) string {
	if o.Kind != operations.KindRestore {
		return ""
	}
	r, err := ReadRequest(o)
	if err != nil {
		return ""
	}
	return r.Target
}
