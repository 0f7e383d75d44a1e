// Package api is everything that the server answers over HTTPS: table.go lists every
// route of every surface with the access that it needs, and this file wires the packages
// that the handlers are in.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3, pkg/api/norman and
// pkg/apis; rancher/norman; rancher/steve.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/kubernetes"

	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/tunnel"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/access"
	"github.com/drover-project/drover/server/api/clusterresources"
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/login"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/secrets"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/discovery"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/fleets"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/rketransfer"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/upgrades"
)

// Options are what the API stands on, by the parts of the server that have it.
type Options struct {
	Data
	Identity
	Ways
	Work
	// Metrics is what Prometheus reads; nil answers 404.
	Metrics http.Handler
	// Origin finds the URL under which clients see the server. Its ServerURL is filled in.
	Origin norman.Origin
	// Ping is how often a subscriber hears something; default 5 s.
	Ping time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets every request that changes something; default is to drop it.
	Logger *slog.Logger
}

// Data is what there is.
type Data struct {
	State    *state.State
	Settings *settings.Settings
	// Versions are those that cluster documents may name.
	Versions func() *versions.Data
	// VersionStatus says where they are from; nil is the built-in data.
	VersionStatus func() versions.Status
	// OnVersions has a function called whenever the versions changed; nil calls none. It is called before any request is served.
	OnVersions func(func())
	// RKE1Versions are those that RKE1 clusters can have; nil has none.
	RKE1Versions *rke1versions.Data
	// Events are the changes of states; nil shows none.
	Events *events.Log
	// Audit records who does what; nil records nothing, and answers 503.
	Audit *audit.Log
	// Tracer follows requests; nil follows none.
	Tracer trace.Tracer
	// Backups are of the server itself; nil answers 503.
	Backups native.BackupMaker
}

// Identity is who calls.
type Identity struct {
	Auth *auth.Auth
	// People changes users, roles and bindings, and Directories lets people of outside directories in; nil makes the one, and knows
	// none of the others.
	People      *people.People
	Directories *logins.Desk
	// Groups asks them about people who are away.
	Groups access.Groups
}

// Ways are the ways to hosts, to clusters and to the other servers.
type Ways struct {
	Registration *registration.Registration
	// Agents serves registration, plan Secrets, tunnels, and what servers ask of each other; nil answers 404.
	Agents http.Handler
	// Hosts leads to the hosts; nil answers 503.
	Hosts Hosts
	// ClusterAPIs leads to the clusters' own APIs; nil reaches none.
	ClusterAPIs ClusterAPIs
	// KubeProxy serves /k8s/clusters/<cluster id>/… with the rights of the caller; nil answers 404.
	KubeProxy Proxy
	// TokenArrived waits until a token is in a cluster with an authorized endpoint; nil does not wait.
	TokenArrived func(ctx context.Context, cluster records.ClusterKey, token string) error
	// Servers is what all servers say of themselves.
	Servers native.Servers
	// Presence is which servers there are, and who is connected to which; nil knows of none.
	Presence *hosts.Presence
	// Leader is the identity of the server that leads the others; nil knows none.
	Leader func() string
}

// Hosts leads to hosts, by the subjects of their tunnels; see server/hosts.
type Hosts interface {
	// Ask sends GET path to the agent on a machine's host.
	Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	// Dial opens a connection there.
	Dial(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
}

// ClusterAPIs leads to the clusters' own APIs; see server/downstream.
type ClusterAPIs interface {
	// Client is the way to a cluster with the rights of its administrator.
	Client(key records.ClusterKey) (kubernetes.Interface, error)
	// API is what is seen of a cluster.
	API(key records.ClusterKey) observed.API
	// CA is that of a cluster's API, in PEM and empty while it is not known.
	CA(key records.ClusterKey) []byte
}

// Proxy is the way of people to the clusters' own APIs; see server/downstream/kubeproxy.
type Proxy interface {
	Serve(w http.ResponseWriter, r *http.Request, who auth.Identity)
	// Ask sends a question to the API of a cluster with the rights of the caller there.
	Ask(r *http.Request, who auth.Identity, cluster string, q kubeproxy.Question, use func(kubeproxy.Reply) error) error
}

// Work is what people ask for of the controllers.
type Work struct {
	// Clusters takes cluster documents in and removes clusters and machines.
	Clusters *clusters.Applier
	// DayTwo takes what people ask for on clusters that run, and Refresh asks a cluster for its snapshots; nil asks none.
	DayTwo  *etcdops.Service
	Refresh func(ctx context.Context, key records.ClusterKey) error
	// PreviewOperation is what such an operation would do on the machines of its cluster, in its order.
	PreviewOperation func(operations.Operation) ([]string, error)
	// Files opens the files of snapshots; nil answers 503.
	Files *etcdops.Files
	// Rehearsals takes what people ask for of snapshots on machines of fleets; nil refuses it.
	Rehearsals *rehearsals.Service
	// Upgrades takes clusters to other versions; nil asks no cluster before it does.
	Upgrades *upgrades.Upgrader
	// PreviewFleet is what a plan would do on machines without a cluster.
	PreviewFleet fleets.Preview
	// Handover gives RKE1 clusters to the rke command line and takes them in.
	Handover *rketransfer.Desk
	// RKE begins operations on RKE1 clusters; nil refuses them.
	RKE native.RKE1
	// Verbs are what people do beside what the server has; nil is nothing.
	Verbs []Verb
}

// API serves all routes.
type API struct {
	rows  []route.Row
	table *route.Table
	feed  *subscribe.Feed
	// drains run beside requests.
	drains    *clusterresources.Drains
	requested *management.PodRequests
	stop      func() // ends what reports changes to the page
}

// fill fills in what has a default.
func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Ping = cmp.Or(o.Ping, 5*time.Second)
	if o.Origin.ServerURL == nil {
		o.Origin.ServerURL = o.Settings.ServerURL
	}
	if o.VersionStatus == nil {
		o.VersionStatus = func() versions.Status { return versions.Status{Date: o.Versions().Date} }
	}
	if o.People == nil {
		o.People = &people.People{State: o.State, Auth: o.Auth, Now: o.Now, Log: o.Logger}
	}
	if o.DayTwo == nil {
		o.DayTwo = &etcdops.Service{State: o.State, Now: o.Now}
	}
	if o.Upgrades == nil {
		o.Upgrades = &upgrades.Upgrader{State: o.State, Clusters: o.Clusters, Versions: o.Versions, Restorable: o.DayTwo.Restorable, Now: o.Now}
	}
}

// New makes an API. It observes the state from now on; Close ends that. The errors are those of reading the page's templates.
func New(o Options) (*API, error) {
	o.fill()
	reach := o.reach()
	a := &API{drains: &clusterresources.Drains{Log: o.Logger}, requested: management.NewPodRequests(reach.client, reach.api, o.Now, o.Logger), feed: subscribe.NewFeed(o.State, o.Auth, o.Ping, o.Now, o.Logger)}
	persons := &access.API{State: o.State, Auth: o.Auth, Settings: o.Settings, People: o.People, Directories: o.Directories}
	directories := &access.DirectoryAPI{Desk: o.Directories, Groups: o.Groups}
	prefs, kept := &access.PreferenceAPI{State: o.State, Now: o.Now}, &secrets.API{State: o.State, Authenticate: o.Auth.Authenticate, CatchUp: o.State.Store.CatchUp}
	v3 := o.management(reach, a, slices.Concat(persons.Kinds(), []management.Kind{directories.Kind(), management.SystemImages(o.RKE1Versions), kept.Kind()}, prefs.Kinds()))
	h := handlers{
		outside: directories, agents: raw(o.Agents), metrics: raw(o.Metrics), proxy: proxied(o), inCluster: &steve.InCluster{State: o.State, Ask: reach.question}, v3: v3, own: o.native(reach, a.feed),
		v1: steve.New(steve.Options{
			State: o.State, Clusters: o.Clusters, Versions: o.Versions,
			Others: o.typesOfV1(persons.People), Changes: a.feed,
		}),
		kube: *kube.New(kube.Options{
			State: o.State, Settings: o.Settings, Clusters: o.Clusters, People: persons.People, Versions: o.Versions, Secrets: kept.Listed(), Changes: a.feed, Now: o.Now,
		}),
		releases: management.Releases{Versions: o.Versions}, people: persons, kept: kept, looks: prefs,
		login: &login.API{State: o.State, Auth: o.Auth, Settings: o.Settings, Tokens: v3, Kubeconfigs: v3.Kubeconfigs, Directories: o.Directories, PageAddress: ui.Local},
		ext:   &access.ExtAPI{State: o.State, Auth: o.Auth, Tokens: v3.Tokens, Kubeconfigs: v3.Kubeconfigs, People: persons.People, Now: o.Now},
		inside: &clusterresources.API{
			State: o.State, Membership: &state.Membership{State: o.State, Now: o.Now}, Client: reach.client, Drains: a.drains, V3: v3,
		},
		secrets: &clusterresources.ProjectSecrets{State: o.State, Now: o.Now, V3: v3},
	}
	h.verbs = slices.Concat(allVerbs(h.own.VerbHandlers()), o.Verbs)
	var err error
	if h.page, a.stop, err = o.page(h.login, h.verbs); err != nil {
		a.feed.Close()
		a.requested.Close()
		return nil, err
	}
	h.page.terminal = o.terminal(h.page.UI, func(w http.ResponseWriter, r *http.Request) { a.table.ServeHTTP(w, r) })
	a.rows = table(h)
	h.v3.Learn(a.rows)
	h.v1.Learn(a.rows)
	a.table = route.NewTable(&route.Env{Auth: o.Auth, Origin: o.Origin, Now: o.Now, Logger: o.Logger, Audit: o.Audit, Tracer: o.Tracer, CatchUp: o.State.Store.CatchUp, Refuse: h.page.signin.Refuse}, a.rows)
	return a, nil
}

// management is /v3, with the types that are kept elsewhere.
func (o Options) management(reach reach, a *API, kinds []management.Kind) *management.API {
	seen := management.Seen{API: reach.api, Requested: a.requested}
	of := management.Clusters{State: o.State, Applier: o.Clusters, Versions: o.Versions, RKE: o.RKE, Seen: seen}
	return management.New(management.Options{
		State: o.State, Changes: a.feed, Kinds: kinds, Project: access.ProjectSchema(), Inside: append(clusterresources.Schemas(), clusterresources.ProjectSecretSchema()),
		Clusters:           of,
		Kubeconfigs:        management.Kubeconfigs{State: o.State, Auth: o.Auth, Settings: o.Settings, ClusterCA: reach.ca, TokenArrived: o.TokenArrived},
		Nodes:              management.Nodes{State: o.State, Applier: o.Clusters, Draining: a.drains.State, Seen: seen},
		Backups:            management.Backups{State: o.State, Clusters: of},
		Tokens:             management.Tokens{State: o.State, Auth: o.Auth, Settings: o.Settings, Now: o.Now},
		RegistrationTokens: management.RegistrationTokens{State: o.State, Registration: o.Registration, Now: o.Now},
		Settings:           management.Settings{Settings: o.Settings},
	})
}

// native is /v1-drover.
func (o Options) native(reach reach, feed *subscribe.Feed) native.API {
	with := &native.Common{State: o.State, Changes: feed, Now: o.Now, Logger: o.Logger}
	all := native.API{
		Clusters:   native.Clusters{Common: with, Applier: o.Clusters, Versions: o.Versions, Upgrader: o.Upgrades, Desk: o.Handover, Schedules: o.Rehearsals},
		Machines:   native.Machines{Common: with, Registration: o.Registration, Applier: o.Clusters, AskAgent: reach.ask, DialOnHost: reach.dial, Presence: o.Presence},
		Operations: native.Operations{Common: with, RKE: o.RKE, DayTwo: o.DayTwo, Preview: o.PreviewOperation, Rehearsals: o.Rehearsals},
		Snapshots:  native.Snapshots{Common: with, DayTwo: o.DayTwo, Refresh: o.Refresh, Files: o.Files},
		Joining:    native.Joining{Common: with, Registration: o.Registration},
		Why:        native.Why{Common: with, AskAgent: reach.ask},
		Events:     native.Events{Common: with, Log: o.Events},
		Objects:    native.Objects{Common: with},
		Versions:   native.Versions{Common: with, Data: o.Versions, Status: o.VersionStatus},
		Servers:    o.Servers,
		Backups:    native.Backups{Common: with, Maker: o.Backups},
		Audit:      native.Audit{Log: o.Audit, Now: o.Now},
	}
	all.Fleets = native.Fleets{
		Common: with, Fleets: &fleets.Fleets{State: o.State, Preview: o.PreviewFleet, Now: o.Now}, Joining: all.Joining, Operations: all.Operations, Reasons: all.Why,
	}
	return all
}

// reach has the ways to hosts and clusters as the functions that packages of the API take; a way that is missing is nil.
type reach struct {
	client   func(records.ClusterKey) (kubernetes.Interface, error)
	api      func(records.ClusterKey) observed.API
	ca       func(records.ClusterKey) []byte
	ask      func(context.Context, records.Subject, string) (*http.Response, error)
	dial     func(context.Context, records.Subject, tunnel.Target) (net.Conn, error)
	question func(*http.Request, auth.Identity, string, kubeproxy.Question, func(kubeproxy.Reply) error) error
}

func (o Options) reach() (r reach) {
	if o.ClusterAPIs != nil {
		r.client, r.api, r.ca = o.ClusterAPIs.Client, o.ClusterAPIs.API, o.ClusterAPIs.CA
	}
	if o.Hosts != nil {
		r.ask, r.dial = o.Hosts.Ask, o.Hosts.Dial
	}
	if o.KubeProxy != nil {
		r.question = o.KubeProxy.Ask
	}
	return r
}

// Discovery is what Kubernetes clients find of the API; the agents' handler serves it.
func Discovery() *discovery.Documents {
	return discovery.New(append(append([]discovery.Group{planapi.Core()}, kube.Groups()...), access.ExtGroup())...)
}

// Changes is what clients follow.
func (a *API) Changes() *subscribe.Feed { return a.feed }

// Close stops observing the state, and ends what runs beside requests.
func (a *API) Close() {
	a.stop()
	a.feed.Close()
	a.drains.Close()
	a.requested.Close()
}

// Handler serves every route. It must not stand behind a http.ServeMux pattern, whose
// cleaning of paths destroys ids that hold an escaped slash.
func (a *API) Handler() http.Handler { return a.table }

// raw is a handler that answers for itself.
func raw(h http.Handler) route.Handler {
	if h == nil {
		return route.NotFound
	}
	return func(c *route.Call) (route.Answer, error) {
		h.ServeHTTP(c.W, c.R)
		return route.Answer{}, nil
	}
}

func proxied(o Options) route.Handler {
	if o.KubeProxy == nil {
		return route.NotFound
	}
	return func(c *route.Call) (route.Answer, error) {
		o.KubeProxy.Serve(c.W, c.R, c.Who)
		return route.Answer{}, nil
	}
}
