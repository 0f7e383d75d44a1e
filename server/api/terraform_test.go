package api_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestTerraformClusterV2 plays rancher2_cluster_v2 for a person who is no administrator: create, the reads of each plan, which find what was
// sent, an update, one after another client's, and destroy. Settings without a value are part of what is sent.
func TestTerraformClusterV2(t *testing.T) {
	const drain = `{"enabled":false,"force":false,"ignoreDaemonSets":true,"IgnoreErrors":false,"deleteEmptyDirData":false,"disableEviction":false,"gracePeriod":0,"timeout":10800,"skipWaitForDeleteTimeoutSeconds":0,"preDrainHooks":null,"postDrainHooks":null}`
	const upgrade = `"upgradeStrategy":{"controlPlaneConcurrency":"1","controlPlaneDrainOptions":` + drain + `,"workerConcurrency":"1","workerDrainOptions":` + drain + `}`
	const spec = `{"kubernetesVersion":"VERSION","localClusterAuthEndpoint":{},"enableNetworkPolicy":false,"rkeConfig":{` + upgrade + `,"chartValues":null,"machinePoolDefaults":{},"etcd":{"snapshotScheduleCron":"0 */5 * * *","snapshotRetention":5},`
	for name, c := range map[string]struct{ version, config, changed string }{
		"k3s": {"v1.34.4+k3s1", `"machineGlobalConfig":{"disable":["traefik"],"disable-helm-controller":false,"tls-san":[]},"machineSelectorConfig":[{"config":{"cloud-provider-name":"","protect-kernel-defaults":false}}]}}`,
			`"machineGlobalConfig":{"disable":[],"tls-san":["a.example"]},"machineSelectorConfig":[{"config":{"cloud-provider-name":""}}]}}`},
		"rke2": {"v1.34.4+rke2r1", `"machineGlobalConfig":{"cni":"canal","disable-kube-proxy":false,"etcd-expose-metrics":false,"profile":null},"machineSelectorConfig":[{"config":{"cloud-provider-name":"","protect-kernel-defaults":true}}]}}`,
			`"machineGlobalConfig":null,"machineSelectorConfig":[{"config":{"cloud-provider-name":"","protect-kernel-defaults":false}}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := apibed.New(t)
			apibed.Administrated(b)
			_, ann := b.Person("ann", "user")
			ask := func(method, target, body string) apibed.Result {
				t.Helper()
				return b.Request(method, target, ann, body)
			}
			// able looks for the methods that the provider needs of the type: a client that has no cluster yet can only make one, and then it reads the schemas again.
			able := func(collection, resource string) (all string) {
				t.Helper()
				root := ask("GET", "/k8s/clusters/local/v1", "")
				schemas := as[struct {
					Data []struct {
						ID                                 string
						Links                              map[string]string
						CollectionMethods, ResourceMethods []string
					}
				}](t, ask("GET", apibed.Path(t, root.Header.Get("X-API-Schemas")), ""), 200)
				for _, s := range schemas.Data {
					if s.ID != "provisioning.cattle.io.cluster" {
						continue
					}
					if !slices.Contains(s.CollectionMethods, collection) || resource != "" && !slices.Contains(s.ResourceMethods, resource) {
						t.Errorf("the schema has %v and %v, without %s and %s", s.CollectionMethods, s.ResourceMethods, collection, resource)
					}
					return apibed.Path(t, s.Links["collection"])
				}
				t.Fatal("no schema has clusters")
				return ""
			}
			all := able("POST", "")
			body := func(config, version string) string {
				return `{"id":"","kind":"Cluster","apiVersion":"provisioning.cattle.io/v1","metadata":{"name":"pier","namespace":"fleet-default","resourceVersion":"` + version + `","creationTimestamp":null,"labels":{"site":"a"}},` +
					`"spec":` + strings.Replace(spec, "VERSION", c.version, 1) + config + `,"status":{"ready":false,"observedGeneration":0}}`
			}
			kubeconfig := ""
			// read is what each refresh asks, and how what comes differs from what was sent, which a plan would show.
			read := func(config string) (version, id string) {
				t.Helper()
				got := as[struct {
					Metadata struct{ ResourceVersion string }
					Spec     map[string]any
					Status   struct {
						ClusterName string
						Conditions  []typedCondition
					}
				}](t, ask("GET", all+"/fleet-default/pier", ""), 200)
				var sent struct{ Spec map[string]any }
				if err := json.Unmarshal([]byte(body(config, "")), &sent); err != nil {
					t.Fatal(err)
				}
				if want := asRead(sent.Spec); !reflect.DeepEqual(asRead(got.Spec), want) {
					t.Errorf("a plan after it has a change: it is\n%v, and was sent as\n%v", got.Spec, want)
				}
				created := false
				for _, one := range got.Status.Conditions {
					created = created || one.Type == "Created" && one.Status == "True"
				}
				cl := as[typedCluster](t, ask("GET", "/v3/clusters/"+got.Status.ClusterName, ""), 200)
				token := as[typedRegistrationToken](t, ask("GET", "/v3/clusterregistrationtokens/"+cl.ID+":default-token", ""), 200)
				if !created || token.Command == "" || token.NodeCommand == "" || cl.Actions["generateKubeconfig"] == "" {
					t.Errorf("what the provider waits for: %v, %+v, %v", created, token, cl.Actions)
				}
				if kubeconfig == "" {
					made := as[struct{ Config string }](t, ask("POST", apibed.Path(t, cl.Actions["generateKubeconfig"]), ""), 200)
					_, rest, _ := strings.Cut(made.Config, "token: ")
					kubeconfig, _, _ = strings.Cut(strings.Trim(rest, `"`), ":")
				}
				if kept := as[typedToken](t, ask("GET", "/v3/tokens/"+kubeconfig, ""), 200); kept.Expired {
					t.Errorf("the token of the kubeconfig is %+v", kept)
				}
				return got.Metadata.ResourceVersion, cl.ID
			}
			if made := as[typedProvisioned](t, ask("POST", all, body(c.config, "")), 201); made.ID != "fleet-default/pier" {
				t.Fatalf("%+v", made)
			}
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				able("POST", method)
			}
			version, _ := read(c.config)
			as[typedProvisioned](t, ask("PUT", all+"/fleet-default/pier", body(c.config, version)), 200)
			version, _ = read(c.config)
			as[typedProvisioned](t, ask("PUT", all+"/fleet-default/pier", body(c.changed, version)), 200)
			now, id := read(c.changed)
			// The provider takes a conflict for one of versions, reads and sends again.
			as[struct{}](t, ask("PUT", all+"/fleet-default/pier", body(c.config, version)), 409)
			as[typedProvisioned](t, ask("PUT", all+"/fleet-default/pier", body(c.config, now)), 200)
			read(c.config)
			if r := ask("DELETE", all+"/fleet-default/pier", ""); r.Status != 200 {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
			if left := as[typedCluster](t, ask("GET", "/v3/clusters/"+id, ""), 200); left.State != "removing" {
				t.Errorf("the provider waits for the end of %q, and not of removing", left.State)
			}
		})
	}
}

// asRead is a value without the fields that are null, which the provider takes for missing.
func asRead(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	kept := map[string]any{}
	for name, one := range fields {
		if one != nil {
			kept[name] = asRead(one)
		}
	}
	return kept
}
