// The pages of one thing: a cluster, how hosts join it, a machine, an operation.

package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// clusterView is the page of a cluster.
type clusterView struct {
	Cluster
	Tiers  []tier
	Causes Causes
	// UnderWay is the operation that is worked on; nil when none is.
	UnderWay *apitypes.Operation
	Timeline timeline
	// Steers are what the caller may do to it: stop it, hurry, and pause the cluster.
	Steers []Offer
	Quorum quorum
	Path   string
	Offers []Offer
	// Files are the part of its snapshots that is shown.
	Files []apitypes.Snapshot
	Part  Part
	// MayChange says that the caller is offered the editor.
	MayChange bool
}

// Cluster is the page of a cluster.
func (u *UI) Cluster(r Request) (View, error) {
	key := r.Param("namespace") + "/" + r.Param("name")
	c, ok := u.Facts.Cluster(r.Who, key)
	if !ok {
		return View{}, norman.Missing("cluster", key)
	}
	v := clusterView{Cluster: c, Tiers: Tiers(c.Machines), UnderWay: c.underWay(), Quorum: quorumOf(c.Etcd), Path: r.Query.Path, Offers: u.offers(r.Who, c), MayChange: auth.May(r.Who, auth.Update, auth.OfCluster(c.ID))}
	v.Causes = causesOf(c.Why, auth.May(r.Who, auth.Action("logs"), auth.Object{Kind: auth.Machine, Cluster: c.ID}))
	v.Files, v.Part = partOf(c.Snapshots, r.Query)
	if o := v.UnderWay; o != nil {
		v.Timeline = timelineOf(*o, u.Now())
		v.Steers = u.steers(r.Who, Operation{Operation: *o, ClusterID: c.ID, Of: &c.ClusterRow.Cluster})
	}
	topics := []string{TopicCluster(key)}
	return View{
		Title: c.Name, Template: "cluster", Data: v, Section: "clusters", Trail: []Link{{"Clusters", Home + "clusters"}},
		Command: "drover clusters show " + Quoted(c.Name), Topics: topics,
	}, nil
}

// joinView is how a host joins a cluster.
type joinView struct {
	apitypes.Join
	Path                       string
	Etcd, ControlPlane, Worker bool
	Labels, Taints, NodeName   string
	// Line is the whole command; empty where Fault says why.
	Line, Fault string
	// Spent is when the token of an imported cluster was spent; nil before.
	Spent *time.Time
	// Docker says that the hosts run Docker, Imported that the cluster has hosts of its own, in which kubectl runs the command.
	Docker, Imported bool
}

// Join is the page with the command by which hosts join a cluster. The address has the roles, labels and taints.
func (u *UI) Join(r Request) (View, error) {
	key := r.Param("namespace") + "/" + r.Param("name")
	j, docker, ok := u.Facts.Join(r.Who, key)
	if !ok {
		return View{}, norman.Missing("registration token of cluster", key)
	}
	on := func(name string) bool { return r.Query.Get(name) == "on" }
	v := joinView{
		Join: j, Path: r.Query.Path, Etcd: on("etcd"), ControlPlane: on("controlplane"), Worker: on("worker"), Docker: docker,
		Labels: r.Query.Get("labels"), Taints: r.Query.Get("taints"), NodeName: strings.TrimSpace(r.Query.Get("node-name")), Fault: j.Problem,
	}
	if len(r.Query.Values) == 0 || len(r.Query.Values) == 1 && r.Query.Has("seen") {
		v.Etcd, v.ControlPlane, v.Worker = true, true, true
	}
	if v.Imported = j.Import != nil; v.Imported && !j.Import.Spent.IsZero() {
		v.Spent = &j.Import.Spent
	}
	flags := v.flags()
	command := "drover clusters join-command " + Quoted(r.Param("name"))
	if docker {
		command += " --docker"
	}
	command += flags
	switch {
	case v.Fault != "":
	case v.Imported:
		v.Line, command = j.Command, "drover clusters import "+Quoted(r.Param("name"))
	default:
		if v.Fault = v.wrong(); v.Fault == "" {
			v.Line = j.Command + flags
		}
	}
	return View{
		Title: "Join a host", Template: "join", Data: v, Section: "clusters", Command: command, // without topics: each look at it is in the audit log
		Trail: []Link{{"Clusters", Home + "clusters"}, {r.Param("name"), ClusterURL(key)}},
	}, nil
}

// wrong is what is wrong with the roles, labels and taints that were given; empty for nothing.
func (v joinView) wrong() string {
	if !v.Etcd && !v.ControlPlane && !v.Worker {
		return "A host needs at least one role."
	}
	for label := range strings.FieldsSeq(v.Labels) {
		if _, _, reason := forms.Label(label); reason != "" {
			return label + " is not a label: it " + reason + ". Labels have spaces between them."
		}
	}
	for taint := range strings.FieldsSeq(v.Taints) {
		if _, _, _, reason := forms.Taint(taint); reason != "" {
			return taint + " is not a taint: it " + reason + "."
		}
	}
	return ""
}

// flags are the roles, labels and taints of the host, as the join command has them.
func (v joinView) flags() string {
	text := ""
	for _, role := range []struct {
		on   bool
		flag string
	}{{v.Etcd, " --etcd"}, {v.ControlPlane, " --controlplane"}, {v.Worker, " --worker"}} {
		if role.on {
			text += role.flag
		}
	}
	if v.NodeName != "" {
		text += " --node-name " + Quoted(v.NodeName)
	}
	for label := range strings.FieldsSeq(v.Labels) {
		text += " --label " + Quoted(label)
	}
	for taint := range strings.FieldsSeq(v.Taints) {
		text += " --taints " + Quoted(taint) // as both kinds of agents have it
	}
	return text
}

// machineView is the page of a machine.
type machineView struct {
	Machine
	Host string
	// Home is the page of its cluster or fleet; empty for one that the caller may not see.
	Home string
	// Walked are the states that it went through, newest first.
	Walked []walked
	Offers []Offer
	// MayRead says that the caller may read the output of its plan and the logs of its units, or of its containers.
	MayRead    bool
	Causes     Causes
	Containers []apitypes.Container
	// Silent is why the host does not say which containers it has.
	Silent string
}

// above are the pages above one of a cluster or of a fleet, by its key, which is empty for one that has no page for the caller.
func above(key string, fleet bool) []Link {
	_, name, _ := strings.Cut(key, "/")
	trail, at := []Link{{"Clusters", Home + "clusters"}}, ClusterURL(key)
	if fleet {
		trail, at = []Link{{"Fleets", Home + "fleets"}}, FleetURL(name)
	}
	if key == "" {
		return trail
	}
	return append(trail, Link{name, at})
}

type walked struct {
	State string
	At    time.Time
	// For is how long it had the state; zero for the one that it has.
	For time.Duration
}

// Machine is the page of a machine.
func (u *UI) Machine(r Request) (View, error) {
	key := r.Param("namespace") + "/" + r.Param("name")
	m, ok := u.Facts.Machine(r.Who, key)
	if !ok {
		return View{}, norman.Missing("machine", key)
	}
	v := machineView{Machine: m, Host: Host(m.Machine), Walked: walk(m.History), Offers: u.offers(r.Who, m)}
	v.MayRead = auth.May(r.Who, auth.Action("logs"), auth.Object{Kind: auth.Machine, Key: m.ID, Cluster: m.ClusterID})
	v.Causes = causesOf(m.Why, v.MayRead)
	if v.MayRead && m.Docker != nil && len(m.Tunnels) > 0 {
		v.Containers, v.Silent = containers(r, key)
	}
	trail := above(m.In, m.Fleet)
	if len(trail) > 1 {
		v.Home = trail[1].URL
	}
	return View{
		Title: v.Host, Template: "machine", Data: v, Section: "machines", Trail: trail,
		Command: "drover machines show " + Quoted(m.Name), Topics: []string{TopicMachine(key)},
	}, nil
}

// slowHost is how long a page waits for what a host says.
const slowHost = 3 * time.Second

// containers are those of a Docker host, or why it does not say.
func containers(r Request, key string) (all []apitypes.Container, silent string) {
	reply, err := r.AskWithin(slowHost, route.Asked{Method: http.MethodGet, Target: "/v1-drover/machines/" + key + "/containers"})
	if err != nil {
		return nil, err.Error()
	}
	var answer apitypes.Containers
	if err := reply.Decode(&answer); err != nil {
		return nil, err.Error()
	}
	slices.SortFunc(answer.Data, func(a, b apitypes.Container) int {
		return cmp.Or(strings.Compare(b.State, a.State), strings.Compare(a.Name, b.Name)) // running before exited
	})
	return answer.Data, ""
}

// walk is the history of a machine, newest first.
func walk(history []records.Transition) []walked {
	all := make([]walked, 0, len(history))
	for i := len(history) - 1; i >= 0; i-- {
		w := walked{State: string(history[i].State), At: history[i].At}
		if i+1 < len(history) {
			w.For = history[i+1].At.Sub(w.At)
		}
		all = append(all, w)
	}
	return all
}

// operationView is the page of an operation.
type operationView struct {
	apitypes.Operation
	Home     string
	Offers   []Offer
	Timeline timeline
}

// steers are what a user may do to an operation, and, while it goes on, the pause of its cluster.
func (u *UI) steers(who auth.Identity, o Operation) []Offer {
	all := u.offers(who, o)
	if o.Of == nil || o.State.Ended() {
		return all
	}
	for _, offer := range u.offers(who, Cluster{ClusterRow: ClusterRow{Cluster: *o.Of}}) {
		if offer.Pauses {
			all = append(all, offer)
		}
	}
	return all
}

// Operation is the page of an operation.
func (u *UI) Operation(r Request) (View, error) {
	id := r.Param("id")
	o, ok := u.Facts.Operation(r.Who, id)
	if !ok {
		return View{}, norman.Missing("operation", id)
	}
	trail := above(o.Cluster, o.Fleet)
	v := operationView{Operation: o.Operation, Home: trail[1].URL, Offers: u.steers(r.Who, o), Timeline: timelineOf(o.Operation, u.Now())}
	section := "clusters"
	if o.Fleet {
		section = "fleets"
	}
	return View{
		Title: cmp.Or(o.Title, string(o.Kind)), Template: "operation", Data: v, Section: section,
		Trail: trail, Command: "drover operations show " + Quoted(id), Topics: []string{TopicOperation(id)},
	}, nil
}

// ended says that an operation is over.
func ended(s operations.State) bool { return s.Ended() }
