// The OpenAPI description of all routes, made from the table, the views and the schemas of /v3, so that
// it cannot say anything else than what is served.

package api_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/api/access"
	"github.com/drover-project/drover/server/api/clusterresources"
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/secrets"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/test/openapi"
)

// description is what the table does not say of a route.
type description struct {
	summary string
	query   []parameter
	body    string // content type of the body, "" for none
	answer  any    // a value of the answer's type, nil where it is not JSON
	stream  string // content type of an answer that is not JSON
}

type parameter struct{ name, what string }

// descriptions of /v1-drover by the patterns of their rows. TestOpenAPI holds that none is missing.
func descriptions(also ...verbs.Verb) map[string]description {
	page := []parameter{{"limit", "how many at most, 1 to 5000; default 1000"}, {"continue", "where the page begins, as the page before gave it"}}
	host := "application/x-ndjson"
	all := map[string]description{
		"/v1-drover/apply": {
			summary: "Create or change the clusters, Secrets and ConfigMaps of a stream of documents, all or none",
			query:   []parameter{{"dryRun", "true stores nothing"}, {"generation", "that of the cluster when the change was made of it; another one is 409"}}, body: "application/yaml", answer: apitypes.Applied{},
		},
		"/v1-drover/clusters": {summary: "List clusters", query: append([]parameter{{"follow", "true sends each cluster as a line of JSON, and again whenever it changes"}, tellsGone}, page...), answer: apitypes.List[apitypes.Cluster]{}},
		"/v1-drover/clusters/{namespace}/{name}": {
			summary: "Show a cluster", answer: apitypes.Cluster{},
			query: []parameter{{"follow", "true sends the cluster as a line of JSON, and again whenever it changes, until it is removed"}},
		},
		"/v1-drover/clusters/{namespace}/{name}/preview": {summary: "Show what is still to be done on a cluster's machines, in its order", answer: apitypes.Preview{}},
		"/v1-drover/clusters/{namespace}/{name}/operations": {
			summary: "Take or restore a snapshot, rotate certificates or the encryption key, or update agents, as an operation; with dryRun what it would do", body: "application/json", answer: apitypes.Begun{},
			query: []parameter{{"dryRun", "true begins nothing"}, {"queue", "true waits while another operation is under way"}, {"replace", "true ends a change that is under way"}},
		},
		"/v1-drover/clusters/{namespace}/{name}/snapshots": {summary: "List the snapshots of a cluster's etcd that the server took", query: append([]parameter{{"follow", "true sends each snapshot as a line of JSON, and again whenever it changes"}, tellsGone}, page...), answer: apitypes.List[apitypes.Snapshot]{}},
		"/v1-drover/clusters/{namespace}/{name}/snapshots/{snapshot}/file": {
			summary: "The file of a snapshot of k3s or RKE2, which holds all Secrets of the cluster; that is logged. Range: bytes=N- with If-Range continues. 503 while no host that has it is connected",
			query:   []parameter{{"machine", "only from the host of this machine, or s3"}}, stream: "application/octet-stream",
		},
		"/v1-drover/clusters/{namespace}/{name}/document": {summary: "Show a cluster as its owner wrote it, in the form that apply takes", answer: clusterspec.Document{}},
		"/v1-drover/clusters/{namespace}/{name}/join":     {summary: "The command by which a host joins; flags for its roles are appended", answer: apitypes.Join{}},
		"/v1-drover/clusters/{namespace}/{name}/join/rotate": {
			summary: "Make a new registration token in place of the one before, and show the command; hosts that have joined need neither", answer: apitypes.Join{},
		},
		"/v1-drover/clusters/{namespace}/{name}/why": {
			summary: "Why the cluster is not active: its machines that are not well, first cause first, with the end of logs of their hosts", answer: apitypes.Why{},
		},
		"/v1-drover/agents": {
			summary: "List the agents on the hosts of machines with their releases", query: append([]parameter{{"cluster", "only those of the cluster with this id"}}, page...), answer: apitypes.List[apitypes.Agent]{},
		},
		"/v1-drover/machines": {
			summary: "List machines",
			query:   append([]parameter{{"cluster", "only those of the cluster with this id"}, {"follow", "true sends each machine as a line of JSON, and again whenever it changes"}, tellsGone}, page...), answer: apitypes.List[apitypes.Machine]{},
		},
		"/v1-drover/machines/{namespace}/{name}": {summary: "Show a machine", answer: apitypes.Machine{}},
		"/v1-drover/machines/{namespace}/{name}/why": {
			summary: "Why the machine is not active, with what it waits for", answer: apitypes.Why{},
		},
		"/v1-drover/machines/{namespace}/{name}/status": {
			summary: "What the agent on the host does, waits for and failed at", stream: "application/json",
		},
		"/v1-drover/machines/{namespace}/{name}/output": {
			summary: "What instructions on the host print", stream: host,
			query: []parameter{{"follow", "1 goes on with what comes"}, {"instruction", "only this one, by name or index"}, {"offset", "byte to begin at"}},
		},
		"/v1-drover/machines/{namespace}/{name}/containers": {summary: "The containers of a Docker host, those that have ended too", answer: apitypes.Containers{}},
		"/v1-drover/machines/{namespace}/{name}/logs": {
			summary: "The log of a systemd unit, of a container or of a static pod on the host", stream: "text/plain",
			query: []parameter{{"unit", "systemd unit"}, {"container", "container, by name or id"}, {"pod", "component whose static pod runs there"}, {"tail", "how many of the last lines"}, {"follow", "1 goes on with what comes"}},
		},
		"/v1-drover/machines/{namespace}/{name}/dial": {
			summary: "Become a connection on the host (Upgrade: drover-dial)", stream: "application/octet-stream",
			query: []parameter{{"target", "docker, or an address and port"}},
		},
		"/v1-drover/objects":                           {summary: "List the Secrets and ConfigMaps that the caller made or may read, without what is in them", query: page, answer: apitypes.List[apitypes.NamedObject]{}},
		"/v1-drover/objects/{kind}/{namespace}/{name}": {summary: "Remove a Secret or ConfigMap; 409 while a cluster refers to it", answer: apitypes.NamedObject{}},
		"/v1-drover/operations": {
			summary: "List operations, those that have ended too, without tasks and logs",
			query:   append([]parameter{{"cluster", "only those of the cluster NAMESPACE/NAME"}, {"follow", "true sends each operation as a line of JSON, and again whenever it changes"}, tellsGone}, page...), answer: apitypes.List[apitypes.OperationSummary]{},
		},
		"/v1-drover/operations/{id}": {
			summary: "Show an operation", answer: apitypes.Operation{},
			query: []parameter{{"follow", "true sends the operation as a line of JSON, and again whenever it changes, until it is removed"}},
		},
		"/v1-drover/events": {
			summary: "List the latest changes of states of clusters, machines, operations and rehearsals, oldest first",
			query: append([]parameter{{"cluster", "only those of the cluster with this id"}, {"since", "only those of the time before now that is given, as in 90m; default all that are kept"},
				{"follow", "true sends each event as a line of JSON, and goes on with what comes"}}, page...), answer: apitypes.List[apitypes.Event]{},
		},
	}
	maps.Copy(all, serverDescriptions(page))
	for _, v := range append(verbs.All(), also...) {
		if v.Summary != "" {
			all[v.Pattern()] = ofVerb(v)
		}
	}
	maps.Copy(all, fleetDescriptions(page))
	maps.Copy(all, directoryDescriptions(page))
	maps.Copy(all, handoverDescriptions())
	maps.Copy(all, upgradeDescriptions())
	return all
}

// serverDescriptions are those of what the server knows beside clusters and machines.
func serverDescriptions(page []parameter) map[string]description {
	return map[string]description{
		"/v1-drover/versions": {
			summary: "List the Kubernetes versions that clusters can have, newest first",
			query:   []parameter{{"runtime", "only those of k3s or rke2"}, {"cluster", "only those that the cluster with this id may be upgraded to"}}, answer: apitypes.Versions{},
		},
		"/v1-drover/versions/{version}": {summary: "Show a Kubernetes version with its settings and charts", answer: apitypes.VersionDetail{}},
		"/v1-drover/tokens": {
			summary: "List the caller's API tokens", query: append([]parameter{{"all", "true lists those of everybody, for administrators"}}, page...), answer: apitypes.List[apitypes.Token]{},
		},
		"/v1-drover/tokens/{name}": {summary: "End a token of the caller, or of any user, for administrators"},
		"/v1-drover/whoami":        {summary: "The caller, their token and their roles", answer: apitypes.WhoAmI{}},
		"/v1-drover/tunnels":       {summary: "List the open tunnels of all servers", answer: apitypes.Tunnels{}},
		"/v1-drover/workers":       {summary: "List the workers of all servers: what runs where, what waits and since when, what failed last and why", answer: apitypes.Workers{}},
		"/v1-drover/backup": {
			summary: "A backup of the server without its keys, made as it is sent; one whose last entry is not SHA256SUMS is cut off. 409 with an external etcd", stream: "application/x-tar",
		},
		"/v1-drover/audit": {
			summary: "The newest entries of the audit log of the server that answers, oldest first",
			query: []parameter{{"user", "only what this user did, by id or login name; this and the next three may end in *"}, {"verb", "only this verb"}, {"kind", "only objects of this kind"}, {"object", "only this object"},
				{"since", "only entries of the time before now that is given, as in 90m"}, {"limit", "how many at most, 1 to 5000; default 200"},
				{"follow", "true sends each entry as a line of JSON, and goes on with what comes"}},
			answer: apitypes.Audit{},
		},
		"/v1-drover/backups": {summary: "How the scheduled backups of the server stand", answer: apitypes.BackupStatus{}},
	}
}

// ofVerb is what a verb says of its route.
func ofVerb(v verbs.Verb) description {
	d := description{summary: v.Summary, answer: v.Answer}
	if v.Body != nil {
		d.body = "application/json"
	}
	for _, in := range v.Inputs {
		if in.Query {
			d.query = append(d.query, parameter{in.Name, in.Help})
		}
	}
	return d
}

// tellsGone goes with follow.
var tellsGone = parameter{"gone", "with follow: true sends a line with gone, and what names the thing, for each that is removed or no longer the caller's to see"}

// upgradeDescriptions are those of upgrades, maintenance windows and schedules of rehearsals.
func upgradeDescriptions() map[string]description {
	return map[string]description{
		"/v1-drover/clusters/{namespace}/{name}/window":     {summary: "The maintenance window of a cluster, in which its machines may be restarted", answer: apitypes.Window{}},
		"/v1-drover/clusters/{namespace}/{name}/rehearsals": {summary: "How often snapshots of a cluster are rehearsed, when next, and how the last one ended", answer: apitypes.Rehearsals{}},
	}
}

// handoverDescriptions are those of clusters that change hands.
func handoverDescriptions() map[string]description {
	return map[string]description{
		"/v1-drover/clusters/{namespace}/{name}/export": {
			summary: "The files with which the rke command line takes an RKE1 cluster over, as a tar, or sealed by age when encryptTo is given: all of its keys; that is logged, and the server does not touch the cluster afterwards unless keep is true. " +
				"The body is {\"sshUser\", \"sshKeyPath\", \"bastion\", \"encryptTo\", \"keep\", \"unfinished\", \"faulty\"}; notes are in headers Warning",
			body: "application/json", stream: "application/x-tar",
		},
		"/v1-drover/clusters/{namespace}/{name}/import-rke": {
			summary: "Take in an RKE1 cluster that runs already, by {\"config\": cluster.yml, \"state\": cluster.rkestate, \"force\"}, or with \"fromHosts\" in place of the state; the server does not touch it before it is resumed",
			query:   []parameter{{"dryRun", "true stores nothing"}}, body: "application/json", answer: apitypes.Imported{},
		},
	}
}

// fleetDescriptions are those of fleetRows.
func fleetDescriptions(page []parameter) map[string]description {
	return map[string]description{
		"/v1-drover/fleets":            {summary: "List fleets", query: append([]parameter{{"follow", "true sends each fleet as a line of JSON, and again whenever it, its machines or what is under way on it changes"}, tellsGone}, page...), answer: apitypes.List[apitypes.Fleet]{}},
		"/v1-drover/fleets/{name}":     {summary: "Show a fleet", answer: apitypes.Fleet{}},
		"/v1-drover/fleets/{name}/why": {summary: "Why machines of the fleet are not active, first cause first", answer: apitypes.Why{}},
		"/v1-drover/fleets/{name}/join": {
			summary: "The command by which a host joins; the fleet is made when there is none of the name", answer: apitypes.Join{},
			query: []parameter{{"rotate", "true makes a new token in place of the one before; hosts that have joined need neither"}},
		},
		"/v1-drover/fleets/{name}/plan": {
			summary: "Give machines a plan, by one operation; those that have it and did not fail with it are left alone", body: "application/yaml", answer: apitypes.PlanResult{},
			query: []parameter{{"machine", "name of a machine or its host (repeat); without this and labels, all machines of the fleet"}, {"label", "key=value, machines that have all of them (repeat)"},
				{"concurrency", "how many machines may be on their way at a time: a number, 0 for all, or a part such as 25%; default 1"}, {"dryRun", "true stores nothing and shows what would be done"},
				{"queue", "true has it wait while another operation on the fleet is under way"}, {"replace", "true ends that one in favour of this one"}},
		},
		"/v1-drover/fleets/{name}/operations": {
			summary: "Have the agents on a fleet's hosts become those of the server's release, by an operation of the kind update-agents", body: "application/json", answer: apitypes.Begun{},
			query: []parameter{{"dryRun", "true stores nothing and answers with the steps, in order"}, {"queue", "true has it wait while another operation on the fleet is under way"}},
		},
	}
}

// directoryDescriptions are those of directoryRows.
func directoryDescriptions(page []parameter) map[string]description {
	return map[string]description{
		"/v1-drover/directories":     {summary: "List outside directories, without their secrets", query: page, answer: apitypes.List[apitypes.Directory]{}},
		"/v1-drover/directories/set": {summary: "Configure an outside directory by a document; secrets that it leaves out stay", body: "application/yaml", answer: apitypes.Directory{}},
		"/v1-drover/directories/{kind}/test": {
			summary: "Ask a directory whether it answers, or, with a name and a password, whom they belong to; nothing is changed", body: "application/json", answer: apitypes.TestedDirectory{},
		},
		"/v1-drover/directories/{kind}":        {summary: "Show an outside directory, without its secrets", answer: apitypes.Directory{}},
		"/v1-drover/directories/{kind}/remove": {summary: "Forget an outside directory; its people stay, and lose their groups of it and the sessions that it opened"},
	}
}

// describe describes all routes: those of drover's own API by what is said of each here, the others by the table.
func describe(also ...verbs.Verb) map[string]any {
	known, paths, schemas := descriptions(also...), map[string]any{}, map[string]any{}
	schemas["Error"] = errorSchema()
	var rest []route.Row
	var more []api.Verb
	for _, v := range also {
		more = append(more, api.Verb{Verb: v})
	}
	for _, row := range api.Outline(more...) {
		op, ok := known[row.Pattern]
		switch {
		case ok:
			methods, _ := paths[row.Pattern].(map[string]any)
			if methods == nil {
				methods = map[string]any{}
				paths[row.Pattern] = methods
			}
			methods[strings.ToLower(row.Method)] = op.of(row, schemas)
		case !undescribed(row.Pattern):
			rest = append(rest, row)
		}
	}
	maps.Copy(paths, openapi.Routes(rest, schemas, schemasOfV3()))
	return map[string]any{
		"openapi": "3.0.3",
		"info": map[string]any{"title": "drover", "version": "v1", "description": "Generated from the table of routes in server/api/table.go. " +
			"Send an API token as Authorization: Bearer. Paths below /v3 are not case-sensitive and take plurals and ids of types. " +
			"What is below /apis, /api, /openapi and /version is found below /k8s/clusters/local, too."},
		"paths": paths,
		"components": map[string]any{
			"schemas": schemas, "securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
			"responses": map[string]any{
				"Refused": map[string]any{"description": "refused", "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Error"}}}},
				"Status":  map[string]any{"description": "refused, as a Status of Kubernetes", "content": map[string]any{"application/json": map[string]any{}}},
				"Text":    map[string]any{"description": "refused, in the protocol's own form"},
			},
		},
		"security": []any{map[string]any{"token": []string{}}},
	}
}

// undescribed are routes that OpenAPI leaves out: pages for people, what servers ask of each other, what is found elsewhere, too,
// and what answers that there is nothing.
func undescribed(pattern string) bool {
	for _, prefix := range []string{"/dashboard", "/v1-drover/relay", kube.Local} {
		if strings.HasPrefix(pattern, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"/v3/{rest...}", "/v1/{rest...}", "/v1-drover/{rest...}", "/apis/{group}/{version}/{rest...}", "/v3/clusters/{context}/{link...}", "/v3/projects/{context}/{link...}",
	}, pattern)
}

// schemasOfV3 finds the types of /v3, those of its parts for clusters and projects among them.
func schemasOfV3() func(auth.Kind) (norman.Schema, bool) {
	v3 := management.New(management.Options{Kinds: slices.Concat((&access.API{}).Kinds(), []management.Kind{(&access.DirectoryAPI{}).Kind(), management.SystemImages(nil), (&secrets.API{}).Kind()}, (&access.PreferenceAPI{}).Kinds())})
	within := append(clusterresources.Schemas(), clusterresources.ProjectSecretSchema())
	return func(kind auth.Kind) (norman.Schema, bool) {
		if i := slices.IndexFunc(within, func(s norman.Schema) bool { return s.ID == string(kind) }); i >= 0 {
			return within[i], true
		}
		return v3.SchemaOf(kind)
	}
}

func errorSchema() map[string]any {
	return openapi.Object(map[string]any{
		"type": openapi.Text(), "status": map[string]any{"type": "integer"}, "code": openapi.Text(), "message": openapi.Text(), "fieldName": openapi.Text(),
	})
}

func (o description) of(row route.Row, schemas map[string]any) map[string]any {
	var parameters []any
	for segment := range strings.SplitSeq(row.Pattern, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parameters = append(parameters, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": openapi.Text()})
		}
	}
	for _, p := range o.query {
		parameters = append(parameters, map[string]any{"name": p.name, "in": "query", "description": p.what, "schema": openapi.Text()})
	}
	content := map[string]any{"application/json": map[string]any{"schema": openapi.Type(reflect.TypeOf(o.answer), schemas)}}
	if o.answer == nil {
		content = map[string]any{o.stream: map[string]any{}}
	}
	d := map[string]any{
		"summary": o.summary, "x-drover-access": row.Access.String(),
		"responses": map[string]any{
			"200": map[string]any{"description": "done", "content": content},
			"default": map[string]any{"description": "refused", "content": map[string]any{
				"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Error"}},
			}},
		},
	}
	if parameters != nil {
		d["parameters"] = parameters
	}
	if o.body != "" {
		d["requestBody"] = map[string]any{"required": true, "content": map[string]any{o.body: map[string]any{}}}
	}
	return d
}
