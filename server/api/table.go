// Every route of the server with the access that it needs. What is not here is not
// served; schemas, links and actions are made from it, so that no client is shown what it
// may not do. TestAccess asks for each row as each kind of caller.

package api

import (
	"net/http"

	"github.com/drover-project/drover/server/api/login"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/releases"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/versions"
)

// handlers are where the rows lead.
type handlers struct {
	v3       *management.API
	v1       *steve.API
	own      *native.API
	fleet    native.FleetAPI
	desk     native.HandoverAPI
	upgrades native.UpgradeAPI
	rescue   native.BackupAPI
	files    native.SnapshotAPI
	login    *login.API
	// releases are those of both distributions.
	releases *releases.API

	agents, metrics, proxy route.Handler
}

// Credentials of protocols of their own.
const (
	planToken         = "the machine's token, or an administrator's"
	registrationToken = "a registration token"
	nodeAgentToken    = "a registration token and the host's parameters"
	machineToken      = "the machine's token"
	replicaSecret     = "the secret that all servers share"
)

// row is a route.Row that is written without the names of its fields.
type row route.Row

// table is every route. Of two that match a path the first serves it.
func table(h handlers) []route.Row {
	open, login, anyone, may, object := route.Open, route.Login, route.Anyone, route.May, route.Object
	v3, v1, own, public, agents := h.v3, h.v1, h.own, h.login, h.agents
	logout, logoutAll := auth.CollectionAction("logout"), auth.CollectionAction("logoutAll")
	kubeconfig, changePassword := auth.Action("generateKubeconfig"), auth.CollectionAction("changepassword")

	rows := []row{
		// What hosts and load balancers ask for.
		{"GET", "/ping", open(), agents},
		{"GET", "/healthz", open(), agents},
		{"GET", "/cacerts", open(), agents},
		{"GET", "/rancherversion", open(), agents},
		{"GET", "/system-agent-install.sh", open(), agents},
		{"*", "/assets/{rest...}", open(), agents},
		{"GET", "/metrics", may(auth.Get, auth.Metrics), h.metrics},

		// Agents.
		{"*", "/v3/connect/agent", route.Own(registrationToken), agents},
		{"GET", "/v3/connect", route.Own(nodeAgentToken), agents},
		{"GET", "/v3/connect/register", route.Own(nodeAgentToken), agents},
		{"GET", "/v3/connect/config", route.Own(nodeAgentToken), agents},
		{"*", "/v3/connect/machine", route.Own(machineToken), agents},
		{"*", "/v3/import/{rest...}", open(), noManifest},

		// Plan Secrets, in the form of Kubernetes.
		{"*", "/version", route.Own("none"), agents},
		{"*", "/api", route.Own("none"), agents},
		{"*", "/apis", route.Own("none"), agents},
		{"*", "/openapi/v3", route.Own("none"), agents},
		{"*", "/openapi/v3/api/v1", route.Own("none"), agents},
		{"*", "/api/v1", route.Own("none"), agents},
		{"*", "/api/v1/namespaces/{namespace}/secrets/{name}", route.Own(planToken), agents},
		{"*", "/api/v1/namespaces/{namespace}/secrets", route.Own(planToken), agents},
		{"*", "/api/v1/secrets", route.Own(planToken), agents},
		{"*", "/api/v1/namespaces", route.Own(planToken), agents},
		{"*", "/api/v1/namespaces/{namespace}", route.Own(planToken), agents},
		{"*", "/api/v1/{rest...}", route.Own(planToken), agents},

		// What servers ask of each other.
		{"*", "/v1-drover/relay", route.Own(replicaSecret), agents},
		{"GET", "/v1-drover/relay/sessions", route.Own(replicaSecret), agents},

		// Logging in and out.
		{"GET", "/v3-public", open(), public.Root},
		{"GET", "/v3-public/schemas", open(), public.Schemas},
		{"GET", "/v3-public/authproviders", open(), public.Providers},
		{"GET", "/v3-public/localproviders", open(), public.Providers},
		{"GET", "/v3-public/authproviders/local", open(), public.Provider},
		{"GET", "/v3-public/localproviders/local", open(), public.Provider},
		{"POST", "/v3-public/authproviders/local?action=login", open(), public.Login},
		{"POST", "/v3-public/localproviders/local?action=login", open(), public.Login},
		{"POST", "/v3-public/authproviders/local", open(), public.NoAction},
		{"POST", "/v3-public/localproviders/local", open(), public.NoAction},
		{"GET", "/v1-public/authproviders", open(), public.PlainProviders},
		{"POST", "/v1-public/login", open(), public.PlainLogin},
		{"POST", "/v1/logout", route.Leaving(), v3.Type(v3.Logout)},

		// The management API.
		{"GET", "/", open(), v3.Roots},
		{"GET", "/v3", login(), v3.Root},
		{"GET", "/v3/schemas", login(), v3.Schemas},
		{"GET", "/v3/schemas/{schema}", login(), v3.Schemas},
		{"GET", "/v3/subscribe", login(), v3.Subscribe},

		{"GET", "/v3/clusters", may(auth.List, auth.Cluster), v3.List},
		{"GET", "/v3/clusters/schemas", login(), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/schemas/{schema}", login(), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/{id}", object(auth.Get, auth.Cluster), v3.Get},
		{"PUT", "/v3/clusters/{id}", object(auth.Update, auth.Cluster), v3.Resource(v3.UpdateCluster)},
		{"DELETE", "/v3/clusters/{id}", object(auth.Remove, auth.Cluster), v3.Resource(v3.RemoveCluster)},
		{"POST", "/v3/clusters/{id}?action=generateKubeconfig", object(kubeconfig, auth.Cluster), v3.Resource(v3.GenerateKubeconfig)},
		{"POST", "/v3/clusters/{id}?action=exportYaml", object(auth.Action("exportYaml"), auth.Cluster), v3.Resource(v3.ExportYAML)},
		{"POST", "/v3/clusters/{id}?action=rotateCertificates", object(auth.Action("rotateCertificates"), auth.Cluster), v3.Resource(v3.RotateCertificates)},
		{"POST", "/v3/clusters/{id}?action=rotateEncryptionKey", object(auth.Action("rotateEncryptionKey"), auth.Cluster), v3.Resource(v3.RotateEncryptionKey)},
		{"POST", "/v3/clusters/{id}?action=backupEtcd", object(auth.Action("backupEtcd"), auth.Cluster), v3.Resource(v3.BackupEtcd)},
		{"POST", "/v3/clusters/{id}?action=restoreFromEtcdBackup", object(auth.Action("restoreFromEtcdBackup"), auth.Cluster), v3.Resource(v3.RestoreFromBackup)},
		{"GET", "/v3/clusters/{context}/schemas", object(auth.Get, auth.Cluster), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/{context}/schemas/{schema}", object(auth.Get, auth.Cluster), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/{context}/subscribe", object(auth.Get, auth.Cluster), v3.SubscribeIn("cluster")},
		{"GET", "/v3/clusters/{context}/nodes", object(auth.List, auth.Machine), v3.ListIn("cluster")},
		{"GET", "/v3/clusters/{context}/nodepools", object(auth.List, auth.NodePool), v3.ListIn("cluster")},
		{"GET", "/v3/clusters/{context}/projects", object(auth.List, auth.Project), v3.ListIn("cluster")},
		{"GET", "/v3/clusters/{context}/tokens", object(auth.List, auth.Token), v3.ListIn("cluster")},
		{"POST", "/v3/clusters/{context}/tokens", object(auth.Create, auth.Token), v3.TypeIn("cluster", v3.CreateToken)},
		{"GET", "/v3/clusters/{context}/clusterregistrationtokens", object(auth.List, auth.RegistrationToken), v3.ListIn("cluster")},
		{"POST", "/v3/clusters/{context}/clusterregistrationtokens", object(auth.Create, auth.RegistrationToken), v3.TypeIn("cluster", v3.CreateRegistrationToken)},
		{"*", "/v3/clusters/{context}/{link...}", object(auth.Get, auth.Cluster), v3.UnknownIn("cluster")},

		{"GET", "/v3/clusterregistrationtokens", may(auth.List, auth.RegistrationToken), v3.List},
		{"POST", "/v3/clusterregistrationtokens", may(auth.Create, auth.RegistrationToken), v3.Type(v3.CreateRegistrationToken)},
		{"GET", "/v3/clusterregistrationtokens/{id}", object(auth.Get, auth.RegistrationToken), v3.Get},
		{"DELETE", "/v3/clusterregistrationtokens/{id}", object(auth.Remove, auth.RegistrationToken), v3.Resource(v3.RemoveRegistrationToken)},

		{"GET", "/v3/nodes", may(auth.List, auth.Machine), v3.List},
		{"GET", "/v3/nodes/{id}", object(auth.Get, auth.Machine), v3.Get},
		{"DELETE", "/v3/nodes/{id}", object(auth.Remove, auth.Machine), v3.Resource(v3.RemoveNode)},

		{"GET", "/v3/nodepools", may(auth.List, auth.NodePool), v3.List},
		{"GET", "/v3/nodepools/{id}", object(auth.Get, auth.NodePool), v3.Get},

		{"GET", "/v3/etcdbackups", may(auth.List, auth.EtcdBackup), v3.List},
		{"POST", "/v3/etcdbackups", may(auth.Create, auth.EtcdBackup), v3.Type(v3.CreateBackup)},
		{"GET", "/v3/etcdbackups/{id}", object(auth.Get, auth.EtcdBackup), v3.Get},

		{"GET", "/v3/projects", may(auth.List, auth.Project), v3.List},
		{"GET", "/v3/projects/schemas", login(), v3.SchemasIn("project")},
		{"GET", "/v3/projects/schemas/{schema}", login(), v3.SchemasIn("project")},
		{"GET", "/v3/projects/{id}", object(auth.Get, auth.Project), v3.Get},
		{"GET", "/v3/projects/{context}/schemas", object(auth.Get, auth.Project), v3.SchemasIn("project")},
		{"GET", "/v3/projects/{context}/schemas/{schema}", object(auth.Get, auth.Project), v3.SchemasIn("project")},
		{"GET", "/v3/projects/{context}/subscribe", object(auth.Get, auth.Project), v3.SubscribeIn("project")},
		{"*", "/v3/projects/{context}/{link...}", object(auth.Get, auth.Project), v3.UnknownIn("project")},

		{"GET", "/v3/settings", may(auth.List, auth.Setting), v3.List},
		{"GET", "/v3/settings/{id}", anyone(auth.Get, auth.Setting), v3.Get},
		{"PUT", "/v3/settings/{id}", object(auth.Update, auth.Setting), v3.Resource(v3.UpdateSetting)},

		{"GET", "/v3/tokens", may(auth.List, auth.Token), v3.List},
		{"POST", "/v3/tokens", may(auth.Create, auth.Token), v3.Type(v3.CreateToken)},
		{"POST", "/v3/tokens?action=logout", route.Leaving().For(logout, auth.Token), v3.Type(v3.Logout)},
		{"POST", "/v3/tokens?action=logoutAll", route.Leaving().For(logoutAll, auth.Token), v3.Type(v3.LogoutAll)},
		{"GET", "/v3/tokens/{id}", object(auth.Get, auth.Token), v3.Get},
		{"PUT", "/v3/tokens/{id}", object(auth.Update, auth.Token), v3.Resource(v3.UpdateToken)},
		{"DELETE", "/v3/tokens/{id}", object(auth.Remove, auth.Token), v3.Resource(v3.RemoveToken)},

		{"GET", "/v3/users", may(auth.List, auth.User), v3.List},
		{"POST", "/v3/users?action=changepassword", may(changePassword, auth.User), v3.Type(v3.ChangePassword)},
		{"GET", "/v3/users/{id}", object(auth.Get, auth.User), v3.Get},
		{"POST", "/v3/users/{id}?action=setpassword", object(auth.Action("setpassword"), auth.User), v3.Resource(v3.SetPassword)},
		{"*", "/v3/{rest...}", login(), v3.Unknown},

		// Drover's own API.
		{"POST", "/v1-drover/apply", may(auth.Apply, auth.Cluster), own.Apply},
		{"GET", "/v1-drover/clusters", may(auth.ListAll, auth.Cluster), own.ListClusters},
		{"GET", "/v1-drover/clusters/{namespace}/{name}", object(auth.Get, auth.Cluster), own.GetCluster},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/preview", object(auth.Get, auth.Cluster), own.PreviewCluster},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/pause", object(auth.Update, auth.Cluster), own.Pause},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/resume", object(auth.Update, auth.Cluster), h.desk.Resume},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/export", object(auth.Action("export"), auth.Cluster), h.desk.Export},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/import-rke", may(auth.Apply, auth.Cluster), h.desk.Import},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/upgrade", object(auth.Update, auth.Cluster), h.upgrades.Upgrade},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/window", object(auth.Get, auth.Cluster), h.upgrades.GetWindow},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/window/set", object(auth.Update, auth.Cluster), h.upgrades.SetWindow},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/operations", object(auth.Update, auth.Cluster), own.Begin},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/snapshots", object(auth.Get, auth.Cluster), own.ListSnapshots},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/snapshots/{snapshot}/file", object(auth.Action("downloadSnapshot"), auth.Cluster), h.files.Download},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/document", object(auth.Get, auth.Cluster), own.GetDocument},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/join", object(auth.Get, auth.RegistrationToken), native.JoinAPI{API: own}.Join},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/join/rotate", object(auth.Update, auth.RegistrationToken), native.JoinAPI{API: own}.RotateJoin},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/why", object(auth.Get, auth.Cluster), own.WhyCluster},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/token", object(auth.Action("token"), auth.Cluster), own.RevealTokens},
		{"GET", "/v1-drover/machines", may(auth.ListAll, auth.Machine), own.ListMachines},
		{"GET", "/v1-drover/machines/{namespace}/{name}", object(auth.Get, auth.Machine), own.GetMachine},
		{"POST", "/v1-drover/machines/{namespace}/{name}/rejoin", object(auth.Update, auth.Machine), own.AllowRejoin},
		{"POST", "/v1-drover/machines/{namespace}/{name}/labels", object(auth.Update, auth.Machine), own.LabelMachine},
		{"GET", "/v1-drover/machines/{namespace}/{name}/why", object(auth.Get, auth.Machine), own.WhyMachine},
		{"GET", "/v1-drover/machines/{namespace}/{name}/status", object(auth.Get, auth.Machine), own.Ask("status")},
		{"GET", "/v1-drover/machines/{namespace}/{name}/output", object(auth.Get, auth.Machine), own.Ask("output")},
		{"GET", "/v1-drover/machines/{namespace}/{name}/logs", object(auth.Get, auth.Machine), own.Ask("logs")},
		{"GET", "/v1-drover/machines/{namespace}/{name}/dial", object(auth.Dial, auth.Machine), own.DialHost},
		{"GET", "/v1-drover/objects", may(auth.ListAll, auth.SharedObject), own.ListObjects},
		{"DELETE", "/v1-drover/objects/{kind}/{namespace}/{name}", object(auth.Remove, auth.SharedObject), own.RemoveObject},
		{"GET", "/v1-drover/operations", may(auth.ListAll, auth.Operation), own.ListOperations},
		{"GET", "/v1-drover/operations/{id}", object(auth.Get, auth.Operation), own.GetOperation},
		{"POST", "/v1-drover/operations/{id}/abort", object(auth.Action("abort"), auth.Operation), own.AbortOperation},
		{"POST", "/v1-drover/operations/{id}/retry", object(auth.Action("retry"), auth.Operation), own.RetryOperation},
		{"POST", "/v1-drover/operations/{id}/hurry", object(auth.Action("hurry"), auth.Operation), own.HurryOperation},
		{"GET", "/v1-drover/events", may(auth.ListAll, auth.Event), own.ListEvents},
		{"GET", "/v1-drover/tokens", may(auth.List, auth.Token), own.ListTokens},
		{"GET", "/v1-drover/versions", login(), own.ListVersions},
		{"GET", "/v1-drover/versions/{version}", login(), own.GetVersion},
		{"GET", "/v1-drover/tunnels", may(auth.ListAll, auth.Tunnel), own.ListTunnels},
		{"GET", "/v1-drover/backup", may(auth.Create, auth.Backup), h.rescue.Make},
		{"GET", "/v1-drover/backups", may(auth.ListAll, auth.Backup), h.rescue.Status},
	}
	rows = append(append(rows, fleetRows(h.fleet)...), row{"*", "/v1-drover/{rest...}", login(), route.NotFound})
	rows = append(append(rows, steveRows(v1)...), releaseRows(h.releases)...)
	rows = append(rows,
		// The clusters' own APIs.
		row{"*", "/k8s/clusters/{id}", route.Scoped(auth.Proxy, auth.Cluster), h.proxy},
		row{"*", "/k8s/clusters/{id}/{rest...}", route.Scoped(auth.Proxy, auth.Cluster), h.proxy},
	)
	all := make([]route.Row, len(rows))
	for i, one := range rows {
		all[i] = route.Row(one)
	}
	return all
}

// fleetRows are machines without a cluster, in drover's own API.
func fleetRows(fleet native.FleetAPI) []row {
	may, object := route.May, route.Object
	return []row{
		{"GET", "/v1-drover/fleets", may(auth.ListAll, auth.Fleet), fleet.List},
		{"GET", "/v1-drover/fleets/{name}", object(auth.Get, auth.Fleet), fleet.Get},
		{"GET", "/v1-drover/fleets/{name}/why", object(auth.Get, auth.Fleet), fleet.Why},
		{"POST", "/v1-drover/fleets/{name}/join", may(auth.Create, auth.Fleet), fleet.Join},
		{"POST", "/v1-drover/fleets/{name}/plan", object(auth.Update, auth.Fleet), fleet.Give},
		{"POST", "/v1-drover/fleets/{name}/remove", object(auth.Remove, auth.Fleet), fleet.Remove},
		{"POST", "/v1-drover/machines/{namespace}/{name}/remove", object(auth.Remove, auth.Machine), fleet.RemoveMachine},
	}
}

// steveRows are /v1, which is also found as the API of the cluster "local".
func steveRows(v1 *steve.API) []row {
	login, hidden := route.Login, route.Hidden
	rows := []row{
		{"GET", "/v1", login(), v1.Root},
		{"GET", "/v1/schemas", login(), v1.Schemas},
		{"GET", "/v1/schemas/{schema}", login(), v1.Schemas},
		{"GET", "/v1/subscribe", login(), v1.Subscribe},
		{"GET", "/v1/counts", login(), v1.Counts},

		{"GET", "/v1/provisioning.cattle.io.clusters", hidden(auth.ListAll, auth.Cluster), v1.List},
		{"POST", "/v1/provisioning.cattle.io.clusters", hidden(auth.Create, auth.Cluster), v1.Type(v1.CreateCluster)},
		{"GET", "/v1/provisioning.cattle.io.clusters/{namespace}", hidden(auth.ListAll, auth.Cluster), v1.List},
		{"POST", "/v1/provisioning.cattle.io.clusters/{namespace}", hidden(auth.Create, auth.Cluster), v1.Type(v1.CreateCluster)},
		{"GET", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Get, auth.Cluster), v1.Get},
		{"PUT", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Update, auth.Cluster), v1.Resource(v1.UpdateCluster)},
		{"PATCH", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Patch, auth.Cluster), v1.Resource(v1.PatchCluster)},
		{"DELETE", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Remove, auth.Cluster), v1.Resource(v1.RemoveCluster)},

		{"GET", "/v1/cluster.x-k8s.io.machines", hidden(auth.ListAll, auth.Machine), v1.List},
		{"GET", "/v1/cluster.x-k8s.io.machines/{namespace}", hidden(auth.ListAll, auth.Machine), v1.List},
		{"GET", "/v1/cluster.x-k8s.io.machines/{namespace}/{name}", hidden(auth.Get, auth.Machine), v1.Get},

		{"GET", "/v1/management.cattle.io.clusters", hidden(auth.ListAll, auth.Cluster), v1.List},
		{"GET", "/v1/management.cattle.io.clusters/{name}", hidden(auth.Get, auth.Cluster), v1.Get},
		{"POST", "/v1/management.cattle.io.clusters/{name}?action=generateKubeconfig", hidden(auth.Action("generateKubeconfig"), auth.Cluster), v1.Resource(v1.Kubeconfig)},
		{"*", "/v1/{rest...}", login(), v1.Unknown},
	}
	for _, one := range rows {
		one.Pattern = "/k8s/clusters/local" + one.Pattern
		rows = append(rows, one)
	}
	return rows
}

// releaseRows are the versions in Rancher's form.
func releaseRows(r *releases.API) []row {
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

// noManifest is where kubectl fetches manifests of clusters to import, without login; it
// shows plain text.
func noManifest(c *route.Call) (route.Answer, error) {
	norman.Uncached(c.W.Header())
	http.Error(c.W, "there is no manifest at this address: this version of drover does not import clusters", http.StatusNotFound)
	return route.Answer{}, nil
}
