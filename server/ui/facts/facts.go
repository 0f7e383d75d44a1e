// Package facts gives the page what it shows, out of the state of the server: for the caller, and of each thing no
// more than they may see. It also tells the page what changes.
package facts

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/views"
)

// Source is where facts come from.
type Source struct {
	State        *state.State
	Settings     *settings.Settings
	Registration *registration.Registration
	// DayTwo says which snapshots can be restored.
	DayTwo *etcdops.Service
	// Events are the changes of states; nil shows none.
	Events *events.Log
	// Audit is the audit log; nil shows none.
	Audit *audit.Log
	// API is what is seen of a cluster's own API, and Presence which servers there are and who is connected to which; nil knows
	// nothing.
	API      func(records.ClusterKey) observed.API
	Presence *hosts.Presence
	// Leader is the identity of the server that leads; nil knows none.
	Leader        func() string
	Versions      func() *versions.Data
	VersionStatus func() versions.Status
	// Used is when a token was used last.
	Used func(token string) time.Time
	// OnVersions has a function called when the versions changed; nil calls none.
	OnVersions func(func())
	Now        func() time.Time
}

// Facts are the functions of a source.
func (s *Source) Facts() ui.Facts {
	return ui.Facts{
		Clusters: s.clusters, Cluster: s.cluster, Join: s.join, Machines: s.machines, Machine: s.machine, Operation: s.operation,
		Fleets: s.fleets, Versions: s.versions, Tokens: s.tokens, Users: s.users, Settings: s.settings, Audit: s.audit,
		Roles: s.roles, Bindings: s.bindings, Servers: s.servers,
	}
}

// Bounds of what a page of a cluster has.
const (
	mostOperations = 20
	mostEvents     = 40
)

func (s *Source) clusters(who auth.Identity) []ui.ClusterRow {
	all := s.State.Clusters.List()
	rows := make([]ui.ClusterRow, 0, len(all))
	for _, d := range all {
		if auth.May(who, auth.Get, auth.OfCluster(d.Value.ID)) {
			rows = append(rows, s.row(who, d, s.machinesOf(who, records.ClusterKey(d.Key))))
		}
	}
	return rows
}

// machinesOf are the machines of a cluster or a fleet that who may see. They are not copied, as there may be thousands:
// change none of them.
func (s *Source) machinesOf(who auth.Identity, key records.ClusterKey) []*store.Document[records.Machine] {
	var all []*store.Document[records.Machine]
	for _, d := range s.State.MachinesByCluster.Find(key) {
		if auth.May(who, auth.Get, aboutMachine(d)) {
			all = append(all, d)
		}
	}
	return all
}

func aboutMachine(d *store.Document[records.Machine]) auth.Object {
	return auth.Object{Kind: auth.Machine, Key: d.Key, Cluster: d.Value.ClusterID}
}

func (s *Source) row(who auth.Identity, d store.Document[records.Cluster], machines []*store.Document[records.Machine]) ui.ClusterRow {
	key := records.ClusterKey(d.Key)
	row := ui.ClusterRow{Cluster: views.OfCluster(d, len(machines)), Operation: s.underWay(who, d.Value.ID, key), Rehearsals: s.rehearsals(d.Key)}
	for _, m := range machines {
		is := string(k8sobjects.MachineState(&m.Value))
		i := slices.IndexFunc(row.States, func(c ui.Count) bool { return c.State == is }) // there are few
		if i < 0 {
			i, row.States = len(row.States), append(row.States, ui.Count{State: is})
		}
		row.States[i].N++
	}
	slices.SortFunc(row.States, func(a, b ui.Count) int { return strings.Compare(a.State, b.State) })
	row.Certificate = s.State.FirstCertificate(key, machines)
	if !auth.May(who, auth.Get, auth.In(d.Value.ID, auth.EtcdBackup)) {
		return row
	}
	for _, snapshot := range s.snapshots(who, d) {
		if snapshot.Failure == "" && snapshot.Created.After(row.Snapshot) {
			row.Snapshot = snapshot.Created
		}
	}
	return row
}

// rehearsals are those of the snapshots of a cluster. Why one that is due does not begin is what was noted of that.
func (s *Source) rehearsals(key string) apitypes.Rehearsals {
	kept, _ := s.State.Rehearsals.Get(key)
	waits := ""
	if held := kept.Value.Held; held != nil {
		waits = held.Why
	}
	return rehearsals.Shown(kept.Value, rehearsals.Due(kept.Value, s.Now()), waits, "")
}

// underWay is the operation that is under way on a cluster or a fleet; nil when none is, or who may not see it.
func (s *Source) underWay(who auth.Identity, id string, key records.ClusterKey) *apitypes.OperationSummary {
	under, ok := operations.Active(string(key), s.State.OperationsOf(key))
	if !ok || !auth.May(who, auth.Get, auth.Object{Kind: auth.Operation, Key: under.ID, Cluster: id}) {
		return nil
	}
	d, ok := s.State.Operations.Get(under.Key())
	if !ok {
		return nil
	}
	summary := views.SummaryOf(d)
	return &summary
}

// snapshots are those of a cluster, oldest first, without the word on whether they can be restored.
func (s *Source) snapshots(who auth.Identity, d store.Document[records.Cluster]) []apitypes.Snapshot {
	var all []apitypes.Snapshot
	if remembered, ok := s.State.RKEStates.Get(d.Key); ok {
		for _, one := range remembered.Value.Snapshots {
			all = append(all, views.OfSnapshot(records.ClusterKey(d.Key), one))
		}
		return all
	}
	for _, one := range etcdops.Known(s.State, d.Value, etcdops.OpensBucket(s.State, who, d.Value)) {
		if one.Value.Missing.IsZero() {
			all = append(all, views.OfFile(one.Value, false, ""))
		}
	}
	slices.SortStableFunc(all, func(a, b apitypes.Snapshot) int { return a.Created.Compare(b.Created) })
	return all
}

func (s *Source) cluster(who auth.Identity, key string) (ui.Cluster, bool) {
	d, ok := s.State.Clusters.Get(key)
	if !ok || !auth.May(who, auth.Get, auth.OfCluster(d.Value.ID)) {
		return ui.Cluster{}, false
	}
	id, in := d.Value.ID, records.ClusterKey(key)
	machines := s.machinesOf(who, in)
	c := ui.Cluster{ClusterRow: s.row(who, d, machines), MayJoin: auth.May(who, auth.Get, auth.In(id, auth.RegistrationToken)), MayUse: auth.May(who, auth.Terminal, auth.OfCluster(id))}
	plain := make([]records.Machine, 0, len(machines))
	for _, m := range machines {
		plain = append(plain, m.Value)
		c.Machines = append(c.Machines, views.OfMachine(*m))
	}
	c.Etcd = s.etcd(d, machines)
	c.Why = views.OfCauses(d.Value, plain, c.Operation, "")
	for _, o := range slices.Backward(s.State.OperationsBySubject.Find(in)) {
		if len(c.Operations) < mostOperations && auth.May(who, auth.Get, auth.Object{Kind: auth.Operation, Key: o.Value.ID, Cluster: id}) {
			shown := apitypes.Operation{OperationSummary: views.SummaryOf(*o)}
			if !o.Value.State.Ended() {
				shown = views.OfOperation(*o)
			}
			c.Operations = append(c.Operations, shown)
		}
	}
	slices.SortStableFunc(c.Operations, func(a, b apitypes.Operation) int { return b.Created.Compare(a.Created) })
	if s.Events != nil && auth.May(who, auth.Get, auth.In(id, auth.Event)) {
		found := s.Events.From(id, 0)
		for _, e := range slices.Backward(found[max(0, len(found)-mostEvents):]) {
			c.Events = append(c.Events, views.OfEvent(e, d.Value.Name))
		}
	}
	if auth.May(who, auth.Get, auth.In(id, auth.EtcdBackup)) {
		c.Snapshots = s.snapshots(who, d)
		slices.Reverse(c.Snapshots)
		for i, shown := range c.Snapshots {
			if one, ok := s.State.Snapshots.Get(key + "/" + shown.ID); ok && s.DayTwo != nil {
				c.Snapshots[i].Restorable, c.Snapshots[i].Why = s.DayTwo.Restorable(one.Value)
			}
		}
	}
	return c, true
}

func (s *Source) join(who auth.Identity, key string) (j apitypes.Join, docker, ok bool) {
	d, ok := s.State.Clusters.Get(key)
	if !ok || !auth.May(who, auth.Get, auth.OfCluster(d.Value.ID)) || !auth.May(who, auth.Get, auth.In(d.Value.ID, auth.RegistrationToken)) {
		return j, false, false
	}
	j = apitypes.Join{Type: "join", Cluster: d.Value.Name}
	token, ok := s.State.RegistrationTokens.Get(d.Value.ID + "/" + registration.DefaultToken)
	if !ok {
		j.Problem = "The cluster has no registration token."
		return j, d.Value.Spec.Docker(), true
	}
	j.Expires = token.Value.Expires
	command, err := s.Registration.JoinCommandFor(token.Value)
	switch {
	case err != nil:
		j.Problem = err.Error()
	case !j.Expires.IsZero() && !s.Now().Before(j.Expires):
		j.Problem = "The token expired at " + j.Expires.UTC().Format(time.RFC3339) + "."
	case command.Import.Command != "":
		j.Command, j.Import = command.Import.Pinned, &apitypes.Import{Command: command.Import.Command, Spent: command.Import.Spent}
	default:
		j.Command = command.Line
	}
	return j, d.Value.Spec.Docker(), true
}

func (s *Source) operation(who auth.Identity, id string) (ui.Operation, bool) {
	d, ok := s.State.OperationsByID.First(id)
	if !ok {
		return ui.Operation{}, false
	}
	about, fleet := auth.Object{Kind: auth.Operation, Key: d.Value.ID}, false
	var of *apitypes.Cluster
	if cl, ok := s.State.Clusters.Get(d.Value.Subject); ok {
		if about.Cluster = cl.Value.ID; auth.May(who, auth.Get, auth.OfCluster(cl.Value.ID)) {
			shown := views.OfCluster(cl, 0)
			of = &shown
		}
	} else if f, ok := s.State.Fleets.Get(d.Value.Subject); ok {
		about.Cluster, fleet = f.Value.ID, true
	}
	if !auth.May(who, auth.Get, about) {
		return ui.Operation{}, false
	}
	shown := views.OfOperation(d)
	name := func(id string) string { return s.named(who, id) }
	shown.By, shown.Abort, shown.Hurry = name(shown.By), asked(shown.Abort, name), asked(shown.Hurry, name)
	return ui.Operation{Operation: shown, ClusterID: about.Cluster, Fleet: fleet, Of: of}, true
}

// named is how a user logs in, for callers who may see that, else the ID.
func (s *Source) named(who auth.Identity, id string) string {
	if u, ok := s.State.Users.Get(id); ok && auth.May(who, auth.Get, auth.Object{Kind: auth.User, Key: id, Owner: id}) && u.Value.Username != "" {
		return u.Value.Username
	}
	return id
}

// asked is a request with its user as name says.
func asked(r *operations.Request, name func(id string) string) *operations.Request {
	if r == nil {
		return nil
	}
	shown := *r
	shown.By = name(r.By)
	return &shown
}
