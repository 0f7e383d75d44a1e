package secrets_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/test/apibed"
)

// referring are the fields of rkeConfig that name a Secret or ConfigMap of fleet-default.
var referring = map[string]struct{ kind, field string }{
	"auth":      {"Secret", `"registries":{"configs":{"mirror.lan":{"authConfigSecretName":"NAME"}}}`},
	"tls":       {"Secret", `"registries":{"configs":{"mirror.lan":{"tlsSecretName":"NAME"}}}`},
	"file":      {"Secret", `"machineSelectorFiles":[{"fileSources":[{"secret":{"name":"NAME","items":[{"key":"username","path":"/etc/a"}]}}]}]`},
	"configmap": {"ConfigMap", `"machineSelectorFiles":[{"fileSources":[{"configMap":{"name":"NAME","items":[{"key":"username","path":"/etc/a"}]}}]}]`},
	"cloud":     {"Secret", `"machineGlobalConfig":{"x-allow-unknown-args":true,"cloud-provider-config":"secret://fleet-default:NAME"}`},
	"bucket":    {"Secret", `"etcd":{"s3":{"cloudCredentialName":"fleet-default:NAME"}}`},
}

func referringTo(cluster, reference, name string) string {
	return fmt.Sprintf(`{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":%q,"namespace":"fleet-default"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{%s}}}`,
		cluster, strings.ReplaceAll(referring[reference].field, "NAME", name))
}

// sharedObject is a document of a Secret or ConfigMap that fits every reference.
func sharedObject(kind, name, allowed string) string {
	values := `"username":"mark-value","accessKey":"mark-value","secretKey":"mark-value","defaultBucket":"vault","credential":"mark-value"`
	field := "stringData"
	if kind == "ConfigMap" {
		field = "data"
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"annotations":{%q:%q}},%q:{%s}}`, kind, name, objects.AuthorizedObject, allowed, field, values)
}

// surfaces are the ways by which people apply clusters, and their dry run.
var surfaces = map[string]struct{ path, dry string }{
	"apply": {"/v1-drover/apply", "/v1-drover/apply?dryRun=true"},
	"v1":    {"/v1/provisioning.cattle.io.clusters/fleet-default", ""},
	"apis":  {"/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters?dryRun=All"},
}

// usable says whether a cluster may use what its document names.
func usable(b *apibed.Bed, cluster string) bool {
	b.T.Helper()
	d, ok := b.State.Clusters.Get("fleet-default/" + cluster)
	if !ok {
		b.T.Fatalf("there is no cluster %s", cluster)
	}
	return len(references.Of(d.Value, func(key string) (objects.Object, bool) {
		o, ok := b.State.Objects.Get(key)
		return o.Value, ok
	})) == 1
}

// askAs is a request that has to be answered well.
func askAs(b *apibed.Bed, token, method, path, body string) apibed.Result {
	b.T.Helper()
	r := b.Request(method, path, token, body)
	if r.Status/100 != 2 {
		b.T.Fatalf("%s %s: %d %s", method, path, r.Status, r.Raw)
	}
	return r
}

// drawn matches what differs between any two answers.
var drawn = regexp.MustCompile(`c-m-[a-z0-9]{8}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|"resourceVersion":"[0-9]+"|"revision":[0-9]+`)

// TestReferencesAreRights: whatever names a Secret or ConfigMap, on whatever surface, it counts for those who may read it, and
// for the clusters whose IDs it has; that it exists is told to no other user.
func TestReferencesAreRights(t *testing.T) {
	b := apibed.New(t)
	_, mallory := b.Person("mallory", "user")
	_, alice := b.Person("alice", "user")
	n := 0
	for reference, is := range referring {
		for surface, at := range surfaces {
			t.Run(reference+" over "+surface, func(t *testing.T) {
				outer := b.T
				b.T = t
				defer func() { b.T = outer }()
				n++
				name := func(state string) string { return fmt.Sprintf("%s-%02d", state, n) }
				apply := func(token, cluster, object string) apibed.Result {
					t.Helper()
					return askAs(b, token, "POST", at.path, referringTo(cluster, reference, object))
				}
				answers := map[string]string{}
				for _, state := range []string{"absent", "others"} {
					object := name(state)
					if state == "others" {
						askAs(b, alice, "POST", "/v1-drover/apply", sharedObject(is.kind, object, ""))
					}
					for _, path := range []string{at.dry, at.path} {
						if path == "" {
							continue
						}
						r := askAs(b, mallory, "POST", path, referringTo("c-"+object, reference, object))
						text := string(r.Raw) + strings.Join(r.Header.Values("Warning"), "\n")
						if strings.Contains(text, "mark-value") {
							t.Errorf("%s: a value is shown: %s", path, text)
						}
						text = drawn.ReplaceAllString(strings.ReplaceAll(text, object, "NAME"), "DRAWN")
						if other, ok := answers[path]; ok && other != text {
							t.Errorf("%s: a Secret of another tells that it is there:\n%s\n%s", path, other, text)
						}
						answers[path] = text
						if !strings.Contains(text, "there is no "+strings.ToLower(is.kind)+" fleet-default/NAME that you or cluster c-NAME may use") {
							t.Errorf("%s: %s", path, text)
						}
					}
					if usable(b, "c-"+object) {
						t.Errorf("%s: the cluster may use it", state)
					}
				}
				// An administrator who changes something else gives no right.
				askAs(b, b.Admin, "POST", "/v1-drover/apply", referringTo("c-"+name("others"), reference, name("others")))
				if usable(b, "c-"+name("others")) {
					t.Error("an administrator's later change gives a right")
				}

				askAs(b, mallory, "POST", "/v1-drover/apply", sharedObject(is.kind, name("mine"), ""))
				apply(mallory, "c-"+name("mine"), name("mine"))
				if !usable(b, "c-"+name("mine")) {
					t.Error("what a person made their cluster may not use")
				}

				// By the cluster's ID, whose document named it before.
				apply(mallory, "c-"+name("byid"), name("byid"))
				d, _ := b.State.Clusters.Get("fleet-default/c-" + name("byid"))
				askAs(b, alice, "POST", "/v1-drover/apply", sharedObject(is.kind, name("byid"), d.Value.ID))
				if !usable(b, "c-"+name("byid")) {
					t.Error("the cluster that the object names may not use it")
				}

				// By the name of a cluster that is gone, whose name another person took.
				again := "c-" + name("gone")
				askAs(b, alice, "POST", "/v1-drover/apply", strings.Replace(referringTo(again, reference, "x"), referring[reference].field, "", 1))
				askAs(b, alice, "POST", "/v1-drover/apply", sharedObject(is.kind, name("gone"), again))
				askAs(b, alice, "POST", "/v1-drover/apply", referringTo(again, reference, name("gone")))
				if !usable(b, again) {
					t.Error("a cluster that the object names may not use it")
				}
				d, _ = b.State.Clusters.Get("fleet-default/" + again)
				if _, err := b.State.Store.Commit(t.Context(), b.State.Clusters.Deleting(d.Key, 0), b.State.ClusterSecrets.Deleting(d.Key, 0)); err != nil {
					t.Fatal(err)
				}
				apply(mallory, again, name("gone"))
				if usable(b, again) {
					t.Error("a later cluster of the name may use it")
				}
				for _, token := range []string{alice, b.Admin} { // the second sees the later cluster
					askAs(b, token, "POST", "/v1-drover/apply", sharedObject(is.kind, name("gone"), again))
					if usable(b, again) {
						t.Error("applied again, the object is for a later cluster of the name")
					}
				}
			})
		}
	}
}

// TestRightsEndWithTheReference: what a cluster may use stays as long as its document names it, no matter who applies that, and no longer.
func TestRightsEndWithTheReference(t *testing.T) {
	b := apibed.New(t)
	aliceID, alice := b.Person("alice", "user")
	_, mallory := b.Person("mallory", "user")
	with, without := referringTo("quay", "auth", "mirror"), referringTo("quay", "auth", "")
	r := askAs(b, b.Admin, "POST", "/v1-drover/apply", sharedObject("Secret", "mirror", "quay, quai")+"\n---\n"+with)
	if text := string(r.Raw); !strings.Contains(text, "its annotation names quai, and no cluster") {
		t.Errorf("a name that no cluster has: %s", text)
	}
	if o, _ := b.State.Objects.Get("Secret/fleet-default/mirror"); o.Value.Clusters["quay"] == "" || o.Value.Clusters["quai"] != "" {
		t.Errorf("the names stand for %v", o.Value.Clusters)
	}
	askAs(b, b.Admin, "POST", "/v1-drover/apply", sharedObject("Secret", "mirror", ""))
	d, _ := b.State.Clusters.Get("fleet-default/quay")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, d.Value.ID, aliceID))
	askAs(b, alice, "POST", "/v1-drover/apply", strings.Replace(with, `"rkeConfig":{`, `"rkeConfig":{"additionalManifest":"# x",`, 1))
	if !usable(b, "quay") {
		t.Error("a change by another owner takes the right away")
	}
	askAs(b, alice, "POST", "/v1-drover/apply", without)
	askAs(b, alice, "POST", "/v1-drover/apply", with)
	if usable(b, "quay") {
		t.Error("a reference that was taken out has its right when it comes back")
	}
	askAs(b, b.Admin, "POST", "/v1-drover/apply", without)
	askAs(b, b.Admin, "POST", "/v1-drover/apply", with)
	if !usable(b, "quay") {
		t.Error("who may read it gives no right")
	}
	// Another object of the name is not meant.
	o, _ := b.State.Objects.Get("Secret/fleet-default/mirror")
	if err := b.State.Objects.Delete(t.Context(), o.Key, o.Revision); err != nil {
		t.Fatal(err)
	}
	askAs(b, mallory, "POST", "/v1-drover/apply", sharedObject("Secret", "mirror", ""))
	if usable(b, "quay") {
		t.Error("the right is for another object of the name, too")
	}
}

// TestABucketsKeysStayAtTheirPlace: the place that a person chose who may read the keys stays, and another one of another user does not count.
func TestABucketsKeysStayAtTheirPlace(t *testing.T) {
	b := apibed.New(t)
	aliceID, alice := b.Person("alice", "user")
	at := func(endpoint string) string {
		return strings.Replace(referringTo("quay", "bucket", "keys"), `"s3":{`, fmt.Sprintf(`"s3":{"endpoint":%q,"bucket":"harbour",`, endpoint), 1)
	}
	askAs(b, b.Admin, "POST", "/v1-drover/apply", sharedObject("Secret", "keys", "")+"\n---\n"+at("s3.lan"))
	d, _ := b.State.Clusters.Get("fleet-default/quay")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, d.Value.ID, aliceID))
	for _, endpoint := range []string{"s3.lan", "evil.lan"} {
		askAs(b, alice, "POST", "/v1-drover/apply", at(endpoint))
		d, _ = b.State.Clusters.Get("fleet-default/quay")
		if g := d.Value.Granted["Secret/fleet-default/keys"]; g.Bucket == nil || g.Bucket.Endpoint != "s3.lan" {
			t.Errorf("with %s: %+v", endpoint, g.Bucket)
		}
	}
	_, root := b.Person("root", "admin")
	askAs(b, root, "POST", "/v1-drover/apply", at("evil.lan"))
	d, _ = b.State.Clusters.Get("fleet-default/quay")
	if g := d.Value.Granted["Secret/fleet-default/keys"]; g.Bucket.Endpoint != "s3.lan" {
		t.Error("an administrator who changes nothing gives a right to what another person wrote")
	}
}

// TestNamespacesAreGiven: fleet-default is for all, and another namespace for administrators and for those who have something there.
func TestNamespacesAreGiven(t *testing.T) {
	b := apibed.New(t)
	id, mallory := b.Person("mallory", "user")
	elsewhere := func(document string) string {
		return strings.ReplaceAll(document, `"metadata":{`, `"metadata":{"namespace":"prod",`)
	}
	cluster := strings.Replace(referringTo("mole", "auth", ""), `"namespace":"fleet-default"`, `"namespace":"prod"`, 1)
	for path, body := range map[string]string{
		"/v1-drover/apply":                                                            cluster,
		"/v1-drover/apply?dryRun=true":                                                elsewhere(sharedObject("Secret", "mole", "")),
		"/v1/provisioning.cattle.io.clusters/prod":                                    cluster,
		"/apis/provisioning.cattle.io/v1/namespaces/prod/clusters":                    cluster,
		"/apis/provisioning.cattle.io/v1/namespaces/prod/clusters?dryRun=All":         cluster,
		"/k8s/clusters/local/apis/provisioning.cattle.io/v1/namespaces/prod/clusters": cluster,
	} {
		if r := b.Request("POST", path, mallory, body); r.Status != http.StatusForbidden || !strings.Contains(string(r.Raw), "namespace prod is not given to you") {
			t.Errorf("%s: %d %s", path, r.Status, r.Raw)
		}
	}
	askAs(b, b.Admin, "POST", "/v1-drover/apply", strings.ReplaceAll(cluster, "mole", "pier"))
	d, _ := b.State.Clusters.Get("prod/pier")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, d.Value.ID, id))
	askAs(b, mallory, "POST", "/v1-drover/apply", cluster)
	askAs(b, mallory, "POST", "/v1-drover/apply", elsewhere(sharedObject("Secret", "mole", "")))
}

// TestObjectsAreTheirMakers: an object is read, changed, listed and removed by who made it, and by administrators; that a cluster of
// another names it holds no other up.
func TestObjectsAreTheirMakers(t *testing.T) {
	b := apibed.New(t)
	_, alice := b.Person("alice", "user")
	_, mallory := b.Person("mallory", "user")
	secret := sharedObject("Secret", "mirror", "")
	askAs(b, alice, "POST", "/v1-drover/apply", secret)
	askAs(b, mallory, "POST", "/v1-drover/apply", referringTo("mole", "auth", "mirror"))
	for _, path := range []string{"/v1-drover/apply", "/v1-drover/apply?dryRun=true"} {
		if r := b.Request("POST", path, mallory, strings.Replace(secret, "mark-value", "other", 1)); r.Status != http.StatusForbidden {
			t.Errorf("another changes it: %d %s", r.Status, r.Raw)
		}
	}
	for token, want := range map[string]int{alice: 1, mallory: 0, b.Admin: 1} {
		var list struct{ Data []json.RawMessage }
		r := askAs(b, token, "GET", "/v1-drover/objects", "")
		if err := json.Unmarshal(r.Raw, &list); err != nil || len(list.Data) != want {
			t.Errorf("%d are listed, want %d: %s", len(list.Data), want, r.Raw)
		}
	}
	const one = "/v1-drover/objects/Secret/fleet-default/mirror"
	if r := b.Request("DELETE", one, mallory, ""); r.Status != http.StatusNotFound {
		t.Errorf("another removes it: %d", r.Status)
	}
	askAs(b, alice, "DELETE", one, "")
}

// TestWhatIsWrongWithANamedSecretIsSaid holds that a cluster without any host says of a Secret that is missing, and of one that is of
// no use for what it is named for, both when the document is applied and in why; and that it says nothing once that is put right.
func TestWhatIsWrongWithANamedSecretIsSaid(t *testing.T) {
	for _, c := range []struct{ reference, wrong, right, says string }{
		{"auth", "", `,"type":"kubernetes.io/basic-auth","stringData":{"username":"u"}`, "there is no secret fleet-default/berth"},
		{"auth", `,"stringData":{"username":"u"}`, `,"type":"rke.cattle.io/auth-config","stringData":{"auth":"u:p"}`, "has the type Opaque, and authConfigSecretName of registry mirror.lan takes"},
		{"tls", `,"stringData":{"tls.crt":"mark-value"}`, `,"type":"kubernetes.io/tls","stringData":{"tls.crt":"c","tls.key":"k"}`, "tlsSecretName of registry mirror.lan takes kubernetes.io/tls"},
		{"bucket", `,"stringData":{"s3credentialConfig-accessKey":"mark-value"}`, `,"stringData":{"accessKey":"a","secretKey":"b","defaultBucket":"vault"}`, "lacks accessKey or secretKey"},
	} {
		t.Run(c.reference+" "+c.says, func(t *testing.T) {
			b := apibed.New(t)
			_, ann := b.Person("ann", "user")
			if c.wrong != "" {
				askAs(b, ann, "POST", fleetSecrets, secretOf("berth", c.wrong))
			}
			document := referringTo("harbour", c.reference, "berth")
			made := b.Request("POST", "/v1/provisioning.cattle.io.clusters/fleet-default", ann, document)
			if said := strings.Join(made.Header.Values("Warning"), "\n"); made.Status/100 != 2 || !strings.Contains(said, c.says) || strings.Contains(said, "mark-value") {
				t.Errorf("applied: %d %q", made.Status, said)
			}
			why := func() string { return string(b.Get("/v1-drover/clusters/fleet-default/harbour/why").Raw) }
			if text := why(); !strings.Contains(text, c.says) || !strings.Contains(text, `"well":false`) || strings.Contains(text, "mark-value") {
				t.Errorf("why: %s", text)
			}
			method, path := "PUT", fleetSecrets+"/berth"
			if c.wrong == "" {
				method, path = "POST", fleetSecrets
			}
			askAs(b, ann, method, path, secretOf("berth", c.right))
			askAs(b, ann, "POST", "/v1-drover/apply", document)
			if text := why(); strings.Contains(text, "berth") {
				t.Errorf("it is right now, and why says %s", text)
			}
		})
	}
}
