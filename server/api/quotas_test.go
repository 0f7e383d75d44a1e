package api

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
)

// limit sets a quota.
func (b *bench) limit(quota quotas.Quota, value string) {
	b.t.Helper()
	b.want(http.StatusOK, "PUT", "/v3/settings/"+string(quota), `{"value":"`+value+`"}`)
}

// meets insists on the refusal of a quota, by its setting.
func (b *bench) meets(quota quotas.Quota, who string, r result) {
	b.t.Helper()
	says := fmt.Sprintf("the setting %s allows; remove what is not needed any more, or have the setting raised by an administrator", quota)
	if r.status != http.StatusForbidden || !strings.Contains(r.text("message"), says) || !strings.Contains(r.text("message"), who) {
		b.t.Errorf("want the refusal of %s to %s, got %d %s", quota, who, r.status, r.raw)
	}
}

// does insists on a success.
func (b *bench) does(r result) result {
	b.t.Helper()
	if r.status < 200 || r.status > 299 {
		b.t.Errorf("it is refused: %d %s", r.status, r.raw)
	}
	return r
}

const quotaCluster = `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"%s","namespace":"fleet-default"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`

// makers are all ways to make a cluster.
func (b *bench) makers(t *testing.T) map[string]func(token, name string) result {
	files, _ := quarryFiles(t)
	of := func(method, target string, header ...string) func(token, name string) result {
		return func(token, name string) result {
			return b.request(method, strings.ReplaceAll(target, "NAME", name), token, fmt.Sprintf(quotaCluster, name), header...)
		}
	}
	return map[string]func(token, name string) result{
		"/v1-drover/apply":        of("POST", "/v1-drover/apply"),
		"/v1":                     of("POST", "/v1/provisioning.cattle.io.clusters"),
		"/v1, in a namespace":     of("POST", "/v1/provisioning.cattle.io.clusters/fleet-default"),
		"/v1, as the local one":   of("POST", "/k8s/clusters/local/v1/provisioning.cattle.io.clusters"),
		"/apis":                   of("POST", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"),
		"/apis, as the local one": of("POST", "/k8s/clusters/local/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"),
		"/apis, apply": of("PATCH", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/NAME?fieldManager=me",
			"Content-Type", "application/apply-patch+yaml"),
		"/v3": func(token, name string) result {
			return b.request("POST", "/v3/clusters", token, fmt.Sprintf(`{"type":"cluster","name":%q}`, name))
		},
		"/v3, of Docker hosts": func(token, name string) result {
			return b.request("POST", "/v3/clusters", token, fmt.Sprintf(`{"type":"cluster","name":%q,"rancherKubernetesEngineConfig":{"kubernetesVersion":"v1.30.8-rancher1-1","network":{"plugin":"canal"}}}`, name))
		},
		"rke, import": func(token, _ string) result {
			return b.request("POST", "/v1-drover/clusters/fleet-default/quarry/import-rke", token, files)
		},
	}
}

// TestQuotaOfClusters: a person has as many as the quota allows, whatever API they come by; another one has their own,
// an administrator has no bound but that of all, and what is removed makes room.
func TestQuotaOfClusters(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, ann := b.person("ann", "user")
	_, ben := b.person("ben", "user", "settings-manage")
	b.limit(quotas.Clusters.PerPerson(), "2")
	makers := b.makers(t)
	apply := makers["/v1-drover/apply"]
	b.does(apply(ann, "a-1"))
	b.does(apply(ann, "a-2"))
	for name, create := range makers {
		t.Run(name, func(t *testing.T) {
			revision := b.st.Store.Revision()
			b.meets(quotas.Clusters.PerPerson(), "user ann would have more than the 2 clusters and fleets", create(ann, "a-3"))
			if b.st.Store.Revision() != revision {
				t.Error("something was written")
			}
		})
	}
	// What is there may be changed, by document and by patch.
	b.does(b.request("POST", "/v1-drover/apply", ann, strings.Replace(fmt.Sprintf(quotaCluster, "a-1"), `"namespace"`, `"labels":{"a":"b"},"namespace"`, 1)))
	b.does(apply(ben, "b-1"))
	b.does(apply(ben, "b-2"))
	b.meets(quotas.Clusters.PerPerson(), "user ben", apply(ben, "b-3"))
	for _, name := range []string{"c-1", "c-2", "c-3"} {
		b.does(apply(b.admin, name))
	}
	b.limit(quotas.Clusters, "7")
	b.meets(quotas.Clusters, "this server would have more than the 7 clusters and fleets", apply(b.admin, "c-4"))
	b.meets(quotas.Clusters, "this server", b.request("POST", "/v1-drover/fleets/edge/join", b.admin, ""))
	// Who asks for the removal needs no room for it, and has it when the cluster is gone.
	b.does(b.request("DELETE", "/v1/provisioning.cattle.io.clusters/fleet-default/a-1", ann, ""))
	b.meets(quotas.Clusters.PerPerson(), "user ann", func() result { b.limit(quotas.Clusters, "0"); return apply(ann, "a-3") }())
	if err := b.st.Clusters.Delete(t.Context(), "fleet-default/a-1", 0); err != nil {
		t.Fatal(err)
	}
	b.does(apply(ann, "a-3"))
	// Whom the refusal names can raise it, and 0 is no bound.
	b.does(b.request("PUT", "/v3/settings/"+string(quotas.Clusters.PerPerson()), ben, `{"value":"0"}`))
	b.does(apply(ann, "a-4"))
}

// TestQuotaOfTokens: what people make is refused, and a login is not.
func TestQuotaOfTokens(t *testing.T) {
	b := newBench(t)
	administrated(b)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	annID, ann := b.person("ann", "user") // who has a token
	_, ben := b.person("ben", "user")
	b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-owner","userId":%q}`, annID))
	b.limit(quotas.Tokens.PerPerson(), "3")
	makers := map[string]func(token string) result{
		"/v3": func(token string) result { return b.request("POST", "/v3/tokens", token, `{}`) },
		"/v3, in a cluster": func(token string) result {
			return b.request("POST", "/v3/clusters/c-m-h4rb0r55/tokens", token, `{"clusterId":"c-m-h4rb0r55"}`)
		},
		"/v3, kubeconfig": func(token string) result {
			return b.request("POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", token, "")
		},
		"/apis": func(token string) result {
			return b.request("POST", "/apis/ext.cattle.io/v1/tokens", token, `{"apiVersion":"ext.cattle.io/v1","kind":"Token","spec":{}}`)
		},
		"/apis, kubeconfig": func(token string) result {
			return b.request("POST", "/apis/ext.cattle.io/v1/kubeconfigs", token, `{"apiVersion":"ext.cattle.io/v1","kind":"Kubeconfig","spec":{"clusters":["c-m-h4rb0r55"]}}`)
		},
	}
	b.does(makers["/v3"](ann))
	made := b.does(makers["/v3"](ann))
	for name, create := range makers {
		if name != "/v3, in a cluster" {
			b.meets(quotas.Tokens.PerPerson(), "user ann would have more than the 3 tokens", create(ann))
		} else if r := create(ann); r.status < 400 {
			t.Errorf("%s: %d %s", name, r.status, r.raw)
		}
	}
	b.does(makers["/v3"](ben))
	for range 5 {
		b.does(makers["/v3"](b.admin))
	}
	login := func() string {
		b.pass(time.Second)
		return b.does(b.request("POST", loginTarget, "", `{"username":"ann","password":"correct horse ann"}`)).text("token")
	}
	works := func(token string) bool { return b.request("GET", "/v3/settings", token, "").status == http.StatusOK }
	first := login()
	second := login()
	if works(first) || !works(second) || !works(ann) {
		t.Error("a login beyond the quota ends the oldest session, and no token of another kind")
	}
	// By a removed token there is room again.
	b.limit(quotas.Tokens.PerPerson(), "5")
	third := login()
	if !works(second) || !works(third) {
		t.Error("sessions within the quota ended")
	}
	b.meets(quotas.Tokens.PerPerson(), "user ann", makers["/v3"](ann))
	b.does(b.request("DELETE", "/v3/tokens/"+made.text("id"), ann, ""))
	b.does(makers["/v3"](ann))
	b.limit(quotas.Tokens, "1")
	b.meets(quotas.Tokens, "this server would have more than the 1 tokens", makers["/v3"](b.admin))
	login()
}

// TestQuotaOfDocuments: all that a person keeps at the server counts by its bytes, and what others make of it counts for its owner.
func TestQuotaOfDocuments(t *testing.T) {
	b := newBench(t)
	administrated(b)
	writer := b.want(http.StatusCreated, "POST", "/v3/globalroles", `{"name":"objects","rules":[{"apiGroups":["drover.dev"],"resources":["*"],"verbs":["*"]}]}`).text("id")
	annID, ann := b.person("ann", "user", writer)
	benID, ben := b.person("ben", "user", writer)
	b.does(b.request("POST", "/v1-drover/apply", ann, fmt.Sprintf(quotaCluster, "ours")))
	d, _ := b.st.Clusters.Get("fleet-default/ours")
	ours := d.Value.ID
	b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, ours, benID))
	b.does(b.request("POST", "/v1-drover/fleets/anns/join", ann, ""))
	project := b.does(b.request("POST", "/v3/projects", ann, fmt.Sprintf(`{"clusterId":%q,"name":"p"}`, ours))).text("id")
	b.limit(quotas.Documents.PerPerson(), "1")
	large := strings.Repeat("x", 900<<10)
	secret := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"%%s"},"type":"Opaque","stringData":{"a":%q}}`, large)
	// As it is kept, in base64, it is larger than a mebibyte; that it can be compressed to little does not count.
	b.meets(quotas.Documents.PerPerson(), "user ann would have more than the 1 MiB of documents", b.request("POST", "/v1-drover/apply", ann, fmt.Sprintf(secret, "one")))
	b.limit(quotas.Documents.PerPerson(), "2")
	b.does(b.request("POST", "/v1-drover/apply", ann, fmt.Sprintf(secret, "one")))
	b.does(b.request("POST", "/v1-drover/apply", ann, strings.Replace(fmt.Sprintf(secret, "three"), large, large[:200<<10], 1)))
	manifest := large[:700<<10] // in base64 within what a host can be given
	grown := strings.Replace(fmt.Sprintf(quotaCluster, "ours"), `"rkeConfig":{}`, fmt.Sprintf(`"rkeConfig":{"additionalManifest":"# %s\n"}`, manifest), 1)
	ways := map[string]func(token string) result{
		"another object": func(token string) result {
			return b.request("POST", "/v1-drover/apply", token, fmt.Sprintf(secret, "two"))
		},
		"a cluster that grows": func(token string) result { return b.request("POST", "/v1-drover/apply", token, grown) },
		"a cluster that grows, by /apis": func(token string) result {
			return b.request("PATCH", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/ours", token,
				fmt.Sprintf(`{"spec":{"rkeConfig":{"additionalManifest":"# %s\n"}}}`, manifest), "Content-Type", "application/merge-patch+json")
		},
	}
	for name, way := range ways {
		t.Log(name)
		b.meets(quotas.Documents.PerPerson(), "user ann would have more than the 2 MiB of documents", way(ann))
	}
	// What ben makes of ann's cluster is hers.
	b.meets(quotas.Documents.PerPerson(), "user ann", ways["a cluster that grows"](ben))
	b.does(ways["another object"](ben))
	b.does(b.request("POST", "/v1-drover/apply", ben, fmt.Sprintf(quotaCluster, "bens")))
	// An administrator makes of it what they like.
	b.does(ways["a cluster that grows"](b.admin))
	// What shrinks, and what goes, is never refused, however much there is.
	b.limit(quotas.Documents.PerPerson(), "1")
	b.does(b.request("POST", "/v1-drover/apply", ann, strings.Replace(grown, manifest, manifest[:600<<10], 1)))
	b.meets(quotas.Documents.PerPerson(), "user ann", b.request("POST", "/v3/projects", ann, fmt.Sprintf(`{"clusterId":%q,"name":"q"}`, ours)))
	b.meets(quotas.Documents.PerPerson(), "user ann", b.request("POST", "/v3/projects/"+project+"/secrets", ann, `{"type":"secret","name":"s","stringData":{"a":"b"}}`))
	b.meets(quotas.Documents.PerPerson(), "user ann", b.request("POST", "/v3/preferences", ann, `{"name":"theme","value":"dark"}`))
	b.meets(quotas.Documents.PerPerson(), "user ann", b.request("POST", "/v1-drover/fleets/more/join", ann, ""))
	b.meets(quotas.Documents.PerPerson(), "user ann", b.request("POST", "/v3/clusterregistrationtokens", ann, fmt.Sprintf(`{"clusterId":%q}`, ours)))
	b.meets(quotas.Documents.PerPerson(), "user ann",
		b.request("POST", "/v3/clusterroletemplatebindings", ann, fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, ours, annID)))
	b.does(b.request("DELETE", "/v1/provisioning.cattle.io.clusters/fleet-default/ours", ann, ""))
	b.does(b.request("DELETE", "/v1-drover/objects/Secret/fleet-default/one", ann, ""))
	if err := b.st.Clusters.Delete(t.Context(), "fleet-default/ours", 0); err != nil {
		t.Fatal(err)
	}
	b.does(b.request("POST", "/v3/preferences", ann, `{"name":"theme","value":"dark"}`))
	b.limit(quotas.Documents, "1")
	b.meets(quotas.Documents, "this server would have more than the 1 MiB of documents", b.request("POST", "/v1-drover/apply", b.admin, fmt.Sprintf(quotaCluster, "theirs")))
}

// TestQuotaOfOperations: those count that are under way and that a person asked for; a restore is never refused.
func TestQuotaOfOperations(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	b.addSnapshot("/d/one")
	annID, ann := b.person("ann", "user")
	benID, ben := b.person("ben", "user")
	for _, id := range []string{annID, benID} {
		b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-owner","userId":%q}`, id))
	}
	b.limit(quotas.Operations.PerPerson(), "2")
	other := func(id string, shape func(*operations.Operation)) {
		b.addOperation(id, func(o *operations.Operation) {
			o.Subject, o.By, o.State = "fleet-default/elsewhere", annID, operations.Running
			shape(o)
		})
	}
	other("op-00000001", func(*operations.Operation) {})
	other("op-00000002", func(o *operations.Operation) { o.State = operations.Succeeded })
	other("op-00000003", func(o *operations.Operation) { o.By = "" })
	begin := func(token, body string) result {
		return b.request("POST", harbourOperations+"?queue=true", token, body)
	}
	b.does(begin(ann, `{"kind": "snapshot"}`))
	b.meets(quotas.Operations.PerPerson(), "user ann would have more than the 2 operations under way", begin(ann, `{"kind": "rotate-certificates"}`))
	b.does(begin(ben, `{"kind": "rotate-certificates"}`))
	b.does(begin(b.admin, `{"kind": "rotate-encryption-keys"}`))
	b.limit(quotas.Operations, "4")
	b.meets(quotas.Operations, "this server would have more than the 4 operations under way", begin(b.admin, `{"kind": "snapshot"}`))
	b.does(b.request("POST", harbourOperations+"?queue=true", ann, `{"kind": "restore", "snapshot": "one", "machines": ["custom-0f31c2aa9d10"]}`))
	if i := slices.IndexFunc(b.st.OperationsOf("fleet-default/harbour"), func(o operations.Operation) bool { return o.Kind == "restore" && o.By == annID }); i < 0 {
		t.Error("there is no restore")
	}
}

// TestQuotaOfMachines: a host registers by a cluster's token, for whom made the cluster.
func TestQuotaOfMachines(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, ann := b.person("ann", "user")
	apply := b.makers(t)["/v1-drover/apply"]
	b.does(apply(ann, "one"))
	b.does(apply(ann, "two"))
	b.does(apply(b.admin, "three"))
	b.limit(quotas.Machines.PerPerson(), "2")
	hosts := 0
	register := func(cluster, id string) result {
		d, _ := b.st.Clusters.Get("fleet-default/" + cluster)
		token, _ := b.st.RegistrationTokens.Get(d.Value.ID + "/default-token")
		if hosts++; id == "" {
			id = fmt.Sprintf("%032d", hosts)
		}
		return b.request("GET", "/v3/connect/agent", token.Value.Token, "", "X-Cattle-Id", id, "X-Cattle-Role-Worker", "true", "X-Cattle-Node-Name", "n-"+id, "X-Cattle-Address", "192.0.2.7")
	}
	again := strings.Repeat("a", 32)
	b.does(register("one", again))
	b.does(register("two", ""))
	b.meets(quotas.Machines.PerPerson(), "user ann would have more than the 2 machines", register("one", ""))
	b.meets(quotas.Machines.PerPerson(), "user ann", register("two", ""))
	b.does(register("one", again)) // which brings no machine
	for range 3 {
		b.does(register("three", ""))
	}
	b.limit(quotas.Machines, "5")
	b.meets(quotas.Machines, "this server would have more than the 5 machines", register("three", ""))
	for _, m := range b.st.MachinesByCluster.Find(records.NewClusterKey("fleet-default", "two")) {
		if err := b.st.Machines.Delete(t.Context(), m.Key, 0); err != nil {
			t.Fatal(err)
		}
	}
	b.does(register("one", ""))
}

// TestMoreThanFitsAtATime is refused with a sentence, and nothing of it is stored.
func TestMoreThanFitsAtATime(t *testing.T) {
	b := newBench(t)
	var documents strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&documents, "---\n{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: crowd-%d}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}\n", i)
	}
	for _, name := range []string{"quota-clusters", "quota-clusters-per-person"} {
		b.want(200, "PUT", "/v3/settings/"+name, `{"value":"0"}`)
	}
	r := b.request("POST", "/v1-drover/apply", b.admin, documents.String(), "Content-Type", "application/yaml")
	if r.status != 413 || !strings.Contains(r.text("message"), "more than the store takes at a time, so give it in parts") || len(b.st.Clusters.List()) > 0 {
		t.Errorf("%d %s, and there are %d clusters", r.status, r.raw, len(b.st.Clusters.List()))
	}
}
