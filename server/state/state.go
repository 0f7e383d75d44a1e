// Package state is the one list of what the server keeps: each collection with its
// type, its name in the store and whether it is encrypted at rest.
package state

import (
	"cmp"
	"context"
	"strings"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// State is the open store with its collections.
type State struct {
	Store *store.Store
	// Check is asked before each write; see store.Options. It is set before the first write, and nil allows all.
	Check func(context.Context, []store.Write) (ended func(), err error)
	Indexes
	People
	Servers

	// Clusters are encrypted and keyed "<namespace>/<name>", as are the next but for the comment.
	Clusters *store.Collection[records.Cluster]
	// ClusterSecrets are encrypted and have the cluster's key.
	ClusterSecrets *store.Collection[records.ClusterSecrets]
	// RegistrationTokens are encrypted and keyed "<cluster id>/<name>".
	RegistrationTokens *store.Collection[records.RegistrationToken]
	// Fleets are encrypted.
	Fleets *store.Collection[records.Fleet]
	// GivenPlans are the plans that people gave to machines of fleets, encrypted and keyed as the operation.
	GivenPlans *store.Collection[records.GivenPlan]
	// Machines are encrypted and keyed "<namespace>/custom-…", Docker hosts "<cluster id>/m-…".
	Machines *store.Collection[records.Machine]
	// PlanSecrets are encrypted and keyed "<namespace>/custom-…-machine-plan".
	PlanSecrets *store.Collection[records.PlanSecret]
	// NodeConfigs are encrypted and have the key of a Docker host's machine.
	NodeConfigs *store.Collection[records.NodeConfig]
	// RKEStates are encrypted and have the key of an RKE1 cluster.
	RKEStates *store.Collection[records.RKEState]
	// ClusterAgents are encrypted and have the cluster's key.
	ClusterAgents *store.Collection[records.ClusterAgent]
	// Objects are the Secrets and ConfigMaps that clusters refer to, encrypted and keyed "<kind>/<namespace>/<name>".
	Objects *store.Collection[objects.Object]
	// Operations are encrypted, as a queued one has the spec that is to come, and keyed "<subject>/<id>", the subject being the key of a cluster or a fleet.
	Operations *store.Collection[operations.Operation]
	// Snapshots are encrypted, as they have the spec of their cluster, and keyed "<namespace>/<cluster>/<machine>/<name>".
	Snapshots *store.Collection[records.Snapshot]
	// Rehearsals are encrypted, as causes are, and have the key of a cluster.
	Rehearsals *store.Collection[records.Rehearsals]
	// Events are encrypted, as causes are, and keyed "<cluster id>/<number>" in the order of their making.
	Events *store.Collection[records.EventPage]
}

// Indexes find clusters, machines and operations.
type Indexes struct {
	// ClustersByID finds a cluster by its management ID.
	ClustersByID *store.Index[records.Cluster, string]
	// ClustersByName finds clusters by their names without namespace.
	ClustersByName *store.Index[records.Cluster, string]
	// ClustersByCreator and FleetsByCreator find what a user has made by the user's ID.
	ClustersByCreator *store.Index[records.Cluster, string]
	FleetsByCreator   *store.Index[records.Fleet, string]
	// FleetsByID finds a fleet by its ID.
	FleetsByID *store.Index[records.Fleet, string]
	// MachinesByCluster finds the machines of a cluster or a fleet.
	MachinesByCluster *store.Index[records.Machine, records.ClusterKey]
	// ControlPlanes finds the machines of a cluster that run its Kubernetes API, or would if it were one of RKE1.
	ControlPlanes *store.Index[records.Machine, records.ClusterKey]
	// MachinesByHost finds machines by what their hosts call themselves; see records.Machine.MachineID.
	MachinesByHost *store.Index[records.Machine, string]
	// MachinesByOrigin finds machines by whom they registered by.
	MachinesByOrigin *store.Index[records.Machine, records.Origin]
	// OperationsBySubject finds the operations about a cluster, in the order of their IDs; those that have ended too.
	OperationsBySubject *store.Index[operations.Operation, records.ClusterKey]
	// OperationsByID finds an operation by its ID.
	OperationsByID *store.Index[operations.Operation, string]
	// RegistrationTokensByHash finds registration tokens by randomid.Hash of the token. A lookup by
	// the hash takes a time that depends on the hash alone, which says nothing about the token.
	RegistrationTokensByHash *store.Index[records.RegistrationToken, string]
	// ClusterAgentsBySecret finds the agent that this server deploys by randomid.Hash of its token.
	ClusterAgentsBySecret *store.Index[records.ClusterAgent, string]
}

// People are users, what they may do, and by what they are known.
type People struct {
	// Users are encrypted and keyed by ID.
	Users *store.Collection[records.User]
	// UserNames hold each login name once; they are encrypted and keyed by it in lower case. Users made before there were any have none.
	UserNames *store.Collection[records.UserName]
	// GlobalRoles and RoleTemplates are those that people made, and the flags of built-in ones; both, and Bindings, are encrypted, so
	// that a client that writes to the store without the key cannot give itself rights, and keyed by ID.
	GlobalRoles   *store.Collection[roles.Role]
	RoleTemplates *store.Collection[roles.Role]
	Bindings      *store.Collection[roles.Binding]
	// Preferences are what dashboards keep for users, encrypted and keyed "<user id>/<name>".
	Preferences *store.Collection[records.Preference]
	// Projects are those that people made, encrypted and keyed "<cluster id>/p-xxxxx".
	Projects *store.Collection[records.Project]
	// Namespaces are the projects of clusters' namespaces, encrypted and keyed "<cluster id>/<page>".
	Namespaces *store.Collection[records.NamespacePage]
	// ProjectSecrets are encrypted and keyed "<cluster id>/p-xxxxx/<name>".
	ProjectSecrets *store.Collection[records.ProjectSecret]
	// Directories are encrypted and keyed by kind, DirectoryTokens encrypted and keyed by the ID of a user.
	Directories     *store.Collection[records.Directory]
	DirectoryTokens *store.Collection[records.DirectoryToken]
	// Tokens are encrypted and keyed by name.
	Tokens *store.Collection[records.Token]
	// TokenUses are keyed as the tokens.
	TokenUses *store.Collection[records.TokenUse]
	// UsersByName finds a user by the login name in lower case.
	UsersByName *store.Index[records.User, string]
	// UsersByPrincipal finds the user whom directories know by a principal.
	UsersByPrincipal *store.Index[records.User, string]
	// TokensByUser finds the tokens of a user.
	TokensByUser *store.Index[records.Token, string]
	// BindingsBySubject finds bindings by the principal that they are for, BindingsByCluster those of a cluster and its projects,
	// BindingsByRole those to a role.
	BindingsBySubject *store.Index[roles.Binding, string]
	BindingsByCluster *store.Index[roles.Binding, string]
	BindingsByRole    *store.Index[roles.Binding, RoleKey]
}

// Servers are what servers of one store share.
type Servers struct {
	// Settings are keyed by name.
	Settings *store.Collection[records.Setting]
	// Replicas are the servers that run, keyed by ID; they end with their lease.
	Replicas *store.Collection[records.Replica]
	// Connections are the hosts' tunnels, keyed "<subject>|<replica>"; they end with their server's lease.
	Connections *store.Collection[records.Connection]
	// Watches are the agents' watches on their plan Secrets, keyed "<key of the Secret>|<replica>"; they end with their server's lease.
	Watches *store.Collection[records.Connection]
	// ServerSecrets are encrypted and keyed by name.
	ServerSecrets *store.Collection[records.ServerSecret]
}

// Open opens the store with all collections. The names and which are sensitive are part of the data's schema: to change one is a migration. Errors
// are store.Open's.
func Open(ctx context.Context, o store.Options) (*State, error) {
	s, all := &State{}, []store.Bindable{}
	s.Clusters = collection[records.Cluster](&all, "clusters", true)
	s.ClusterSecrets = collection[records.ClusterSecrets](&all, "clustersecrets", true)
	s.RegistrationTokens = collection[records.RegistrationToken](&all, "registrationtokens", true)
	s.Fleets = collection[records.Fleet](&all, "fleets", true)
	s.GivenPlans = collection[records.GivenPlan](&all, "givenplans", true)
	s.Machines = collection[records.Machine](&all, "machines", true)
	s.PlanSecrets = collection[records.PlanSecret](&all, "plansecrets", true)
	s.NodeConfigs = collection[records.NodeConfig](&all, "nodeconfigs", true)
	s.RKEStates = collection[records.RKEState](&all, "rkestates", true)
	s.ClusterAgents = collection[records.ClusterAgent](&all, "clusteragents", true)
	s.Objects = collection[objects.Object](&all, "objects", true)
	s.Operations = collection[operations.Operation](&all, "operations", true)
	s.Snapshots = collection[records.Snapshot](&all, "snapshots", true)
	s.Rehearsals = collection[records.Rehearsals](&all, "rehearsals", true)
	s.Events = collection[records.EventPage](&all, "events", true)
	s.Users = collection[records.User](&all, "users", true)
	s.UserNames = collection[records.UserName](&all, "usernames", true)
	s.GlobalRoles = collection[roles.Role](&all, "globalroles", true)
	s.RoleTemplates = collection[roles.Role](&all, "roletemplates", true)
	s.Bindings = collection[roles.Binding](&all, "bindings", true)
	s.Projects = collection[records.Project](&all, "projects", true)
	s.Namespaces = collection[records.NamespacePage](&all, "namespaces", true)
	s.ProjectSecrets = collection[records.ProjectSecret](&all, "projectsecrets", true)
	s.Directories = collection[records.Directory](&all, "directories", true)
	s.DirectoryTokens = collection[records.DirectoryToken](&all, "directorytokens", true)
	s.Tokens = collection[records.Token](&all, "tokens", true)
	s.TokenUses = collection[records.TokenUse](&all, "tokenuses", false)
	s.Preferences = collection[records.Preference](&all, "preferences", true)
	s.Settings = collection[records.Setting](&all, "settings", false)
	s.Replicas = collection[records.Replica](&all, "replicas", false)
	s.Connections = collection[records.Connection](&all, "connections", false)
	s.Watches = collection[records.Connection](&all, "watches", false)
	s.ServerSecrets = collection[records.ServerSecret](&all, "serversecrets", true)
	s.index()
	o.Check = func(ctx context.Context, writes []store.Write) (func(), error) {
		if s.Check == nil {
			return func() {}, nil
		}
		return s.Check(ctx, writes)
	}
	var err error
	if s.Store, err = store.Open(ctx, o, all...); err != nil {
		return nil, err
	}
	return s, nil
}

// collection is one of the store's, which are all of them.
func collection[T any](all *[]store.Bindable, name string, sensitive bool) *store.Collection[T] {
	c := store.NewCollection[T](name, sensitive)
	*all = append(*all, c)
	return c
}

// index makes the indexes.
func (s *State) index() {
	s.ClustersByID = store.NewIndex(s.Clusters, func(c *records.Cluster) []string { return []string{c.ID} })
	s.ClustersByName = store.NewIndex(s.Clusters, func(c *records.Cluster) []string { return []string{c.Name} })
	s.ClustersByCreator = store.NewIndex(s.Clusters, func(c *records.Cluster) []string { return []string{c.CreatorID} })
	s.FleetsByCreator = store.NewIndex(s.Fleets, func(f *records.Fleet) []string { return []string{f.CreatorID} })
	s.FleetsByID = store.NewIndex(s.Fleets, func(f *records.Fleet) []string { return []string{f.ID} })
	s.MachinesByCluster = store.NewIndex(s.Machines, func(m *records.Machine) []records.ClusterKey { return []records.ClusterKey{m.Cluster()} })
	s.ControlPlanes = store.NewIndex(s.Machines, func(m *records.Machine) []records.ClusterKey {
		if !m.Roles.ControlPlane {
			return nil
		}
		return []records.ClusterKey{m.Cluster()}
	})
	s.MachinesByHost = store.NewIndex(s.Machines, func(m *records.Machine) []string { return []string{m.MachineID} })
	s.MachinesByOrigin = store.NewIndex(s.Machines, func(m *records.Machine) []records.Origin { return []records.Origin{m.Origin} })
	s.OperationsBySubject = store.NewIndex(s.Operations, func(o *operations.Operation) []records.ClusterKey {
		return []records.ClusterKey{records.ClusterKey(o.Subject)}
	})
	s.OperationsByID = store.NewIndex(s.Operations, func(o *operations.Operation) []string { return []string{o.ID} })
	s.people()
	s.RegistrationTokensByHash = store.NewIndex(s.RegistrationTokens, func(t *records.RegistrationToken) []string {
		return []string{randomid.Hash(t.Token)}
	})
	s.ClusterAgentsBySecret = store.NewIndex(s.ClusterAgents, func(a *records.ClusterAgent) []string {
		if a.Secret == "" {
			return nil
		}
		return []string{randomid.Hash(a.Secret)}
	})
}

// RoleKey is a role, of whose IDs there are two kinds.
type RoleKey struct {
	Kind roles.Kind
	ID   string
}

// people makes the indexes over users, tokens and bindings.
func (s *State) people() {
	s.UsersByName = store.NewIndex(s.Users, func(u *records.User) []string { return []string{strings.ToLower(u.Username)} })
	s.UsersByPrincipal = store.NewIndex(s.Users, func(u *records.User) []string { return u.Elsewhere })
	s.TokensByUser = store.NewIndex(s.Tokens, func(t *records.Token) []string { return []string{t.UserID} })
	s.BindingsBySubject = store.NewIndex(s.Bindings, func(b *roles.Binding) []string { return []string{b.Principal()} })
	s.BindingsByCluster = store.NewIndex(s.Bindings, func(b *roles.Binding) []string { return []string{b.ClusterID} })
	s.BindingsByRole = store.NewIndex(s.Bindings, func(b *roles.Binding) []RoleKey {
		return []RoleKey{{roles.KindOf(b.Context()), b.Role}}
	})
}

// Role finds a role: a built-in one with the flags that it was given, or one that people made. It is a roles.Lookup.
func (s *State) Role(kind roles.Kind, id string) (roles.Role, bool) {
	stored, ok := s.RolesOf(kind).Get(id)
	if builtin, is := roles.Builtin(kind, id); is {
		if ok {
			builtin = builtin.Overlaid(stored.Value)
		}
		return builtin, true
	}
	return stored.Value, ok
}

// RolesOf is where the roles of a kind are kept.
func (s *State) RolesOf(kind roles.Kind) *store.Collection[roles.Role] {
	if kind == roles.RoleTemplate {
		return s.RoleTemplates
	}
	return s.GlobalRoles
}

// Roles are all roles of a kind: the built-in ones, then those that people made, in the order of their IDs.
func (s *State) Roles(kind roles.Kind) []roles.Role {
	all := roles.Builtins(kind)
	for i := range all {
		all[i], _ = s.Role(kind, all[i].ID)
	}
	for _, d := range s.RolesOf(kind).List() {
		if _, builtin := roles.Builtin(kind, d.Key); !builtin {
			all = append(all, d.Value)
		}
	}
	return all
}

// ProjectsOf are the projects of a cluster: the two that every cluster has, then those that people made, by ID.
func (s *State) ProjectsOf(cl records.Cluster) []records.Project {
	all := records.BuiltinProjects(cl)
	for _, d := range s.Projects.ListIn(cl.ID + "/") {
		all = append(all, d.Value)
	}
	return all
}

// Project finds a project by its ID, with its cluster.
func (s *State) Project(id string) (records.Project, records.Cluster, bool) {
	cl, ok := s.ClustersByID.First(roles.ClusterOf(id))
	if !ok {
		return records.Project{}, records.Cluster{}, false
	}
	for _, p := range records.BuiltinProjects(cl.Value) {
		if p.ID == id {
			return p, cl.Value, true
		}
	}
	d, ok := s.Projects.Get(records.ProjectKey(id))
	return d.Value, cl.Value, ok
}

// RemovingPeople are the writes that take what people have in a cluster or a fleet out of the store: bindings, projects, their
// secrets and their namespaces.
func (s *State) RemovingPeople(clusterID string) (ops []store.Op) {
	for _, b := range s.BindingsByCluster.Find(clusterID) {
		ops = append(ops, s.Bindings.Deleting(b.Key, b.Revision))
	}
	for _, p := range s.Projects.ListIn(clusterID + "/") {
		ops = append(ops, s.Projects.Deleting(p.Key, 0))
	}
	for _, p := range s.Namespaces.ListIn(clusterID + "/") {
		ops = append(ops, s.Namespaces.Deleting(p.Key, 0))
	}
	for _, secret := range s.ProjectSecrets.ListIn(clusterID + "/") {
		ops = append(ops, s.ProjectSecrets.Deleting(secret.Key, 0))
	}
	return ops
}

// GrantsOf is what all bindings of a user come to, those of their groups, too. A user of data from before there were bindings may
// be an administrator by their record.
func (s *State) GrantsOf(u records.User) *roles.Grants {
	var all []roles.Binding
	if u.Admin {
		all = append(all, roles.Binding{Role: roles.Admin})
	}
	for _, principal := range u.Principals() {
		for _, d := range s.BindingsBySubject.Find(principal) {
			all = append(all, d.Value)
		}
	}
	return roles.Of(all, s.Role)
}

// OperationsOf are the operations about a cluster, those that have ended too, in the order of
// their IDs: what the rules of operations are asked about. Change none of what they refer to.
func (s *State) OperationsOf(cluster records.ClusterKey) []operations.Operation {
	found := s.OperationsBySubject.Find(cluster)
	all := make([]operations.Operation, len(found))
	for i, d := range found {
		all[i] = d.Value
	}
	return all
}

// MachineCounts is how many machines each cluster and fleet has, by its id; MachineCount is one of them.
func (s *State) MachineCounts() map[string]int {
	counts := map[string]int{}
	for _, d := range s.Machines.List() {
		counts[d.Value.ClusterID]++
	}
	return counts
}

// MachineCount is how many machines the cluster of an id has.
func (s *State) MachineCount(clusterID string) int {
	d, _ := s.ClustersByID.First(clusterID)
	return len(s.MachinesByCluster.Find(records.ClusterKey(d.Key)))
}

// Close closes the store. The error is that of the store.
func (s *State) Close() error { return s.Store.Close() }

// FirstCertificate is what of a cluster ends first: the certificates that these machines have, and what the server made for RKE1.
// It is zero where none is known.
func (s *State) FirstCertificate(key records.ClusterKey, machines []*store.Document[records.Machine]) (first records.CertificateEnd) {
	look := func(one records.CertificateEnd) {
		sooner := cmp.Or(one.End.Compare(first.End), strings.Compare(one.Name, first.Name)) < 0
		if !one.End.IsZero() && (first.End.IsZero() || sooner) {
			first = one
		}
	}
	for _, m := range machines {
		look(m.Value.Certificate)
	}
	d, _ := s.RKEStates.Get(string(key))
	for name, end := range d.Value.Ends {
		look(records.CertificateEnd{Name: name, End: end})
	}
	return first
}
