// Every route of the server with the access that it needs. What is not here is not
// served; schemas, links and actions are made from it, so that no client is shown what it
// may not do. TestAccess asks for each row as each kind of caller.

package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/access"
	"github.com/drover-project/drover/server/api/clusterresources"
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/login"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/secrets"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/roles"
)

// handlers are where the rows lead.
type handlers struct {
	v3     *management.API
	v1     *steve.API
	own    native.API
	verbs  []Verb
	login  *login.API
	people *access.API
	// looks are preferences and features.
	looks *access.PreferenceAPI
	// ext are tokens and kubeconfigs in the form of Kubernetes.
	ext *access.ExtAPI
	// inCluster is /v1 of clusters.
	inCluster *steve.InCluster
	// inside is about what is in clusters.
	inside *clusterresources.API
	// secrets are those of projects, kept those of people.
	secrets *clusterresources.ProjectSecrets
	kept    *secrets.API
	// outside are directories.
	outside *access.DirectoryAPI
	// releases are those of both distributions.
	releases management.Releases
	// kube has clusters, machines and settings in the form of Kubernetes.
	kube kube.API
	// page is for people with a browser.
	page page

	agents, metrics, proxy route.Handler
}

// Credentials of protocols of their own.
const (
	planToken         = "the machine's token, or an administrator's"
	registrationToken = "a registration token"
	nodeAgentToken    = "a registration token and the host's parameters"
	machineToken      = "the machine's token"
	replicaSecret     = "the secret that all servers share"
	rehearsalLink     = "the secret of a rehearsal that runs"
)

// row is a route.Row that is written without the names of its fields.
type row route.Row

// table is every route. Of two that match a path the first serves it.
func table(h handlers) []route.Row {
	rows := slices.Concat(
		namespaceRows(h.kube.Namespaces, h.agents), secretRows(h.secrets), // before the row that takes all links of a project
		hostRows(h), loginRows(h.login, h.v3),
		managementRows(h), managedRows(h), directoryRows(h), peopleRows(h.v3, h.people), []row{{"*", "/v3/{rest...}", route.Login(), h.v3.Unknown}},
		droverRows(h), verbRows(h.verbs), fleetRows(h.own), []row{{"*", "/v1-drover/{rest...}", route.Login(), route.NotFound}},
		steveRows(h.v1, h.kept), releaseRows(h.releases), extRows(h.ext), kubeRows(h.kube, h.agents, h.kept), pageRows(h.page), clusterRows(h))
	all := make([]route.Row, len(rows))
	for i, one := range rows {
		all[i] = route.Row(one)
	}
	return all
}

// hostRows are what hosts, and servers of each other, ask for.
func hostRows(h handlers) []row {
	open, agents := route.Open, h.agents
	plans, kubeSecrets := route.Own(planToken).For("", auth.PlanSecret).Reveals(), h.kept.Kube(agents, h.kube.Secrets.ListIn)
	return []row{
		// What hosts and load balancers ask for.
		{"GET", "/ping", open(), agents},
		{"GET", "/healthz", open(), agents},
		{"GET", "/cacerts", open(), agents},
		{"GET", "/rancherversion", open(), agents},
		{"GET", "/system-agent-install.sh", open(), agents},
		{"*", "/assets/{rest...}", open(), agents},
		{"GET", "/metrics", route.May(auth.Get, auth.Metrics), h.metrics},

		// Agents.
		{"*", "/v3/connect/agent", route.Own(registrationToken), agents},
		{"GET", "/v3/connect", route.Own(nodeAgentToken), agents},
		{"GET", "/v3/connect/register", route.Own(nodeAgentToken), agents},
		{"GET", "/v3/connect/config", route.Own(nodeAgentToken), agents},
		{"*", "/v3/connect/machine", route.Own(machineToken), agents},
		{"*", "/v3/import/{rest...}", open(), agents},
		{"GET", "/v3/connect/rehearsal", route.Own(rehearsalLink), agents},

		// Plan Secrets, in the form of Kubernetes.
		{"*", "/version", route.Own(route.NoCredential), agents},
		{"*", "/api", route.Own(route.NoCredential), agents},
		{"*", "/apis", route.Own(route.NoCredential), agents},
		{"*", "/apis/{group}", route.Own(route.NoCredential), agents},
		{"*", "/apis/{group}/{version}", route.Own(route.NoCredential), agents},
		{"*", "/openapi/v3", route.Own(route.NoCredential), agents},
		{"*", "/openapi/v3/{rest...}", route.Own(route.NoCredential), agents},
		{"*", "/api/v1", route.Own(route.NoCredential), agents},
		{"*", "/api/v1/namespaces/{namespace}/secrets/{name}", plans, kubeSecrets},
		{"*", "/api/v1/namespaces/{namespace}/secrets", plans, kubeSecrets},
		{"*", "/api/v1/secrets", plans, kubeSecrets},
		{"*", "/api/v1/{rest...}", plans, agents},

		// What servers ask of each other.
		{"*", "/v1-drover/relay", route.Own(replicaSecret), agents},
		{"GET", "/v1-drover/relay/sessions", route.Own(replicaSecret), agents},
		{"GET", "/v1-drover/relay/workers", route.Own(replicaSecret), agents},
	}
}

// loginRows are logging in and out.
func loginRows(public *login.API, v3 *management.API) []row {
	open := route.Open
	return []row{
		{"GET", "/v3-public", open(), public.Root},
		{"GET", "/v3-public/schemas", open(), public.Schemas},
		{"GET", "/v3-public/authproviders", open(), public.Providers},
		{"GET", "/v3-public/localproviders", open(), public.LocalProviders},
		{"GET", "/v3-public/authproviders/local", open(), public.Provider},
		{"GET", "/v3-public/localproviders/local", open(), public.Provider},
		{"POST", "/v3-public/authproviders/local?action=login", open().For(auth.Login, auth.Token), public.Login},
		{"POST", "/v3-public/localproviders/local?action=login", open().For(auth.Login, auth.Token), public.Login},
		{"POST", "/v3-public/authproviders/local", open(), public.NoAction},
		{"POST", "/v3-public/localproviders/local", open(), public.NoAction},
		{"GET", "/v1-public/authproviders", open(), public.PlainProviders},
		{"POST", "/v1-public/login", open().For(auth.Login, auth.Token), public.PlainLogin},
		{"POST", "/v1/logout", route.Leaving().For(auth.CollectionAction("logout"), auth.Token), v3.Type(v3.Tokens.Logout)},
	}
}

// managed is a kind of the management API at its path: its objects are listed and shown, and what else can be done with them has a
// handler.
type managed struct {
	path           string
	kind           auth.Kind
	create, update management.Body
	remove         management.Handler
	actions        map[string]management.Handler
}

func (r managed) rows(v3 *management.API) []row {
	all, one := "/v3/"+r.path, "/v3/"+r.path+"/{id}"
	rows := []row{{"GET", all, route.May(auth.List, r.kind), v3.List}, {"GET", one, route.Object(auth.Get, r.kind), v3.Get}}
	if r.create != nil {
		rows = append(rows, row{"POST", all, route.May(auth.Create, r.kind), v3.Type(r.create.Handler)})
	}
	if r.update != nil {
		rows = append(rows, row{"PUT", one, route.Object(auth.Update, r.kind), v3.Resource(r.update.Handler)})
	}
	if r.remove != nil {
		rows = append(rows, row{"DELETE", one, route.Object(auth.Remove, r.kind), v3.Resource(r.remove)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.actions)) {
		rows = append(rows, row{"POST", one + "?action=" + name, route.Object(auth.Action(name), r.kind), v3.Resource(r.actions[name])})
	}
	return rows
}

// managedRows are the kinds of the management API of which all can be said by their verbs.
func managedRows(h handlers) (rows []row) {
	type actions = map[string]management.Handler
	v3, of, in, people, own := h.v3, h.v3.Clusters, h.inside, h.people, h.looks
	for _, r := range []managed{
		{"clusters", auth.Cluster, of.Create, of.Update, of.Remove, actions{
			"generateKubeconfig": v3.Kubeconfigs.Generate, "exportYaml": of.ExportYAML, "rotateCertificates": of.RotateCertificates,
			"rotateEncryptionKey": of.RotateEncryptionKey, "backupEtcd": v3.Backups.Take, "restoreFromEtcdBackup": v3.Backups.Restore,
		}},
		{"nodes", auth.Machine, nil, in.UpdateNode, v3.Nodes.Remove, actions{"cordon": in.Cordon, "uncordon": in.Uncordon, "drain": in.Drain, "stopDrain": in.StopDrain}},
		{"nodepools", auth.NodePool, nil, nil, nil, nil},
		{"projects", auth.Project, people.CreateProject, people.UpdateProject, people.RemoveProject, nil},
		{"tokens", auth.Token, v3.Tokens.Create, v3.Tokens.Update, v3.Tokens.Remove, nil},
		{"etcdbackups", auth.EtcdBackup, v3.Backups.Create, nil, v3.Backups.Remove, nil},
		{"cloudcredentials", auth.CloudCredential, h.kept.CreateCredential, h.kept.UpdateCredential, h.kept.RemoveCredential, nil},
		{"authconfigs", auth.Directory, nil, nil, nil, actions{"testAndApply": h.outside.TestAndApply, "disable": h.outside.Disable}},
		{"preferences", auth.Preference, own.CreatePreference, own.UpdatePreference, own.RemovePreference, nil},
		{"features", auth.Feature, nil, nil, nil, nil},
		{"rkek8ssystemimages", auth.RKEVersion, nil, nil, nil, nil},
		{"users", auth.User, people.CreateUser, people.UpdateUser, people.RemoveUser, actions{"setpassword": people.SetPassword, "refreshauthprovideraccess": h.outside.Refresh}},
		{"principals", auth.Principal, nil, nil, nil, nil},
	} {
		rows = append(rows, r.rows(v3)...)
	}
	return rows
}

// clusterRows are the clusters' own APIs, at first in the form of /v1.
func clusterRows(h handlers) []row {
	proxied := route.Scoped(auth.Proxy, auth.Cluster)
	return []row{
		{"*", "/k8s/clusters/{id}/v1", proxied.Reveals(), h.inCluster.Serve},
		{"*", "/k8s/clusters/{id}/v1/{rest...}", proxied.Reveals(), h.inCluster.Serve},
		{"*", "/k8s/clusters/{id}", proxied.Passes(), h.proxy},
		{"*", "/k8s/clusters/{id}/{rest...}", proxied.Passes(), h.proxy},
	}
}

// directoryRows are outside directories, and logins by them.
func directoryRows(h handlers) []row {
	may, object, open := route.May, route.Object, route.Open
	rows := []row{
		{"GET", "/verify-auth", open(), h.login.Return},
		{"PUT", "/v3/authconfigs/{id}", object(auth.Update, auth.Directory), h.v3.Resource(h.outside.Update)},
		{"GET", "/v1-drover/directories", may(auth.ListAll, auth.Directory), h.outside.List},
		{"POST", "/v1-drover/directories/set", may(auth.Update, auth.Directory), h.outside.Set},
		{"GET", "/v1-drover/directories/{kind}", object(auth.Get, auth.Directory), route.Of(h.outside.Directory, h.outside.Get)},
		{"POST", "/v1-drover/directories/{kind}/remove", object(auth.Remove, auth.Directory), route.Of(h.outside.Directory, h.outside.Remove)},
		{"POST", "/v1-drover/directories/{kind}/test", object(auth.Update, auth.Directory), route.Of(h.outside.Directory, h.outside.Test)},
	}
	for _, kind := range directories.Kinds() {
		at := directories.PathOf(kind)
		rows = append(rows,
			row{"GET", strings.TrimSuffix(at, "/"+kind), open(), h.login.DirectoriesOf(kind)},
			row{"GET", at, open(), h.login.Directory(kind)},
			row{"GET", "/v3-public/authproviders/" + kind, open(), h.login.Directory(kind)},
			row{"POST", at + "?action=login", open().For(auth.Login, auth.Token), h.login.DirectoryLogin(kind)},
			row{"POST", "/v3-public/authproviders/" + kind + "?action=login", open().For(auth.Login, auth.Token), h.login.DirectoryLogin(kind)})
		if !directories.ByPassword(kind) {
			rows = append(rows, row{"GET", at + "/begin", open(), h.login.Begin(kind)}, row{"GET", at + "/page", open(), h.login.BeginPage(kind)})
		}
	}
	return rows
}

// secretRows are the secrets of projects.
func secretRows(in *clusterresources.ProjectSecrets) []row {
	of := func(verb auth.Verb) route.Access { return route.Object(verb, auth.ProjectSecret) }
	return []row{
		{"GET", "/v3/projects/{context}/secrets", of(auth.List).Reveals(), route.Of(in.Secrets, in.List)},
		{"POST", "/v3/projects/{context}/secrets", of(auth.Create), route.Of(in.Secrets, in.Create)},
		{"GET", "/v3/projects/{context}/secrets/{id}", of(auth.Get).Reveals(), route.Of(in.Secret, in.Get)},
		{"PUT", "/v3/projects/{context}/secrets/{id}", of(auth.Update), route.Of(in.Secret, in.Update)},
		{"DELETE", "/v3/projects/{context}/secrets/{id}", of(auth.Remove), route.Of(in.Secret, in.Remove)},
	}
}

// peopleRows are what people do with their own accounts, roles and bindings.
func peopleRows(v3 *management.API, p *access.API) []row {
	rows := []row{
		{"POST", "/v3/users?action=changepassword", route.May(auth.CollectionAction("changepassword"), auth.User), v3.Type(p.ChangePassword)},
		{"POST", "/v3/principals?action=search", route.May(auth.CollectionAction("search"), auth.Principal), v3.Type(p.SearchPrincipals)},
		{"GET", "/v1-drover/whoami", route.Login(), p.WhoAmI},
	}
	for _, k := range []struct {
		path string
		kind auth.Kind
		of   roles.Kind
	}{{"globalroles", auth.GlobalRole, roles.GlobalRole}, {"roletemplates", auth.RoleTemplate, roles.RoleTemplate}} {
		rows = append(rows, managed{path: k.path, kind: k.kind, create: p.CreateRole(k.of), update: p.UpdateRole(k.of), remove: p.RemoveRole(k.of)}.rows(v3)...)
	}
	for _, k := range []struct {
		path    string
		kind    auth.Kind
		context roles.Context
	}{
		{"globalrolebindings", auth.GlobalRoleBinding, roles.Global},
		{"clusterroletemplatebindings", auth.ClusterBinding, roles.Cluster},
		{"projectroletemplatebindings", auth.ProjectBinding, roles.Project},
	} {
		bindings := managed{path: k.path, kind: k.kind, create: p.CreateBinding(k.context), remove: p.RemoveBinding}
		if k.context != roles.Global {
			bindings.update = p.UpdateBinding
		}
		rows = append(rows, bindings.rows(v3)...)
	}
	return rows
}

// extRows are tokens and kubeconfigs in the form of Kubernetes.
func extRows(e *access.ExtAPI) []row {
	is, made := route.Kubernetes, auth.Token
	return []row{
		{"GET", "/apis/ext.cattle.io/v1/tokens", is(auth.List, made), e.List},
		{"POST", "/apis/ext.cattle.io/v1/tokens", is(auth.Create, made), e.Create},
		{"GET", "/apis/ext.cattle.io/v1/tokens/{name}", is(auth.Get, made), route.Of(e.Token, e.Get)},
		{"DELETE", "/apis/ext.cattle.io/v1/tokens/{name}", is(auth.Remove, made), route.Of(e.Token, e.Remove)},
		{"POST", "/apis/ext.cattle.io/v1/kubeconfigs", is(auth.Create, made), e.Kubeconfig},
		{"POST", "/apis/ext.cattle.io/v1/passwordchangerequests", is(auth.CollectionAction("changepassword"), auth.User), e.ChangePassword},
		{"POST", "/apis/ext.cattle.io/v1/selfusers", route.KubernetesLogin(), e.SelfUser},
	}
}

// namespaceRows are namespaces in the form of Kubernetes; package planapi says why they are not changed.
func namespaceRows(of *kube.Resource, agents route.Handler) []row {
	const all, one = "/api/v1/namespaces", "/api/v1/namespaces/{name}"
	refused := route.Own(planToken).For("", auth.PlanSecret).Reveals()
	return []row{
		{"GET", all, route.Kubernetes(auth.List, auth.Namespace), of.List}, {"*", all, refused, agents},
		{"GET", one, route.Kubernetes(auth.Get, auth.Namespace), of.Get}, {"*", one, refused, agents},
	}
}

// resourceRows are what can be done with the objects of a resource, and where: one of namespaces is listed and made without one, too.
func resourceRows(r *kube.Resource) (rows []row) {
	all := "/apis/" + r.APIVersion() + "/" + r.Plural
	paths := []string{all}
	if r.Namespaced {
		all = "/apis/" + r.APIVersion() + "/namespaces/{namespace}/" + r.Plural
		paths = append(paths, all)
	}
	add := func(verb, method, at string, of auth.Verb, serve route.Handler) {
		if slices.Contains(r.Verbs, verb) {
			rows = append(rows, row{method, at, route.Kubernetes(of, r.Of), serve})
		}
	}
	for _, at := range paths {
		add("list", "GET", at, auth.List, r.List)
		add("create", "POST", at, auth.Create, route.Of(r.Begin, r.Create))
	}
	one := all + "/{name}"
	add("get", "GET", one, auth.Get, r.Get)
	add("update", "PUT", one, auth.Update, route.Of(r.Begin, r.Replace))
	add("patch", "PATCH", one, auth.Patch, route.Of(r.Begin, r.Patch))
	add("delete", "DELETE", one, auth.Remove, route.Of(r.Begin, r.Remove))
	return rows
}

// kubeRows are clusters, machines and settings in the form of Kubernetes. All of it, discovery and plan Secrets
// included, is also found as the API of the cluster "local".
func kubeRows(k kube.API, agents route.Handler, kept *secrets.API) []row {
	var rows []row
	for _, r := range append([]*kube.Resource{k.Clusters, k.Machines, k.Management, k.Settings}, k.OfPeople...) {
		rows = append(rows, resourceRows(r)...)
	}
	rows = append(rows, []row{
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", route.KubernetesLogin(), k.Reviews.CanI},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", route.KubernetesLogin(), k.Reviews.Rules},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", route.KubernetesLogin(), k.Reviews.WhoAmI},
		{"*", "/apis/{group}/{version}/{rest...}", route.KubernetesLogin(), kube.Unknown},
	}...)
	elsewhere := kube.Elsewhere(agents)
	local := []row{ // /api before /apis, which matches its singular, too
		{"*", "/version", route.Own(route.NoCredential), elsewhere},
		{"*", "/api", route.Own(route.NoCredential), elsewhere},
		{"*", "/api/v1", route.Own(route.NoCredential), elsewhere},
		{"*", "/api/v1/{rest...}", route.Own(planToken), kube.Elsewhere(kept.Kube(agents, k.Secrets.ListIn))},
		{"*", "/apis", route.Own(route.NoCredential), elsewhere},
		{"*", "/apis/{group}", route.Own(route.NoCredential), elsewhere},
		{"*", "/apis/{group}/{version}", route.Own(route.NoCredential), elsewhere},
		{"*", "/openapi/v3", route.Own(route.NoCredential), elsewhere},
		{"*", "/openapi/v3/{rest...}", route.Own(route.NoCredential), elsewhere},
	}
	for _, one := range slices.Concat(namespaceRows(k.Namespaces, elsewhere), local, rows) {
		one.Pattern = kube.Local + one.Pattern
		rows = append(rows, one)
	}
	return rows
}

// releaseRows are the versions in Rancher's form.
func releaseRows(r management.Releases) []row {
	var rows []row
	for _, runtime := range versions.Runtimes() {
		at := "/v1-" + string(runtime) + "-release"
		rows = append(rows,
			row{"GET", at + "/releases", route.Login(), r.List(runtime)},
			row{"GET", at + "/releases/{version}", route.Login(), r.Get(runtime)},
			row{"GET", at + "/channels", route.Login(), r.Channels(runtime)})
	}
	return rows
}
