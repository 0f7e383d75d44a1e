// The routes of the management API that its kinds do not say, and those of drover's own API.

package api

import (
	"slices"

	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/secrets"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// managementRows are the management API, beside what managedRows are.
func managementRows(h handlers) []row {
	open, loggedIn, anyone, may, object, v3 := route.Open, route.Login, route.Anyone, route.May, route.Object, h.v3
	body := func(do management.Body) management.Handler { return do.Handler }
	logout, logoutAll := auth.CollectionAction("logout"), auth.CollectionAction("logoutAll")
	return []row{
		{"GET", "/", open(), h.page.Root(v3.Roots)},
		{"GET", "/v3", loggedIn(), v3.Root},
		{"GET", "/v3/openapi.json", loggedIn(), ui.Described},
		{"GET", "/v3/schemas", loggedIn(), v3.Schemas},
		{"GET", "/v3/schemas/{schema}", loggedIn(), v3.Schemas},
		{"GET", "/v3/subscribe", loggedIn(), v3.Subscribe},

		{"GET", "/v3/clusters/schemas", loggedIn(), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/schemas/{schema}", loggedIn(), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/{context}/schemas", object(auth.Get, auth.Cluster), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/{context}/schemas/{schema}", object(auth.Get, auth.Cluster), v3.SchemasIn("cluster")},
		{"GET", "/v3/clusters/{context}/subscribe", object(auth.Get, auth.Cluster), v3.SubscribeIn("cluster")},
		{"GET", "/v3/clusters/{context}/nodes", object(auth.List, auth.Machine), v3.ListIn("cluster")},
		{"GET", "/v3/clusters/{context}/nodepools", object(auth.List, auth.NodePool), v3.ListIn("cluster")},
		{"GET", "/v3/clusters/{context}/projects", object(auth.List, auth.Project), v3.ListIn("cluster")},
		{"GET", "/v3/clusters/{context}/tokens", object(auth.List, auth.Token), v3.ListIn("cluster")},
		{"POST", "/v3/clusters/{context}/tokens", object(auth.Create, auth.Token), v3.TypeIn("cluster", body(v3.Tokens.Create))},
		{"GET", "/v3/clusters/{context}/clusterregistrationtokens", object(auth.List, auth.RegistrationToken).Reveals(), v3.ListIn("cluster")},
		{"POST", "/v3/clusters/{context}/clusterregistrationtokens", object(auth.Create, auth.RegistrationToken), v3.TypeIn("cluster", body(v3.RegistrationTokens.Create))},
		{"GET", "/v3/clusters/{context}/namespaces", object(auth.List, auth.Namespace), route.Of(h.inside.Namespaces, h.inside.ListNamespaces)},
		{"POST", "/v3/clusters/{context}/namespaces", object(auth.Create, auth.Namespace), route.Of(h.inside.Namespaces, h.inside.CreateNamespace)},
		{"GET", "/v3/clusters/{context}/namespaces/{id}", object(auth.Get, auth.Namespace), route.Of(h.inside.Namespace, h.inside.GetNamespace)},
		{"PUT", "/v3/clusters/{context}/namespaces/{id}", object(auth.Update, auth.Namespace), route.Of(h.inside.Namespace, h.inside.UpdateNamespace)},
		{"DELETE", "/v3/clusters/{context}/namespaces/{id}", object(auth.Remove, auth.Namespace), route.Of(h.inside.Namespace, h.inside.RemoveNamespace)},
		{"POST", "/v3/clusters/{context}/namespaces/{id}?action=move", object(auth.Action("move"), auth.Namespace), route.Of(h.inside.Namespace, h.inside.MoveNamespace)},
		{"*", "/v3/clusters/{context}/{link...}", object(auth.Get, auth.Cluster), v3.UnknownIn("cluster")},

		{"GET", "/v3/clusterregistrationtokens", may(auth.List, auth.RegistrationToken).Reveals(), v3.List},
		{"POST", "/v3/clusterregistrationtokens", may(auth.Create, auth.RegistrationToken), v3.Type(body(v3.RegistrationTokens.Create))},
		{"GET", "/v3/clusterregistrationtokens/{id}", object(auth.Get, auth.RegistrationToken).Reveals(), v3.Get},
		{"DELETE", "/v3/clusterregistrationtokens/{id}", object(auth.Remove, auth.RegistrationToken), v3.Resource(v3.RegistrationTokens.Remove)},

		{"GET", "/v3/projects/schemas", loggedIn(), v3.SchemasIn("project")},
		{"GET", "/v3/projects/schemas/{schema}", loggedIn(), v3.SchemasIn("project")},
		{"GET", "/v3/projects/{context}/schemas", object(auth.Get, auth.Project), v3.SchemasIn("project")},
		{"GET", "/v3/projects/{context}/schemas/{schema}", object(auth.Get, auth.Project), v3.SchemasIn("project")},
		{"GET", "/v3/projects/{context}/subscribe", object(auth.Get, auth.Project), v3.SubscribeIn("project")},
		{"*", "/v3/projects/{context}/{link...}", object(auth.Get, auth.Project), v3.UnknownIn("project")},

		{"GET", "/v3/settings", may(auth.List, auth.Setting), v3.List},
		{"GET", "/v3/settings/{id}", anyone(auth.Get, auth.Setting), v3.Get},
		{"PUT", "/v3/settings/{id}", object(auth.Update, auth.Setting), v3.Resource(body(v3.Settings.Update))},

		{"POST", "/v3/tokens?action=logout", route.Leaving().For(logout, auth.Token), v3.Type(v3.Tokens.Logout)},
		{"POST", "/v3/tokens?action=logoutAll", route.Leaving().For(logoutAll, auth.Token), v3.Type(v3.Tokens.LogoutAll)},
	}
}

// droverRows are drover's own API.
func droverRows(h handlers) []row {
	loggedIn, may, object, own := route.Login, route.May, route.Object, h.own
	of, on := own.Clusters, own.Machines
	return []row{
		{"POST", "/v1-drover/apply", may(auth.Apply, auth.Cluster), of.Apply},
		{"GET", "/v1-drover/clusters", may(auth.List, auth.Cluster), of.List},
		{"GET", "/v1-drover/clusters/{namespace}/{name}", object(auth.Get, auth.Cluster), route.Of(of.Find, of.Get)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/preview", object(auth.Update, auth.Cluster), route.Of(of.Find, of.Preview)},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/import-rke", may(auth.Apply, auth.Cluster), of.Import},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/window", object(auth.Get, auth.Cluster), route.Of(of.Find, of.GetWindow)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/rehearsals", object(auth.Get, auth.Cluster), route.Of(of.Find, of.Rehearsals)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/snapshots", object(auth.Get, auth.EtcdBackup), route.Of(of.Find, own.Snapshots.List)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/snapshots/{snapshot}/file", object(auth.Action("downloadSnapshot"), auth.Cluster).Opens(), route.Of(of.Find, own.Snapshots.Download)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/document", object(auth.Update, auth.Cluster), route.Of(of.Find, of.Document)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/join", object(auth.Get, auth.RegistrationToken).Reveals(), route.Of(of.Find, own.Joining.Command)},
		{"POST", "/v1-drover/clusters/{namespace}/{name}/join/rotate", object(auth.Update, auth.RegistrationToken), route.Of(of.Find, own.Joining.Rotate)},
		{"GET", "/v1-drover/clusters/{namespace}/{name}/why", object(auth.Get, auth.Cluster).Reveals(), route.Of(of.Find, own.Why.Cluster)},
		{"GET", "/v1-drover/agents", may(auth.List, auth.Machine), on.Agents},
		{"GET", "/v1-drover/machines", may(auth.List, auth.Machine), on.List},
		{"GET", "/v1-drover/machines/{namespace}/{name}", object(auth.Get, auth.Machine), route.Of(on.Find, on.Get)},
		{"GET", "/v1-drover/machines/{namespace}/{name}/why", object(auth.Get, auth.Machine).Reveals(), route.Of(on.Find, own.Why.Machine)},
		{"GET", "/v1-drover/machines/{namespace}/{name}/status", object(auth.Get, auth.Machine), on.Ask("status")},
		{"GET", "/v1-drover/machines/{namespace}/{name}/output", object(auth.Action("logs"), auth.Machine).Reveals(), on.Ask("output")},
		{"GET", "/v1-drover/machines/{namespace}/{name}/logs", object(auth.Action("logs"), auth.Machine).Reveals(), on.Ask("logs")},
		{"GET", "/v1-drover/machines/{namespace}/{name}/dial", object(auth.Dial, auth.Machine).Opens(), route.Of(on.Find, on.Dial)},
		{"GET", "/v1-drover/objects", may(auth.List, auth.SharedObject), own.Objects.List},
		{"DELETE", "/v1-drover/objects/{kind}/{namespace}/{name}", object(auth.Remove, auth.SharedObject), own.Objects.Remove},
		{"GET", "/v1-drover/operations", may(auth.List, auth.Operation), own.Operations.List},
		{"GET", "/v1-drover/operations/{id}", object(auth.Get, auth.Operation), route.Of(own.Operations.Find, own.Operations.Get)},
		{"GET", "/v1-drover/events", may(auth.List, auth.Event), own.Events.List},
		{"GET", "/v1-drover/tokens", may(auth.List, auth.Token), h.people.ListTokens},
		{"DELETE", "/v1-drover/tokens/{name}", object(auth.Action("revoke"), auth.Token), h.people.RevokeToken},
		{"GET", "/v1-drover/versions", loggedIn(), own.Versions.List},
		{"GET", "/v1-drover/versions/{version}", loggedIn(), own.Versions.Get},
		{"GET", "/v1-drover/tunnels", may(auth.ListAll, auth.Tunnel), own.Servers.ListTunnels},
		{"GET", "/v1-drover/workers", may(auth.ListAll, auth.Tunnel), own.Servers.ListWorkers},
		{"GET", "/v1-drover/backup", may(auth.Create, auth.Backup).Opens(), own.Backups.Make},
		{"GET", "/v1-drover/audit", may(auth.ListAll, auth.Audit), own.Audit.List},
		{"GET", "/v1-drover/backups", may(auth.ListAll, auth.Backup), own.Backups.Status},
	}
}

// Verb is what people do to one object, with the handler of it, which finds the object and holds what the verb needs: see route.Of.
type Verb struct {
	verbs.Verb
	Do route.Handler
}

// allVerbs are the verbs that the server has.
func allVerbs(handlers map[string]route.Handler) []Verb {
	var all []Verb
	for _, v := range verbs.All() {
		all = append(all, Verb{v, handlers[v.At()]})
	}
	return all
}

// verbRows are verbs. Those that are at the same place are one row.
func verbRows(all []Verb) []row {
	var rows []row
	for _, v := range all {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.Pattern == v.Pattern() }) {
			rows = append(rows, row{"POST", v.Pattern(), route.Object(auth.Verb(v.Right), auth.Kind(v.Of)), v.Do})
		}
	}
	return rows
}

// fleetRows are machines without a cluster, in drover's own API.
func fleetRows(own native.API) []row {
	may, object, fleet, on := route.May, route.Object, own.Fleets, own.Machines
	return []row{
		{"GET", "/v1-drover/machines/{namespace}/{name}/containers", object(auth.Action("logs"), auth.Machine).Reveals(), on.Ask("containers")},
		{"GET", "/v1-drover/fleets", may(auth.ListAll, auth.Fleet), fleet.List},
		{"GET", "/v1-drover/fleets/{name}", object(auth.Get, auth.Fleet), route.Of(fleet.Find, fleet.Get)},
		{"GET", "/v1-drover/fleets/{name}/why", object(auth.Get, auth.Fleet), route.Of(fleet.Find, fleet.Why)},
		{"POST", "/v1-drover/fleets/{name}/join", may(auth.Create, auth.Fleet), fleet.Join},
		{"POST", "/v1-drover/fleets/{name}/plan", object(auth.Update, auth.Fleet), route.Of(fleet.Find, fleet.Give)},
	}
}

//go:generate go test -run TestOpenAPI -update .

// steveRows are /v1, which is also found as the API of the cluster "local".
func steveRows(v1 *steve.API, kept *secrets.API) []row {
	loggedIn, hidden := route.Login, route.Hidden
	rows := []row{
		{"GET", "/v1", loggedIn(), v1.Root},
		{"GET", "/v1/schemas", loggedIn(), v1.Schemas},
		{"GET", "/v1/schemas/{schema}", loggedIn(), v1.Schemas},
		{"GET", "/v1/subscribe", loggedIn(), v1.Subscribe},
		{"GET", "/v1/counts", loggedIn(), v1.Counts},
		{"POST", "/v1/ext.cattle.io.selfusers", loggedIn(), steve.SelfUser},

		{"GET", "/v1/provisioning.cattle.io.clusters", hidden(auth.ListAll, auth.ProvisionedCluster), v1.List},
		{"POST", "/v1/provisioning.cattle.io.clusters", hidden(auth.Create, auth.ProvisionedCluster), v1.Type(v1.CreateCluster)},
		{"GET", "/v1/provisioning.cattle.io.clusters/{namespace}", hidden(auth.ListAll, auth.ProvisionedCluster), v1.List},
		{"POST", "/v1/provisioning.cattle.io.clusters/{namespace}", hidden(auth.Create, auth.ProvisionedCluster), v1.Type(v1.CreateCluster)},
		{"GET", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Get, auth.ProvisionedCluster), v1.Get},
		{"PUT", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Update, auth.ProvisionedCluster), v1.Resource(v1.UpdateCluster)},
		{"PATCH", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Patch, auth.ProvisionedCluster), v1.Resource(v1.PatchCluster)},
		{"DELETE", "/v1/provisioning.cattle.io.clusters/{namespace}/{name}", hidden(auth.Remove, auth.ProvisionedCluster), v1.Resource(v1.RemoveCluster)},

		{"GET", "/v1/cluster.x-k8s.io.machines", hidden(auth.ListAll, auth.ClusterMachine), v1.List},
		{"GET", "/v1/cluster.x-k8s.io.machines/{namespace}", hidden(auth.ListAll, auth.ClusterMachine), v1.List},
		{"GET", "/v1/cluster.x-k8s.io.machines/{namespace}/{name}", hidden(auth.Get, auth.ClusterMachine), v1.Get},

		{"GET", "/v1/management.cattle.io.clusters", hidden(auth.ListAll, auth.Cluster), v1.List},
		{"GET", "/v1/management.cattle.io.clusters/{name}", hidden(auth.Get, auth.Cluster), v1.Get},
		{"POST", "/v1/management.cattle.io.clusters/{name}?action=generateKubeconfig", hidden(auth.Action("generateKubeconfig"), auth.Cluster), v1.Resource(v1.Kubeconfig)},
	}
	for _, t := range v1.Others {
		at, list, get := "/v1/"+t.Schema.Plural(), hidden(auth.ListAll, t.Of), hidden(auth.Get, t.Of)
		if t.Own { // about each of which May is asked
			list, get = route.Object(auth.List, t.Of), route.Object(auth.Get, t.Of)
		}
		if t.Reveals {
			list, get = list.Reveals(), get.Reveals()
		}
		rows = append(rows, row{"GET", at, list, v1.List})
		if t.Schema.Namespaced {
			at += "/{namespace}"
			rows = append(rows, row{"GET", at, list, v1.List})
		}
		rows = append(rows, row{"GET", at + "/{name}", get, v1.Get})
		if t.Update != nil {
			rows = append(rows, row{"PUT", at + "/{name}", route.Object(auth.Update, t.Of), v1.Type(steve.UpdateOther)})
		}
	}
	object := route.Object
	rows = append(rows,
		row{"POST", "/v1/secrets", object(auth.Create, auth.SharedObject), v1.Type(kept.Create)},
		row{"POST", "/v1/secrets/{namespace}", object(auth.Create, auth.SharedObject), v1.Type(kept.Create)},
		row{"PUT", "/v1/secrets/{namespace}/{name}", object(auth.Update, auth.SharedObject), v1.Type(kept.Replace)},
		row{"DELETE", "/v1/secrets/{namespace}/{name}", object(auth.Remove, auth.SharedObject), v1.Type(kept.Remove)},
		row{"*", "/v1/{rest...}", loggedIn(), v1.Unknown})
	for _, one := range rows {
		one.Pattern = "/k8s/clusters/local" + one.Pattern
		rows = append(rows, one)
	}
	return rows
}
