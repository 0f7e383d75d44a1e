package secrets_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

const fleetSecrets = "/api/v1/namespaces/fleet-default/secrets"

func secretOf(name, more string) string {
	return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `","creationTimestamp":null}` + more + `}`
}

// TestSecretsByKubectl plays kubectl create, get, replace, patch, label and delete of a Secret, by a person with no right but to make clusters.
func TestSecretsByKubectl(t *testing.T) {
	for _, at := range []string{"", "/k8s/clusters/local"} {
		t.Run("at "+at, func(t *testing.T) {
			b := apibed.New(t)
			_, ann := b.Person("ann", "user")
			_, bob := b.Person("zoe", "user")
			all := at + fleetSecrets
			one := all + "/quay"
			type shown struct {
				Type, Reason, Message string
				Metadata              struct {
					Name, Namespace, UID, ResourceVersion string
					Labels                                map[string]string
				}
				Data  map[string][]byte
				Items []shownItem
			}
			ask := func(status int, token, method, path, body string, header ...string) shown {
				t.Helper()
				r := b.Request(method, path, token, body, header...)
				var s shown
				if err := json.Unmarshal(r.Raw, &s); err != nil || r.Status != status {
					t.Fatalf("%s %s: %d %s", method, path, r.Status, r.Raw)
				}
				return s
			}
			if s := ask(404, ann, "GET", one, ""); s.Reason != "NotFound" {
				t.Errorf("before: %+v", s)
			}
			if s := ask(201, ann, "POST", all+"?dryRun=All", secretOf("quay", `,"stringData":{"username":"tide"},"type":"kubernetes.io/basic-auth"`)); string(s.Data["username"]) != "tide" {
				t.Errorf("%+v", s)
			}
			ask(404, ann, "GET", one, "")
			made := ask(201, ann, "POST", all, secretOf("quay", `,"stringData":{"username":"tide"},"type":"kubernetes.io/basic-auth"`))
			if made.Type != "kubernetes.io/basic-auth" || made.Metadata.UID == "" || made.Metadata.Namespace != "fleet-default" {
				t.Errorf("%+v", made)
			}
			if s := ask(409, ann, "POST", all, secretOf("quay", "")); s.Reason != "AlreadyExists" {
				t.Errorf("again: %+v", s)
			}
			// Another person learns nothing of it, and takes no name away.
			if s := ask(404, bob, "GET", one, ""); strings.Contains(s.Message, "tide") {
				t.Error("revealed")
			}
			for _, method := range []string{"PUT", "DELETE", "PATCH"} {
				ask(404, bob, method, one, secretOf("quay", ""), "Content-Type", "application/json")
			}
			ask(403, bob, "POST", all, secretOf("quay", ""))
			if s := ask(200, bob, "GET", all, ""); len(s.Items) != 0 {
				t.Errorf("another sees %+v", s)
			}
			// kubectl edit, label, patch.
			ask(409, ann, "PUT", one, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"quay","resourceVersion":"1"},"stringData":{"username":"ebb"},"type":"kubernetes.io/basic-auth"}`)
			ask(200, ann, "PUT", one, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"quay","resourceVersion":"`+made.Metadata.ResourceVersion+`"},"stringData":{"username":"ebb"},"type":"kubernetes.io/basic-auth"}`)
			ask(200, ann, "PATCH", one, `{"metadata":{"labels":{"pier":"4"}},"data":{"password":"`+base64.StdEncoding.EncodeToString([]byte("deep"))+`"}}`, "Content-Type", "application/strategic-merge-patch+json")
			ask(200, ann, "PATCH", one, `[{"op":"replace","path":"/metadata/labels/pier","value":"5"}]`, "Content-Type", "application/json-patch+json")
			ask(415, ann, "PATCH", one, `{}`, "Content-Type", "text/plain")
			got := ask(200, ann, "GET", one, "")
			if string(got.Data["username"]) != "ebb" || string(got.Data["password"]) != "deep" || got.Metadata.Labels["pier"] != "5" || got.Metadata.UID != made.Metadata.UID {
				t.Errorf("%+v", got)
			}
			if s := ask(200, ann, "GET", all+"?labelSelector=pier%3D5", ""); len(s.Items) != 1 {
				t.Errorf("%+v", s)
			}
			if s := ask(200, ann, "GET", at+"/api/v1/secrets?fieldSelector=type%3DOpaque", ""); len(s.Items) != 0 {
				t.Errorf("%+v", s)
			}
			// An administrator lists it beside the plans.
			if s := ask(200, b.Admin, "GET", at+"/api/v1/secrets", ""); len(s.Items) != 1 || s.Items[0].Metadata.Name != "quay" {
				t.Errorf("%+v", s)
			}
			ask(405, ann, "DELETE", all, "")
			ask(200, ann, "DELETE", one, "")
			ask(404, ann, "DELETE", one, "")
		})
	}
}

// TestSecretsOfHelm4 plays server-side apply, by which helm 4 makes and changes all that is in a chart.
func TestSecretsOfHelm4(t *testing.T) {
	b := apibed.New(t)
	_, ann := b.Person("ann", "user")
	_, bob := b.Person("zoe", "user")
	apply := func(status int, token, query, body, says string) {
		t.Helper()
		r := b.Request("PATCH", fleetSecrets+"/quay"+query, token, body, "Content-Type", "application/apply-patch+yaml")
		if r.Status != status || !strings.Contains(string(r.Raw), says) || strings.Contains(string(r.Raw), "mark-value") {
			t.Errorf("%s: %d %s", body, r.Status, r.Raw)
		}
	}
	stored := func() (data map[string][]byte, labels map[string]string) {
		t.Helper()
		var s struct {
			Data     map[string][]byte
			Metadata struct{ Labels map[string]string }
		}
		if err := json.Unmarshal(askAs(b, ann, "GET", fleetSecrets+"/quay", "").Raw, &s); err != nil {
			t.Fatal(err)
		}
		return s.Data, s.Metadata.Labels
	}
	const by = "?fieldManager=helm&force=true"
	const login = `"type":"kubernetes.io/basic-auth","apiVersion":"v1","kind":"Secret","metadata":{"name":"quay","labels":{"pier":"4"}}`
	for _, c := range []struct{ query, body, says string }{
		{"", "{" + login + "}", "fieldManager"},
		{by, "data: [mark-value", "cannot be read"},
		{by, "- mark-value", "cannot be read"},
		{by, "", "cannot be read"},
		{by, `{"metadata":{"name":"other"}}`, "not the name of the URL"},
		{by, `{"data":{"a":"mark-value!"}}`, "is not base64"},
	} {
		apply(422, ann, c.query, c.body, c.says)
	}
	apply(201, ann, by+"&dryRun=All", "{"+login+`,"stringData":{"username":"tide"}}`, "quay")
	b.Want(404, "GET", fleetSecrets+"/quay", "")
	apply(201, ann, by, "{"+login+`,"stringData":{"username":"tide","password":"deep"}}`, `"resourceVersion"`)
	apply(200, ann, by, "stringData: {username: ebb}\nmetadata: {labels: {pier: '5'}}\n", `"resourceVersion"`)
	apply(200, ann, by, "data: null\n", `"resourceVersion"`) // askAs charts write none
	data, labels := stored()
	if string(data["username"]) != "ebb" || string(data["password"]) != "deep" || labels["pier"] != "5" {
		t.Errorf("%q, %v", data, labels)
	}
	apply(409, ann, by, `{"metadata":{"resourceVersion":"1"},"stringData":{"username":"x"}}`, "Conflict")
	apply(403, bob, by, "{"+login+`,"stringData":{"username":"x"}}`, "")
	if data, _ := stored(); string(data["username"]) != "ebb" {
		t.Errorf("%q", data)
	}
}

// TestSecretsInProtobuf plays how the typed clients of client-go write, with which helm keeps its releases.
func TestSecretsInProtobuf(t *testing.T) {
	b := apibed.New(t)
	_, ann := b.Person("ann", "user")
	encoded := func(kind, value string) string {
		t.Helper()
		secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "docks", Labels: map[string]string{"owner": "helm"}}, Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte(value)}}
		raw, err := secret.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		text, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return "k8s\x00" + string(text)
	}
	send := func(status int, method, path, body string) {
		t.Helper()
		r := b.Request(method, path, ann, body, "Content-Type", "application/vnd.kubernetes.protobuf")
		if r.Status != status || strings.Contains(string(r.Raw), "mark-value") {
			t.Errorf("%s %q: %d %s", method, body, r.Status, r.Raw)
		}
	}
	good := encoded("Secret", "mark-value")
	for _, bad := range []string{"", "k8s\x00", good[4:], good[:len(good)-3], encoded("ConfigMap", "mark-value"), `{"kind":"Secret"}`, "k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		send(422, "POST", fleetSecrets, bad)
	}
	send(201, "POST", fleetSecrets, good)
	send(409, "POST", fleetSecrets, good)
	send(200, "PUT", fleetSecrets+"/docks", encoded("Secret", "second"))
	var s struct {
		Type     string
		Data     map[string][]byte
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(askAs(b, ann, "GET", fleetSecrets+"/docks", "").Raw, &s); err != nil || s.Type != "helm.sh/release.v1" || string(s.Data["release"]) != "second" || s.Metadata.Labels["owner"] != "helm" {
		t.Errorf("%v %+v", err, s)
	}
}

// TestSecretsGoWithTheirCluster: what helm uninstall and kubectl delete do, of which neither waits for the cluster's end.
func TestSecretsGoWithTheirCluster(t *testing.T) {
	b := apibed.New(t)
	_, ann := b.Person("ann", "user")
	askAs(b, ann, "POST", fleetSecrets, secretOf("mirror", `,"stringData":{"password":"low"}`))
	askAs(b, ann, "POST", "/v1-drover/apply", referringTo("harbour", "file", "mirror"))
	if r := b.Request("DELETE", fleetSecrets+"/mirror", ann, ""); r.Status != 409 || !strings.Contains(string(r.Raw), "refers to it") {
		t.Errorf("while it is used: %d %s", r.Status, r.Raw)
	}
	askAs(b, ann, "DELETE", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/harbour", "")
	if _, removing := b.State.Clusters.Get("fleet-default/harbour"); !removing {
		t.Fatal("the cluster is gone already")
	}
	askAs(b, ann, "DELETE", fleetSecrets+"/mirror", "")
	b.Want(404, "GET", fleetSecrets+"/mirror", "")
}

type shownItem struct{ Metadata struct{ Name string } }

// TestReleasesOfHelm plays how helm's storage keeps releases: created, listed by labels, replaced when superseded, removed.
func TestReleasesOfHelm(t *testing.T) {
	b := apibed.New(t)
	_, ann := b.Person("ann", "user")
	release := func(version, status string) string {
		return `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"sh.helm.release.v1.docks.v` + version + `","creationTimestamp":null,"labels":{"name":"docks","owner":"helm","status":"` + status + `","version":"` + version + `","createdAt":"1"}},"data":{"release":"SDRzSQ=="},"type":"helm.sh/release.v1"}`
	}
	list := func(selector string) int {
		var got struct{ Items []json.RawMessage }
		if err := json.Unmarshal(askAs(b, ann, "GET", fleetSecrets+"?labelSelector="+selector, "").Raw, &got); err != nil {
			t.Fatal(err)
		}
		return len(got.Items)
	}
	if n := list("name%3Ddocks%2Cowner%3Dhelm"); n != 0 {
		t.Errorf("%d", n)
	}
	askAs(b, ann, "POST", fleetSecrets, release("1", "pending-install"))
	askAs(b, ann, "PUT", fleetSecrets+"/sh.helm.release.v1.docks.v1", release("1", "deployed"))
	askAs(b, ann, "POST", fleetSecrets, release("2", "pending-upgrade"))
	askAs(b, ann, "PUT", fleetSecrets+"/sh.helm.release.v1.docks.v1", release("1", "superseded"))
	askAs(b, ann, "PUT", fleetSecrets+"/sh.helm.release.v1.docks.v2", release("2", "deployed"))
	if n := list("name%3Ddocks%2Cowner%3Dhelm%2Cstatus%3Ddeployed"); n != 1 {
		t.Errorf("%d are deployed", n)
	}
	for _, v := range []string{"1", "2"} {
		askAs(b, ann, "DELETE", fleetSecrets+"/sh.helm.release.v1.docks.v"+v, "")
	}
	if n := list("owner%3Dhelm"); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestSecretsThatAreNotKept holds what is refused over Kubernetes' form, and that no refusal repeats a value.
func TestSecretsThatAreNotKept(t *testing.T) {
	b := apibed.New(t)
	_, ann := b.Person("ann", "user")
	for _, c := range []struct {
		name, path, body string
		status           int
		says             string
	}{
		{"a plan's name", fleetSecrets, secretOf("custom-1-machine-plan", ""), 405, "lives and ends with its machine"},
		{"a plan's type", fleetSecrets, secretOf("plan", `,"type":"rke.cattle.io/machine-plan"`), 422, "plans are made by the server"},
		{"a service account's", fleetSecrets, secretOf("sa", `,"type":"kubernetes.io/service-account-token"`), 422, "no service accounts"},
		{"half a certificate", fleetSecrets, secretOf("tls", `,"type":"kubernetes.io/tls","stringData":{"tls.crt":"mark-value"}`), 422, "needs tls.key"},
		{"another namespace", fleetSecrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"prod"}}`, 422, "not the namespace of the URL"},
		{"a namespace of others", "/api/v1/namespaces/prod/secrets", secretOf("a", ""), 403, "not given to you"},
		{"immutable", fleetSecrets, secretOf("a", `,"immutable":true`), 422, "immutable"},
		{"an unknown field", fleetSecrets, secretOf("a", `,"dat":{"a":"mark-value"}`), 422, "dat"},
		{"no base64", fleetSecrets, secretOf("a", `,"data":{"a":"mark-value!"}`), 422, "is not base64"},
		{"no object", fleetSecrets, `"mark-value"`, 422, "not one JSON object"},
		{"another kind", fleetSecrets, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, 422, "where a Secret belongs"},
		{"too large", fleetSecrets, secretOf("a", `,"stringData":{"a":"`+strings.Repeat("x", 1<<20+1)+`"}`), 422, "more than the 1024 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := ann
			if c.status == 405 {
				token = b.Admin
			}
			path := c.path
			if c.status == 405 {
				path += "/custom-1-machine-plan"
			}
			r := b.Request("POST", path, token, c.body)
			if r.Status != c.status || !strings.Contains(string(r.Raw), c.says) || !strings.Contains(string(r.Raw), `"Status"`) || strings.Contains(string(r.Raw), "mark-value") {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
		})
	}
	if r := b.Request("POST", fleetSecrets, ann, secretOf("x-machine-plan", "")); r.Status != 422 || !strings.Contains(string(r.Raw), "machine's plan") {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Request("GET", fleetSecrets+"/a", b.User, "", "Impersonate-User", "u-1"); r.Status != 403 {
		t.Errorf("acting as another: %d %s", r.Status, r.Raw)
	}
	if n := len(b.State.Objects.List()); n != 0 {
		t.Errorf("%d are kept", n)
	}
	b.Limit(quotas.Documents.PerPerson(), "1")
	for i, name := range []string{"a", "b"} {
		r := b.Request("POST", fleetSecrets, ann, secretOf(name, `,"stringData":{"a":"`+strings.Repeat("x", 600<<10)+`"}`))
		if want := []int{201, 403}[i]; r.Status != want || i == 1 && !strings.Contains(string(r.Raw), "quota exceeded") {
			t.Errorf("%s: %d %.300s", name, r.Status, r.Raw)
		}
	}
}

// TestSecretsOverV1 plays rancher2_secret_v2 with cluster_id = "local": schema, create, read, update with the version that was read, delete.
func TestSecretsOverV1(t *testing.T) {
	for _, at := range []string{"/v1", "/k8s/clusters/local/v1"} {
		t.Run(at, func(t *testing.T) {
			b := apibed.New(t)
			_, ann := b.Person("ann", "user")
			_, bob := b.Person("zoe", "user")
			var schema struct {
				CollectionMethods, ResourceMethods []string
				Links                              map[string]string
			}
			if err := json.Unmarshal(askAs(b, ann, "GET", at+"/schemas/secret", "").Raw, &schema); err != nil ||
				strings.Join(schema.CollectionMethods, " ") != "GET POST" || strings.Join(schema.ResourceMethods, " ") != "GET PUT DELETE" {
				t.Fatalf("%v %+v", err, schema)
			}
			all := strings.TrimPrefix(schema.Links["collection"], "https://drover.example")
			body := func(value, version string) string {
				return `{"_type":"Opaque","apiVersion":"v1","id":"","immutable":false,"kind":"Secret","metadata":{"creationTimestamp":null,"name":"mirror","namespace":"fleet-default","resourceVersion":"` + version + `"},"stringData":{"password":"` + value + `"},"type":"Opaque"}`
			}
			type secret struct {
				ID, Type string
				K8sType  string `json:"_type"`
				Links    map[string]string
				Data     map[string][]byte
				Metadata struct {
					ResourceVersion string
					State           struct{ Name string }
				}
			}
			parse := func(r apibed.Result) (s secret) {
				t.Helper()
				if err := json.Unmarshal(r.Raw, &s); err != nil {
					t.Fatal(err)
				}
				return s
			}
			made := parse(askAs(b, ann, "POST", all, body("low", "")))
			if made.ID != "fleet-default/mirror" || made.Type != "secret" || made.K8sType != "Opaque" || string(made.Data["password"]) != "low" || made.Metadata.State.Name != "active" {
				t.Errorf("%+v", made)
			}
			if r := b.Request("POST", all, ann, body("low", "")); r.Status != 409 {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
			self := strings.TrimPrefix(made.Links["self"], "https://drover.example")
			got := parse(askAs(b, ann, "GET", all+"/"+made.ID, ""))
			if got.Metadata.ResourceVersion != made.Metadata.ResourceVersion {
				t.Errorf("%+v", got)
			}
			changed := parse(askAs(b, ann, "PUT", self, body("high", made.Metadata.ResourceVersion)))
			if string(changed.Data["password"]) != "high" {
				t.Errorf("%+v", changed)
			}
			if r := b.Request("PUT", self, ann, body("low", made.Metadata.ResourceVersion)); r.Status != 409 {
				t.Errorf("an old version: %d %s", r.Status, r.Raw)
			}
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				if r := b.Request(method, self, bob, body("x", "")); r.Status != 404 || strings.Contains(string(r.Raw), "high") {
					t.Errorf("another's %s: %d %s", method, r.Status, r.Raw)
				}
			}
			if r := b.Request("GET", all, bob, ""); r.Status != 200 || strings.Contains(string(r.Raw), "mirror") {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
			// A cluster that uses it holds it.
			askAs(b, ann, "POST", "/v1-drover/apply", referringTo("harbour", "file", "mirror"))
			if !usable(b, "harbour") {
				t.Error("who made it and named it gave no right")
			}
			if r := b.Request("DELETE", self, ann, ""); r.Status != 409 || !strings.Contains(string(r.Raw), "cluster fleet-default/harbour refers to it") {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
			if r := b.Request("DELETE", fleetSecrets+"/mirror", ann, ""); r.Status != 409 {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
			if err := b.State.Clusters.Delete(t.Context(), "fleet-default/harbour", 0); err != nil {
				t.Fatal(err)
			}
			if r := askAs(b, ann, "DELETE", self, ""); r.Status != http.StatusNoContent {
				t.Errorf("%d", r.Status)
			}
		})
	}
}

// TestCloudCredentials plays rancher2_cloud_credential with s3_credential_config, and a cluster that names what came of it.
func TestCloudCredentials(t *testing.T) {
	b := apibed.New(t)
	_, ann := b.Person("ann", "user")
	_, bob := b.Person("zoe", "user")
	type credential struct {
		ID, Name, Description string
		S3                    map[string]any `json:"s3credentialConfig"`
	}
	parse := func(r apibed.Result) (c credential) {
		t.Helper()
		if err := json.Unmarshal(r.Raw, &c); err != nil || strings.Contains(string(r.Raw), "deep-key") {
			t.Fatalf("%v %s", err, r.Raw)
		}
		return c
	}
	made := parse(askAs(b, ann, "POST", "/v3/cloudcredentials", `{"type":"cloudCredential","name":"vault","description":"of the docks","s3credentialConfig":{"accessKey":"AK1","secretKey":"deep-key","defaultBucket":"snaps","defaultRegion":"eu-1","defaultSkipSSLVerify":"false"}}`))
	if !strings.HasPrefix(made.ID, "cattle-global-data:cc-") || made.Name != "vault" || made.S3["accessKey"] != "AK1" || made.S3["defaultBucket"] != "snaps" || made.S3["secretKey"] != nil {
		t.Fatalf("%+v", made)
	}
	self := "/v3/cloudCredentials/" + made.ID
	changed := parse(askAs(b, ann, "PUT", self, `{"name":"vault-2","description":"","annotations":{"a":"b"},"labels":{},"s3credentialConfig":{"accessKey":"AK2","secretKey":"deep-key-2"}}`))
	if changed.Name != "vault-2" || changed.S3["accessKey"] != "AK2" || changed.S3["defaultRegion"] != "eu-1" {
		t.Errorf("%+v", changed)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if r := b.Request(method, self, bob, `{"name":"x"}`); r.Status != 404 {
			t.Errorf("another's %s: %d %s", method, r.Status, r.Raw)
		}
	}
	for body, says := range map[string]string{
		`{"name":"a"}`: "for buckets alone", `{"name":"a","amazonec2credentialConfig":{"accessKey":"a","secretKey":"deep-key"}}`: "for buckets alone",
		`{"s3credentialConfig":{"accessKey":"a"}}`:                                       "secretKey",
		`{"s3credentialConfig":{"accessKey":7,"secretKey":"deep-key"}}`:                  "is not text",
		`{"s3credentialConfig":{"accessKey":"a","secretKey":"deep-key","token":"a"}}`:    "not a field",
		`{"s3credentialConfig":{"accessKey":"a","secretKey":"deep-key"},"labels":["a"]}`: "labels",
	} {
		if r := b.Request("POST", "/v3/cloudcredentials", ann, body); r.Status != 422 || !strings.Contains(string(r.Raw), says) || strings.Contains(string(r.Raw), "deep-key") {
			t.Errorf("%s: %d %s", body, r.Status, r.Raw)
		}
	}
	askAs(b, ann, "POST", "/v1-drover/apply", strings.Replace(referringTo("harbour", "bucket", "x"), "fleet-default:x", made.ID, 1))
	if !usable(b, "harbour") {
		t.Error("the cluster may not use it")
	}
	if r := b.Request("DELETE", self, ann, ""); r.Status != 409 {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if err := b.State.Clusters.Delete(t.Context(), "fleet-default/harbour", 0); err != nil {
		t.Fatal(err)
	}
	askAs(b, ann, "DELETE", self, "")
	if n := len(b.State.Objects.ListIn(objects.Secret + "/")); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestSecretsAreWatched: a person's informer sees the Secrets that they may read come, change and go, and of others nothing, by both paths;
// it ends with its token. What is gone has its name, and no values.
func TestSecretsAreWatched(t *testing.T) {
	for _, at := range []string{"", "/k8s/clusters/local"} {
		t.Run("at "+at, func(t *testing.T) {
			b := apibed.New(t)
			_, ann := b.Person("ann", "user")
			_, bob := b.Person("zoe", "user")
			config := b.KubeServer(t, at)
			config.BearerToken = ann
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			of := client.CoreV1().Secrets("fleet-default")
			made := func(name, key, value string) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pier": key}}, StringData: map[string]string{key: value}}
			}
			quay, err := of.Create(t.Context(), made("quay", "tide", "hunter-tide"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := of.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 || string(list.Items[0].Data["tide"]) != "hunter-tide" {
				t.Fatal(list, err)
			}
			w, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			selected, err := of.Watch(t.Context(), metav1.ListOptions{LabelSelector: "pier=ebb", FieldSelector: "type=Opaque"})
			if err != nil {
				t.Fatal(err)
			}
			defer selected.Stop()
			next := func(w watch.Interface, want string) *corev1.Secret {
				t.Helper()
				select {
				case e, ok := <-w.ResultChan():
					s, is := e.Object.(*corev1.Secret)
					if !ok || !is || string(e.Type)+" "+s.Namespace+"/"+s.Name != want {
						t.Fatalf("%v %T %+v, want %s", e.Type, e.Object, e.Object, want)
					}
					return s
				case <-time.After(time.Minute):
					t.Fatalf("nothing came, want %s", want)
				}
				return nil
			}
			if r := b.Request("POST", at+fleetSecrets, bob, secretOf("other", `,"stringData":{"other":"hunter-other"}`)); r.Status != http.StatusCreated {
				t.Fatal(r.Status, string(r.Raw))
			}
			quay.StringData = map[string]string{"tide": "hunter-flood"}
			if _, err := of.Update(t.Context(), quay, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if s := next(w, "MODIFIED fleet-default/quay"); string(s.Data["tide"]) != "hunter-flood" {
				t.Errorf("%+v", s)
			}
			if _, err := of.Create(t.Context(), made("berth", "ebb", "hunter-ebb"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			next(w, "ADDED fleet-default/berth")
			next(selected, "ADDED fleet-default/berth")
			for _, name := range []string{"quay", "berth"} {
				if err := of.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if s := next(w, "DELETED fleet-default/quay"); len(s.Data) != 0 || s.UID != quay.UID {
				t.Errorf("%+v", s)
			}
			next(w, "DELETED fleet-default/berth")
			next(selected, "DELETED fleet-default/berth")
			name, _, _ := strings.Cut(ann, ":")
			if err := b.State.Tokens.Delete(t.Context(), name, 0); err != nil {
				t.Fatal(err)
			}
			select {
			case e, ok := <-w.ResultChan():
				if ok {
					t.Errorf("after the end of the token: %+v", e)
				}
			case <-time.After(time.Minute):
				t.Error("the watch goes on after the end of its token")
			}
		})
	}
}

// TestAdministratorsWatchASecretByItsName: without a name they watch plans.
func TestAdministratorsWatchASecretByItsName(t *testing.T) {
	b := apibed.New(t)
	client, err := kubernetes.NewForConfig(b.KubeServer(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	of := client.CoreV1().Secrets("fleet-default")
	w, err := of.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=quay"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, name := range []string{"other", "quay"} {
		if _, err := of.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case e := <-w.ResultChan():
		if s, ok := e.Object.(*corev1.Secret); !ok || e.Type != watch.Added || s.Name != "quay" {
			t.Errorf("%+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("nothing came")
	}
}

// TestAWatchOfSecretsEndsWithTheTimeOfItsToken, though nothing changes.
func TestAWatchOfSecretsEndsWithTheTimeOfItsToken(t *testing.T) {
	b := apibed.New(t)
	id, _ := b.Person("ann", "user")
	config := b.KubeServer(t, "")
	config.BearerToken = b.Token(id, records.Token{TTLMillis: 2000})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.CoreV1().Secrets("fleet-default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	select {
	case e, ok := <-w.ResultChan():
		if ok {
			t.Errorf("it is sent %+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("the watch goes on after the time of its token")
	}
}
