package people_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// meets insists on the refusal of a quota, by its setting.
func meets(b *apibed.Bed, quota quotas.Quota, who string, r apibed.Result) {
	b.T.Helper()
	says := fmt.Sprintf("the setting %s allows; remove what is not needed any more, or have the setting raised by an administrator", quota)
	if r.Status != http.StatusForbidden || !strings.Contains(r.Text("message"), says) || !strings.Contains(r.Text("message"), who) {
		b.T.Errorf("want the refusal of %s to %s, got %d %s", quota, who, r.Status, r.Raw)
	}
}

// does insists on a success.
func does(b *apibed.Bed, r apibed.Result) apibed.Result {
	b.T.Helper()
	if r.Status < 200 || r.Status > 299 {
		b.T.Errorf("it is refused: %d %s", r.Status, r.Raw)
	}
	return r
}

const quotaCluster = `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"%s","namespace":"fleet-default"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`

// makers are all ways to make a cluster.
func makers(t *testing.T, b *apibed.Bed) map[string]func(token, name string) apibed.Result {
	files, _ := apibed.QuarryFiles(t)
	of := func(method, target string, header ...string) func(token, name string) apibed.Result {
		return func(token, name string) apibed.Result {
			return b.Request(method, strings.ReplaceAll(target, "NAME", name), token, fmt.Sprintf(quotaCluster, name), header...)
		}
	}
	return map[string]func(token, name string) apibed.Result{
		"/v1-drover/apply":        of("POST", "/v1-drover/apply"),
		"/v1":                     of("POST", "/v1/provisioning.cattle.io.clusters"),
		"/v1, in a namespace":     of("POST", "/v1/provisioning.cattle.io.clusters/fleet-default"),
		"/v1, as the local one":   of("POST", "/k8s/clusters/local/v1/provisioning.cattle.io.clusters"),
		"/apis":                   of("POST", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"),
		"/apis, as the local one": of("POST", "/k8s/clusters/local/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"),
		"/apis, apply": of("PATCH", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/NAME?fieldManager=me",
			"Content-Type", "application/apply-patch+yaml"),
		"/v3": func(token, name string) apibed.Result {
			return b.Request("POST", "/v3/clusters", token, fmt.Sprintf(`{"type":"cluster","name":%q}`, name))
		},
		"/v3, of Docker hosts": func(token, name string) apibed.Result {
			return b.Request("POST", "/v3/clusters", token, fmt.Sprintf(`{"type":"cluster","name":%q,"rancherKubernetesEngineConfig":{"kubernetesVersion":"v1.30.8-rancher1-1","network":{"plugin":"canal"}}}`, name))
		},
		"rke, import": func(token, _ string) apibed.Result {
			return b.Request("POST", "/v1-drover/clusters/fleet-default/quarry/import-rke", token, files)
		},
	}
}

// TestQuotaOfClusters: a person has as many as the quota allows, whatever API they come by; another user has their own,
// an administrator has no bound but that of all, and what is removed makes room.
func TestQuotaOfClusters(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user")
	_, ben := b.Person("ben", "user", "settings-manage")
	b.Limit(quotas.Clusters.PerPerson(), "2")
	makers := makers(t, b)
	apply := makers["/v1-drover/apply"]
	does(b, apply(ann, "a-1"))
	does(b, apply(ann, "a-2"))
	for name, create := range makers {
		t.Run(name, func(t *testing.T) {
			revision := b.State.Store.Revision()
			meets(b, quotas.Clusters.PerPerson(), "user ann would have more than the 2 clusters and fleets", create(ann, "a-3"))
			if b.State.Store.Revision() != revision {
				t.Error("something was written")
			}
		})
	}
	// What is there may be changed, by document and by patch.
	does(b, b.Request("POST", "/v1-drover/apply", ann, strings.Replace(fmt.Sprintf(quotaCluster, "a-1"), `"namespace"`, `"labels":{"a":"b"},"namespace"`, 1)))
	does(b, apply(ben, "b-1"))
	does(b, apply(ben, "b-2"))
	meets(b, quotas.Clusters.PerPerson(), "user ben", apply(ben, "b-3"))
	for _, name := range []string{"c-1", "c-2", "c-3"} {
		does(b, apply(b.Admin, name))
	}
	b.Limit(quotas.Clusters, "7")
	meets(b, quotas.Clusters, "this server would have more than the 7 clusters and fleets", apply(b.Admin, "c-4"))
	meets(b, quotas.Clusters, "this server", b.Request("POST", "/v1-drover/fleets/edge/join", b.Admin, ""))
	// Who asks for the removal needs no room for it, and has it when the cluster is gone.
	does(b, b.Request("DELETE", "/v1/provisioning.cattle.io.clusters/fleet-default/a-1", ann, ""))
	meets(b, quotas.Clusters.PerPerson(), "user ann", func() apibed.Result { b.Limit(quotas.Clusters, "0"); return apply(ann, "a-3") }())
	if err := b.State.Clusters.Delete(t.Context(), "fleet-default/a-1", 0); err != nil {
		t.Fatal(err)
	}
	does(b, apply(ann, "a-3"))
	// The user whom the refusal names can raise it, and 0 is no bound.
	does(b, b.Request("PUT", "/v3/settings/"+string(quotas.Clusters.PerPerson()), ben, `{"value":"0"}`))
	does(b, apply(ann, "a-4"))
}

// TestQuotaOfTokens: what people make is refused, and a login is not.
func TestQuotaOfTokens(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	annID, ann := b.Person("ann", "user") // who has a token
	_, ben := b.Person("ben", "user")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-owner","userId":%q}`, annID))
	b.Limit(quotas.Tokens.PerPerson(), "3")
	makers := map[string]func(token string) apibed.Result{
		"/v3": func(token string) apibed.Result { return b.Request("POST", "/v3/tokens", token, `{}`) },
		"/v3, in a cluster": func(token string) apibed.Result {
			return b.Request("POST", "/v3/clusters/c-m-h4rb0r55/tokens", token, `{"clusterId":"c-m-h4rb0r55"}`)
		},
		"/v3, kubeconfig": func(token string) apibed.Result {
			return b.Request("POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", token, "")
		},
		"/apis": func(token string) apibed.Result {
			return b.Request("POST", "/apis/ext.cattle.io/v1/tokens", token, `{"apiVersion":"ext.cattle.io/v1","kind":"Token","spec":{}}`)
		},
		"/apis, kubeconfig": func(token string) apibed.Result {
			return b.Request("POST", "/apis/ext.cattle.io/v1/kubeconfigs", token, `{"apiVersion":"ext.cattle.io/v1","kind":"Kubeconfig","spec":{"clusters":["c-m-h4rb0r55"]}}`)
		},
	}
	does(b, makers["/v3"](ann))
	made := does(b, makers["/v3"](ann))
	for name, create := range makers {
		if name != "/v3, in a cluster" {
			meets(b, quotas.Tokens.PerPerson(), "user ann would have more than the 3 tokens", create(ann))
		} else if r := create(ann); r.Status < 400 {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
	does(b, makers["/v3"](ben))
	for range 5 {
		does(b, makers["/v3"](b.Admin))
	}
	login := func() string {
		b.Pass(time.Second)
		return does(b, b.Request("POST", apibed.LoginTarget, "", `{"username":"ann","password":"correct horse ann"}`)).Text("token")
	}
	works := func(token string) bool { return b.Request("GET", "/v3/settings", token, "").Status == http.StatusOK }
	first := login()
	second := login()
	if works(first) || !works(second) || !works(ann) {
		t.Error("a login beyond the quota ends the oldest session, and no token of another kind")
	}
	// By a removed token there is room again.
	b.Limit(quotas.Tokens.PerPerson(), "5")
	third := login()
	if !works(second) || !works(third) {
		t.Error("sessions within the quota ended")
	}
	meets(b, quotas.Tokens.PerPerson(), "user ann", makers["/v3"](ann))
	does(b, b.Request("DELETE", "/v3/tokens/"+made.Text("id"), ann, ""))
	does(b, makers["/v3"](ann))
	b.Limit(quotas.Tokens, "1")
	meets(b, quotas.Tokens, "this server would have more than the 1 tokens", makers["/v3"](b.Admin))
	login()
}

// TestQuotaOfDocuments: all that a person keeps at the server counts by its bytes, and what others make of it counts for its owner.
func TestQuotaOfDocuments(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	writer := b.Want(http.StatusCreated, "POST", "/v3/globalroles", `{"name":"objects","rules":[{"apiGroups":["drover.dev"],"resources":["*"],"verbs":["*"]}]}`).Text("id")
	annID, ann := b.Person("ann", "user", writer)
	benID, ben := b.Person("ben", "user", writer)
	does(b, b.Request("POST", "/v1-drover/apply", ann, fmt.Sprintf(quotaCluster, "ours")))
	d, _ := b.State.Clusters.Get("fleet-default/ours")
	ours := d.Value.ID
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, ours, benID))
	does(b, b.Request("POST", "/v1-drover/fleets/anns/join", ann, ""))
	project := does(b, b.Request("POST", "/v3/projects", ann, fmt.Sprintf(`{"clusterId":%q,"name":"p"}`, ours))).Text("id")
	b.Limit(quotas.Documents.PerPerson(), "1")
	large := strings.Repeat("x", 900<<10)
	secret := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"%%s"},"type":"Opaque","stringData":{"a":%q}}`, large)
	// As it is kept, in base64, it is larger than a mebibyte; that it can be compressed to little does not count.
	meets(b, quotas.Documents.PerPerson(), "user ann would have more than the 1 MiB of documents", b.Request("POST", "/v1-drover/apply", ann, fmt.Sprintf(secret, "one")))
	b.Limit(quotas.Documents.PerPerson(), "2")
	does(b, b.Request("POST", "/v1-drover/apply", ann, fmt.Sprintf(secret, "one")))
	does(b, b.Request("POST", "/v1-drover/apply", ann, strings.Replace(fmt.Sprintf(secret, "three"), large, large[:200<<10], 1)))
	manifest := large[:700<<10] // in base64 within what a host can be given
	grown := strings.Replace(fmt.Sprintf(quotaCluster, "ours"), `"rkeConfig":{}`, fmt.Sprintf(`"rkeConfig":{"additionalManifest":"# %s\n"}`, manifest), 1)
	ways := map[string]func(token string) apibed.Result{
		"another object": func(token string) apibed.Result {
			return b.Request("POST", "/v1-drover/apply", token, fmt.Sprintf(secret, "two"))
		},
		"a cluster that grows": func(token string) apibed.Result { return b.Request("POST", "/v1-drover/apply", token, grown) },
		"a cluster that grows, by /apis": func(token string) apibed.Result {
			return b.Request("PATCH", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/ours", token,
				fmt.Sprintf(`{"spec":{"rkeConfig":{"additionalManifest":"# %s\n"}}}`, manifest), "Content-Type", "application/merge-patch+json")
		},
	}
	for name, way := range ways {
		t.Log(name)
		meets(b, quotas.Documents.PerPerson(), "user ann would have more than the 2 MiB of documents", way(ann))
	}
	// What ben makes of ann's cluster is hers.
	meets(b, quotas.Documents.PerPerson(), "user ann", ways["a cluster that grows"](ben))
	does(b, ways["another object"](ben))
	does(b, b.Request("POST", "/v1-drover/apply", ben, fmt.Sprintf(quotaCluster, "bens")))
	// An administrator makes of it what they like.
	does(b, ways["a cluster that grows"](b.Admin))
	// What shrinks, and what goes, is never refused, however much there is.
	b.Limit(quotas.Documents.PerPerson(), "1")
	does(b, b.Request("POST", "/v1-drover/apply", ann, strings.Replace(grown, manifest, manifest[:600<<10], 1)))
	meets(b, quotas.Documents.PerPerson(), "user ann", b.Request("POST", "/v3/projects", ann, fmt.Sprintf(`{"clusterId":%q,"name":"q"}`, ours)))
	meets(b, quotas.Documents.PerPerson(), "user ann", b.Request("POST", "/v3/projects/"+project+"/secrets", ann, `{"type":"secret","name":"s","stringData":{"a":"b"}}`))
	meets(b, quotas.Documents.PerPerson(), "user ann", b.Request("POST", "/v3/preferences", ann, `{"name":"theme","value":"dark"}`))
	meets(b, quotas.Documents.PerPerson(), "user ann", b.Request("POST", "/v1-drover/fleets/more/join", ann, ""))
	meets(b, quotas.Documents.PerPerson(), "user ann", b.Request("POST", "/v3/clusterregistrationtokens", ann, fmt.Sprintf(`{"clusterId":%q}`, ours)))
	meets(b, quotas.Documents.PerPerson(), "user ann",
		b.Request("POST", "/v3/clusterroletemplatebindings", ann, fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, ours, annID)))
	does(b, b.Request("DELETE", "/v1/provisioning.cattle.io.clusters/fleet-default/ours", ann, ""))
	does(b, b.Request("DELETE", "/v1-drover/objects/Secret/fleet-default/one", ann, ""))
	if err := b.State.Clusters.Delete(t.Context(), "fleet-default/ours", 0); err != nil {
		t.Fatal(err)
	}
	does(b, b.Request("POST", "/v3/preferences", ann, `{"name":"theme","value":"dark"}`))
	b.Limit(quotas.Documents, "1")
	meets(b, quotas.Documents, "this server would have more than the 1 MiB of documents", b.Request("POST", "/v1-drover/apply", b.Admin, fmt.Sprintf(quotaCluster, "theirs")))
}

// TestQuotaOfOperations: those count that are under way and that a person asked for; a restore is never refused.
func TestQuotaOfOperations(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	b.AddSnapshot("/d/one")
	annID, ann := b.Person("ann", "user")
	benID, ben := b.Person("ben", "user")
	for _, id := range []string{annID, benID} {
		b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-owner","userId":%q}`, id))
	}
	b.Limit(quotas.Operations.PerPerson(), "2")
	other := func(id string, shape func(*operations.Operation)) {
		b.AddOperation(id, func(o *operations.Operation) {
			o.Subject, o.By, o.State = "fleet-default/elsewhere", annID, operations.Running
			shape(o)
		})
	}
	other("op-00000001", func(*operations.Operation) {})
	other("op-00000002", func(o *operations.Operation) { o.State = operations.Succeeded })
	other("op-00000003", func(o *operations.Operation) { o.By = "" })
	begin := func(token, body string) apibed.Result {
		return b.Request("POST", apibed.HarbourOperations+"?queue=true", token, body)
	}
	does(b, begin(ann, `{"kind": "snapshot"}`))
	meets(b, quotas.Operations.PerPerson(), "user ann would have more than the 2 operations under way", begin(ann, `{"kind": "rotate-certificates"}`))
	does(b, begin(ben, `{"kind": "rotate-certificates"}`))
	does(b, begin(b.Admin, `{"kind": "rotate-encryption-keys"}`))
	b.Limit(quotas.Operations, "4")
	meets(b, quotas.Operations, "this server would have more than the 4 operations under way", begin(b.Admin, `{"kind": "snapshot"}`))
	does(b, b.Request("POST", apibed.HarbourOperations+"?queue=true", ann, `{"kind": "restore", "snapshot": "one", "machines": ["custom-0f31c2aa9d10"]}`))
	if i := slices.IndexFunc(b.State.OperationsOf("fleet-default/harbour"), func(o operations.Operation) bool { return o.Kind == "restore" && o.By == annID }); i < 0 {
		t.Error("there is no restore")
	}
}

// TestQuotaOfMachines: a host registers by a cluster's token, for whom made the cluster.
func TestQuotaOfMachines(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user")
	apply := makers(t, b)["/v1-drover/apply"]
	does(b, apply(ann, "one"))
	does(b, apply(ann, "two"))
	does(b, apply(b.Admin, "three"))
	b.Limit(quotas.Machines.PerPerson(), "2")
	hosts := 0
	register := func(cluster, id string) apibed.Result {
		d, _ := b.State.Clusters.Get("fleet-default/" + cluster)
		token, _ := b.State.RegistrationTokens.Get(d.Value.ID + "/default-token")
		if hosts++; id == "" {
			id = fmt.Sprintf("%032d", hosts)
		}
		return b.Request("GET", "/v3/connect/agent", token.Value.Token, "", "X-Cattle-Id", id, "X-Cattle-Role-Worker", "true", "X-Cattle-Node-Name", "n-"+id, "X-Cattle-Address", "192.0.2.7")
	}
	again := strings.Repeat("a", 32)
	does(b, register("one", again))
	does(b, register("two", ""))
	meets(b, quotas.Machines.PerPerson(), "user ann would have more than the 2 machines", register("one", ""))
	meets(b, quotas.Machines.PerPerson(), "user ann", register("two", ""))
	does(b, register("one", again)) // which brings no machine
	for range 3 {
		does(b, register("three", ""))
	}
	b.Limit(quotas.Machines, "5")
	meets(b, quotas.Machines, "this server would have more than the 5 machines", register("three", ""))
	for _, m := range b.State.MachinesByCluster.Find(records.NewClusterKey("fleet-default", "two")) {
		if err := b.State.Machines.Delete(t.Context(), m.Key, 0); err != nil {
			t.Fatal(err)
		}
	}
	does(b, register("one", ""))
}

// TestMoreThanFitsAtATime is refused with a sentence, and nothing of it is stored.
func TestMoreThanFitsAtATime(t *testing.T) {
	b := apibed.New(t)
	var documents strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&documents, "---\n{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: crowd-%d}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}\n", i)
	}
	for _, name := range []string{"quota-clusters", "quota-clusters-per-person"} {
		b.Want(200, "PUT", "/v3/settings/"+name, `{"value":"0"}`)
	}
	r := b.Request("POST", "/v1-drover/apply", b.Admin, documents.String(), "Content-Type", "application/yaml")
	if r.Status != 413 || !strings.Contains(r.Text("message"), "more than the store takes at a time, so give it in parts") || len(b.State.Clusters.List()) > 0 {
		t.Errorf("%d %s, and there are %d clusters", r.Status, r.Raw, len(b.State.Clusters.List()))
	}
}
