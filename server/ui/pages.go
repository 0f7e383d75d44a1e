// The pages that are lists: clusters, machines, fleets, versions, tokens, users, settings and the audit log.

package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// listView is a list with its filters.
type listView[T any] struct {
	Rows    []T
	Part    Part
	Columns []Column
	States  []Choice
	// Text is what the list is searched for, Sort and State are the other values of the query.
	Text, Sort, State string
	Path              string
	// Kept are further values of the query, which the filter keeps.
	Kept []Kept
	// All is how many there are without filters.
	All int
	// Offers are what a user may do to a row, by what names it, and Makes what they may make.
	Offers map[string][]Offer
	Makes  []Offer
}

// Kept is a value of a query.
type Kept struct{ Name, Value string }

// offering adds to a list what a user may do to its rows, and make of the kind.
func offering[T any](u *UI, who auth.Identity, v listView[T], kind auth.Kind, id func(T) string) listView[T] {
	v.Offers, v.Makes = map[string][]Offer{}, u.offers(who, kind)
	for _, row := range v.Rows {
		v.Offers[id(row)] = u.offers(who, row)
	}
	return v
}

// listOf filters, sorts and cuts a list as the query asks for it.
func listOf[T any](rows []T, columns []columnOf[T], state func(T) string, text func(T) string, q Query) listView[T] {
	v := listView[T]{Text: strings.TrimSpace(q.Get("q")), Sort: q.Get("sort"), State: q.Get("state"), Path: q.Path, All: len(rows)}
	if v.Text != "" {
		rows = slices.DeleteFunc(rows, func(r T) bool { return !strings.Contains(strings.ToLower(text(r)), strings.ToLower(v.Text)) })
	}
	if state != nil {
		v.States = choices(rows, state, q)
		if v.State != "" {
			rows = slices.DeleteFunc(rows, func(r T) bool { return state(r) != v.State })
		}
	}
	v.Columns = sorted(rows, columns, q)
	v.Rows, v.Part = partOf(rows, q)
	return v
}

// compareTimes has unknown times last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

// Clusters is the page of all clusters.
func (u *UI) Clusters(r Request) (View, error) {
	columns := []columnOf[ClusterRow]{
		{"name", "Name", false, func(a, b ClusterRow) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
		}},
		{"state", "State", false, func(a, b ClusterRow) int { return compareStates(a.State, b.State) }},
		{"version", "Version", false, func(a, b ClusterRow) int { return strings.Compare(ShownVersion(a.Cluster), ShownVersion(b.Cluster)) }},
		{"machines", "Machines", true, func(a, b ClusterRow) int { return cmp.Compare(a.Machines, b.Machines) }},
		{"since", "Waits for", false, func(a, b ClusterRow) int { return compareTimes(a.Since, b.Since) }},
		{"certificate", "First certificate ends", false, func(a, b ClusterRow) int { return compareTimes(a.Certificate.End, b.Certificate.End) }},
		{"snapshot", "Last snapshot", false, func(a, b ClusterRow) int { return compareTimes(a.Snapshot, b.Snapshot) }},
		{"rehearsal", "Last rehearsal", false, func(a, b ClusterRow) int { return compareRehearsals(a.Rehearsals.Last, b.Rehearsals.Last) }},
	}
	rows := u.Facts.Clusters(r.Who)
	v := listOf(rows, columns, func(c ClusterRow) string { return c.State },
		func(c ClusterRow) string {
			return c.Namespace + "/" + c.Name + " " + c.ID + " " + ShownVersion(c.Cluster)
		}, r.Query)
	data := struct {
		listView[ClusterRow]
		MayMake bool
	}{v, auth.May(r.Who, auth.Create, auth.Object{Kind: auth.Cluster})}
	return View{Title: "Clusters", Template: "clusters", Data: data, Section: "clusters", Command: "drover clusters ls", Topics: []string{TopicClusters, TopicMachines}}, nil
}

// compareRehearsals has those that failed first, and none last.
func compareRehearsals(a, b *records.RehearsalEnd) int {
	rank := func(e *records.RehearsalEnd) int {
		switch {
		case e == nil:
			return 2
		case e.Counted == "":
			return 0
		}
		return 1
	}
	if n := cmp.Compare(rank(a), rank(b)); n != 0 || a == nil {
		return n
	}
	return a.At.Compare(b.At)
}

// ShownVersion is the version that a cluster runs, or should.
func ShownVersion(c apitypes.Cluster) string { return cmp.Or(c.Version, c.KubernetesVersion) }

// machinesView is a list of machines, of one cluster or all.
type machinesView struct {
	listView[apitypes.Machine]
	// Cluster is whose they are, and Everywhere the list of all; empty where it is that.
	Cluster, Everywhere string
}

// Machines is the page of all machines, or of those of a cluster or a fleet.
func (u *UI) Machines(r Request) (View, error) {
	id := r.Query.Get("cluster")
	command := "drover machines ls"
	if id != "" {
		command += " --cluster " + Quoted(id)
	}
	v := u.machinesOf(r, id)
	if id != "" {
		v.Kept, v.Everywhere = []Kept{{"cluster", id}}, r.Query.With("cluster", "")
	}
	return View{Title: "Machines", Template: "machines", Data: v, Section: "machines", Command: command, Topics: []string{TopicMachines}}, nil
}

// machinesOf is the list of the machines of a cluster or a fleet, or of all.
func (u *UI) machinesOf(r Request, id string) machinesView {
	columns := []columnOf[apitypes.Machine]{
		{"name", "Machine", false, func(a, b apitypes.Machine) int { return strings.Compare(Host(a), Host(b)) }},
		{"cluster", "Cluster or fleet", false, func(a, b apitypes.Machine) int { return strings.Compare(a.Cluster, b.Cluster) }},
		{"state", "State", false, func(a, b apitypes.Machine) int { return compareStates(string(a.State), string(b.State)) }},
		{"roles", "Roles", false, func(a, b apitypes.Machine) int { return strings.Compare(a.Roles.String(), b.Roles.String()) }},
		{"since", "Waits for", false, func(a, b apitypes.Machine) int { return compareTimes(a.Since, b.Since) }},
	}
	all := u.Facts.Machines(r.Who, id)
	if len(all) > 0 && id != "" {
		id = all[0].Cluster
	}
	return machinesView{Cluster: id, listView: listOf(all, columns, func(m apitypes.Machine) string { return string(m.State) },
		func(m apitypes.Machine) string {
			return m.ID + " " + Host(m) + " " + m.NodeName + " " + m.Cluster + " " + strings.Join(m.Address, " ") + " " + strings.Join(m.InternalAddress, " ")
		}, r.Query)}
}

// Fleets is the page of the machines without a cluster.
func (u *UI) Fleets(r Request) (View, error) {
	columns := []columnOf[apitypes.Fleet]{
		{"name", "Name", false, func(a, b apitypes.Fleet) int { return strings.Compare(a.Name, b.Name) }},
		{"machines", "Machines", true, func(a, b apitypes.Fleet) int { return cmp.Compare(a.Machines, b.Machines) }},
		{"created", "Made", false, func(a, b apitypes.Fleet) int { return compareTimes(a.Created, b.Created) }},
	}
	v := listOf(u.Facts.Fleets(r.Who), columns, nil, func(f apitypes.Fleet) string { return f.Name + " " + f.ID }, r.Query)
	v = offering(u, r.Who, v, auth.Fleet, func(f apitypes.Fleet) string { return f.ID })
	return View{Title: "Fleets", Template: "fleets", Data: v, Section: "fleets", Command: "drover fleets ls", Topics: []string{TopicFleets, TopicMachines}}, nil
}

// Versions is the page of the Kubernetes versions that clusters can have.
func (u *UI) Versions(r Request) (View, error) {
	known := u.Facts.Versions()
	if text := strings.TrimSpace(r.Query.Get("q")); text != "" {
		known.Data = slices.DeleteFunc(known.Data, func(v apitypes.Version) bool { return !strings.Contains(v.Version, text) })
	}
	rows, part := partOf(known.Data, r.Query)
	v := struct {
		listView[apitypes.Version]
		Source apitypes.VersionSource
	}{listView[apitypes.Version]{Rows: rows, Part: part, Text: r.Query.Get("q"), Path: r.Query.Path, All: part.Total}, known.Source}
	return View{Title: "Versions", Template: "versions", Data: v, Section: "versions", Command: "drover versions ls", Topics: []string{TopicVersions}}, nil
}

// Tokens is the page of one's own tokens.
func (u *UI) Tokens(r Request) (View, error) {
	now := u.Now()
	columns := []columnOf[apitypes.Token]{
		{"created", "Made", false, func(a, b apitypes.Token) int { return compareTimes(b.Created, a.Created) }},
		{"name", "Name", false, func(a, b apitypes.Token) int { return strings.Compare(a.Name, b.Name) }},
		{"expires", "Ends", false, func(a, b apitypes.Token) int { return compareTimes(a.Expires, b.Expires) }},
	}
	kind := func(t apitypes.Token) string {
		switch {
		case !t.Enabled:
			return "disabled"
		case !t.Expires.IsZero() && !now.Before(t.Expires):
			return "ended"
		case t.Session:
			return "session"
		}
		return "token"
	}
	v := struct {
		listView[apitypes.Token]
		Current string
		Kind    func(apitypes.Token) string
	}{listOf(u.Facts.Tokens(r.Who), columns, kind, func(t apitypes.Token) string { return t.Name + " " + t.Description }, r.Query), r.Who.TokenName, kind}
	v.listView = offering(u, r.Who, v.listView, auth.Token, func(t apitypes.Token) string { return t.Name })
	return View{Title: "Your tokens", Template: "tokens", Data: v, Section: "tokens", Command: "drover tokens ls", Topics: []string{TopicTokens}}, nil
}

// Users is the page of the users whom one may see.
func (u *UI) Users(r Request) (View, error) {
	columns := []columnOf[User]{
		{"username", "User name", false, func(a, b User) int { return strings.Compare(strings.ToLower(a.Username), strings.ToLower(b.Username)) }},
		{"name", "Name", false, func(a, b User) int { return strings.Compare(a.Name, b.Name) }},
		{"created", "Made", false, func(a, b User) int { return compareTimes(a.Created, b.Created) }},
	}
	v := listOf(u.Facts.Users(r.Who), columns, nil, func(x User) string { return x.Username + " " + x.Name + " " + x.ID + " " + x.Description }, r.Query)
	v = offering(u, r.Who, v, auth.User, func(x User) string { return x.ID })
	return View{Title: "Users", Template: "users", Data: v, Section: "users", Command: "drover users ls", Topics: []string{TopicUsers}}, nil
}

// Settings is the page of the server's settings.
func (u *UI) Settings(r Request) (View, error) {
	columns := []columnOf[Setting]{{"name", "Name", false, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) }}}
	state := func(s Setting) string {
		if s.Customized {
			return "changed"
		}
		return "default"
	}
	v := listOf(u.Facts.Settings(r.Who), columns, state, func(s Setting) string { return s.Name + " " + s.Value }, r.Query)
	v = offering(u, r.Who, v, auth.Setting, func(s Setting) string { return s.Name })
	return View{Title: "Settings", Template: "settings", Data: v, Section: "settings", Command: "drover settings ls", Topics: []string{TopicSettings}}, nil
}

// Roles is the page of the roles that there are.
func (u *UI) Roles(r Request) (View, error) {
	columns := []columnOf[Role]{
		{"context", "Of", false, func(a, b Role) int { return cmp.Or(strings.Compare(a.Context, b.Context), strings.Compare(a.ID, b.ID)) }},
		{"name", "Name", false, func(a, b Role) int { return strings.Compare(a.Name, b.Name) }},
	}
	v := listOf(u.Facts.Roles(r.Who), columns, func(x Role) string { return x.Context }, func(x Role) string { return x.ID + " " + x.Name + " " + x.Description }, r.Query)
	return View{Title: "Roles", Template: "roles", Data: v, Section: "roles", Command: "drover roles ls", Topics: []string{TopicRights}}, nil
}

// Bindings is the page of who has which role.
func (u *UI) Bindings(r Request) (View, error) {
	columns := []columnOf[Binding]{
		{"name", "Who", false, func(a, b Binding) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Role, b.Role))
		}},
		{"role", "Role", false, func(a, b Binding) int { return strings.Compare(a.Role, b.Role) }},
		{"cluster", "Where", false, func(a, b Binding) int { return strings.Compare(a.Cluster+a.Project, b.Cluster+b.Project) }},
		{"created", "Made", false, func(a, b Binding) int { return compareTimes(a.Created, b.Created) }},
	}
	v := listOf(u.Facts.Bindings(r.Who), columns, nil, func(b Binding) string {
		return strings.Join([]string{b.Name, b.Role, b.Cluster, b.ClusterID, b.Project, b.ID}, " ")
	}, r.Query)
	v = offering(u, r.Who, v, auth.ClusterBinding, func(b Binding) string { return b.ID })
	return View{Title: "Bindings", Template: "bindings", Data: v, Section: "bindings", Command: "drover bindings ls", Topics: []string{TopicRights, TopicUsers}}, nil
}

// fleetView is the page of a fleet.
type fleetView struct {
	apitypes.Fleet
	machinesView
	Does []Offer
}

// Fleet is the page of a fleet.
func (u *UI) Fleet(r Request) (View, error) {
	name := r.Param("name")
	all := u.Facts.Fleets(r.Who)
	i := slices.IndexFunc(all, func(f apitypes.Fleet) bool { return f.Name == name })
	if i < 0 {
		return View{}, norman.Missing("fleet", name)
	}
	f := all[i]
	v := fleetView{Fleet: f, machinesView: u.machinesOf(r, f.ID), Does: u.offers(r.Who, f)}
	return View{
		Title: f.Name, Template: "fleet", Data: v, Section: "fleets", Trail: []Link{{"Fleets", Home + "fleets"}},
		Command: "drover fleets show " + Quoted(f.Name), Topics: []string{TopicFleets, TopicMachines},
	}, nil
}

// auditView is the audit log of the server that serves the page.
type auditView struct {
	AuditPart
	// Newer and Older are the addresses of the parts beside this one; empty for none.
	Newer, Older                          string
	Path, User, Verb, Kind, Object, Since string
	// Spans are the values of Since that are offered.
	Spans []string
}

// auditRows is how many entries the page has.
const auditRows = 200

// Audit is the page of the audit log.
func (u *UI) Audit(r Request) (View, error) {
	if !auth.Somewhere(r.Who, auth.ListAll, auth.Audit) {
		return View{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not see the audit log", r.Who.Username)
	}
	v := auditView{
		Path: r.Query.Path, User: r.Query.Get("user"), Verb: r.Query.Get("verb"), Kind: r.Query.Get("kind"), Object: r.Query.Get("object"),
		Since: cmp.Or(r.Query.Get("since"), "24h"), Spans: []string{"1h", "24h", "168h", "2160h"},
	}
	span, err := time.ParseDuration(v.Since)
	if err != nil || span < 0 {
		return View{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidFormat, "since: %.40q is not a duration, as in 90m or 24h", v.Since)
	}
	wanted := AuditWanted{Most: auditRows, Query: audit.Query{User: v.User, Verb: v.Verb, Kind: v.Kind, Object: v.Object, Since: u.Now().Add(-span)}}
	for name, place := range map[string]*audit.Place{"before": &wanted.Before, "after": &wanted.After} {
		if given := r.Query.Get(name); given != "" {
			if *place, err = audit.ParsePlace(given); err != nil {
				return View{}, norman.Invalid(norman.InvalidFormat, name, "%v", err)
			}
		}
	}
	if v.AuditPart, err = u.Facts.Audit(r.Ctx, r.Who, wanted); err != nil {
		return View{}, err
	}
	if !v.Latest && len(v.Data) > 0 {
		v.Newer = r.Query.With("before", "", "after", v.Last.String())
	} else if !v.Latest {
		v.Newer = r.Query.With("before", "", "after", "") // the newest: what stood here is gone
	}
	var topics []string
	if v.Latest {
		topics = []string{TopicAudit}
	}
	if v.More {
		v.Older = r.Query.With("after", "", "before", v.First.String())
	}
	slices.Reverse(v.Data) // the newest is what people look for
	command := "drover audit --since " + Quoted(v.Since)
	for _, f := range [][2]string{{" --user ", v.User}, {" --verb ", v.Verb}, {" --kind ", v.Kind}, {" --object ", v.Object}} {
		if f[1] != "" {
			command += f[0] + Quoted(f[1])
		}
	}
	return View{Title: "Audit log", Template: "audit", Data: v, Section: "audit", Command: command, Topics: topics}, nil
}

// Nothing is the page of an address that leads nowhere.
func (u *UI) Nothing(r Request) (View, error) {
	return View{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no page at %.200s", r.Query.Path)
}
