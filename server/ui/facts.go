// What pages show: values, and the functions that give them to the caller.

package ui

import (
	"context"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// Facts are where the pages get what they show. Each function leaves out what who may not see; ok is false for what
// does not exist, or not for them.
type Facts struct {
	Clusters func(who auth.Identity) []ClusterRow
	Cluster  func(who auth.Identity, key string) (c Cluster, ok bool)
	// Join is how a host joins the cluster; it holds the registration token.
	Join func(who auth.Identity, key string) (j apitypes.Join, docker, ok bool)
	// Machines are those of one cluster or fleet by its id, or all for "".
	Machines  func(who auth.Identity, clusterID string) []apitypes.Machine
	Machine   func(who auth.Identity, key string) (m Machine, ok bool)
	Operation func(who auth.Identity, id string) (o Operation, ok bool)
	Fleets    func(who auth.Identity) []apitypes.Fleet
	Versions  func() apitypes.Versions
	Tokens    func(who auth.Identity) []apitypes.Token
	Users     func(who auth.Identity) []User
	Settings  func(who auth.Identity) []Setting
	Roles     func(who auth.Identity) []Role
	Bindings  func(who auth.Identity) []Binding
	// Servers are those that run; the server that answers the request comes first.
	Servers func(who auth.Identity) []Server
	Audit   func(ctx context.Context, who auth.Identity, wanted AuditWanted) (AuditPart, error)
}

// Topics of changes. Of one thing it is the kind, a slash and the key.
const (
	TopicClusters = "clusters"
	TopicMachines = "machines"
	TopicFleets   = "fleets"
	TopicTokens   = "tokens"
	TopicUsers    = "users"
	TopicSettings = "settings"
	// TopicServers is the servers, and which tunnels are open.
	TopicServers  = "servers"
	TopicVersions = "versions"
	// TopicAudit is the audit log of this server.
	TopicAudit = "audit"
	// TopicRights is what users may do.
	TopicRights = "rights"
)

// TopicCluster is a cluster or a fleet, by its key, with all that belongs to it.
func TopicCluster(key string) string { return "cluster/" + key }

// TopicMachine is a machine with its plan and its connections.
func TopicMachine(key string) string { return "machine/" + key }

// TopicOperation is an operation.
func TopicOperation(id string) string { return "operation/" + id }

// ClusterRow is a cluster in the list.
type ClusterRow struct {
	apitypes.Cluster
	// States is how many machines are in each state.
	States []Count
	// Operation is what is under way; nil when nothing is.
	Operation *apitypes.OperationSummary
	// Certificate is the one that ends first, and Snapshot when the last one was taken; zero where that is not known.
	Certificate records.CertificateEnd
	Snapshot    time.Time
	// Rehearsals are those of its snapshots: the last one, the last good one, and when the next is due.
	Rehearsals apitypes.Rehearsals
}

// Count is how many things have a state.
type Count struct {
	State string
	N     int
}

// Cluster is a cluster with all that its page shows.
type Cluster struct {
	ClusterRow
	Machines []apitypes.Machine
	Why      apitypes.Why
	// Operations are those of the cluster, newest first; only those that have not ended have tasks.
	Operations []apitypes.Operation
	// Events are the newest ones, newest first.
	Events []apitypes.Event
	// Snapshots are those that are known, newest first.
	Snapshots []apitypes.Snapshot
	// Etcd are the machines with etcd, and what each is to it.
	Etcd []Member
	// MayJoin says that the caller may see the command by which hosts join.
	MayJoin bool
	// MayUse says that the caller may use the terminal of the cluster.
	MayUse bool
}

// Machine is a machine with all that its page shows.
type Machine struct {
	apitypes.Machine
	Certificate records.CertificateEnd
	Why         apitypes.Why
	// Plan is nil where there is none, or the caller may not see it.
	Plan *Plan
	// Tunnels are the open ones, Watches those of its agent on its plan.
	Tunnels, Watches []Connection
	// In is the key of its cluster or fleet; empty where the caller may not see that.
	In string
	// Units are those of systemd whose journal can be read.
	Units []string
}

// Server is a server that runs.
type Server struct {
	URL, Version string
	Started      time.Time
	// Here is the one that answers, and Leads the one that decides; Unled says that none is known to.
	Here, Leads, Unled bool
}

// Connection is one of a host to a server.
type Connection struct {
	// Server is its URL, and Agent the release of the agent of a tunnel; empty when that is not known.
	Server, Agent string
	Since         time.Time
}

// Plan is the plan that a machine has, with secrets masked.
type Plan struct {
	// State is where the agent is with it, and Checksum names it.
	State, Checksum string
	Applied         time.Time
	Files           []PlanFile
	Instructions    []PlanInstruction
	Probes          []PlanProbe
}

// PlanFile is a file of a plan. Text is in the form of a diff, and empty where nothing of it is shown.
type PlanFile struct {
	Path, Permissions, Text string
	Delete                  bool
	Size                    int
}

// PlanInstruction is an instruction of a plan.
type PlanInstruction struct {
	Name, Image string
	Periodic    bool
}

// PlanProbe is a probe with what the agent found last.
type PlanProbe struct {
	Name    string
	Healthy bool
	Known   bool
}

// Operation is an operation with the ID of its cluster or fleet.
type Operation struct {
	apitypes.Operation
	ClusterID string
	// Fleet says that it is one of a fleet.
	Fleet bool
	// Of is the cluster; nil for a fleet, and where the caller may not see it.
	Of *apitypes.Cluster
}

// Role is a global role, or a role template of clusters or projects.
type Role struct {
	ID, Name, Description, Context string
	Builtin, Locked                bool
	// Rules are written as people read them, Inherits the IDs of roles whose rules it has, too.
	Rules    []string
	Inherits []string
}

// Binding is that a user or a group has a role.
type Binding struct {
	ID, Role string
	// Name is whose it is, as people know them; Group says that it is a group.
	Name  string
	Group bool
	// Cluster and Project are where it holds; empty for the whole server.
	Cluster, ClusterID, Project string
	Created                     time.Time
	// About is what auth.May is asked about.
	About auth.Object
}

// User is a user.
type User struct {
	ID, Username, Name, Description string
	Disabled, MustChange, Me        bool
	Created                         time.Time
	// Roles are those at the whole server; in clusters they have further ones.
	Roles []string
}

// AuditWanted is which part of the audit log is wanted: the newest entries, or those before or after a place.
type AuditWanted struct {
	audit.Query
	Before, After audit.Place
	Most          int
}

// AuditPart is a part of the audit log, oldest entry first.
type AuditPart struct {
	apitypes.Audit
	// First and Last are the places of the oldest and the newest entry; zero for none. Latest says that there are no newer ones.
	First, Last audit.Place
	Latest      bool
}

// Setting is a setting.
type Setting struct {
	// About says what it does.
	Name, About, Value, Source string
	Customized                 bool
	ReadOnly                   bool
}

// underWay is the operation that is worked on, of those of a cluster.
func (c Cluster) underWay() *apitypes.Operation {
	for i, o := range c.Operations {
		if o.State == operations.Running || o.State == operations.Stopping {
			return &c.Operations[i]
		}
	}
	return nil
}
