package objects_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
)

func read(t *testing.T, text string) (objects.Object, strictyaml.Errors) {
	t.Helper()
	docs, err := strictyaml.Read(strictyaml.Source{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !objects.Is(docs[0]) {
		t.Fatalf("%s is not taken for an object", text)
	}
	return objects.Read(docs[0], "fleet-default", func(path string) bool { return path == "status" || path == "metadata.uid" })
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       objects.Object
	}{
		{"a Secret", `{apiVersion: v1, kind: Secret, metadata: {name: s, uid: x}, data: {a: YQ==, b: Yg==}, stringData: {b: c}}`,
			objects.Object{Kind: "Secret", Metadata: objects.Metadata{Name: "s", Namespace: "fleet-default"}, Type: "Opaque", Data: map[string][]byte{"a": []byte("a"), "b": []byte("c")}}},
		{"a ConfigMap", `{apiVersion: v1, kind: ConfigMap, metadata: {name: m.x, namespace: n}, data: {a: YQ==}, binaryData: {b: Yg==}, immutable: false}`,
			objects.Object{Kind: "ConfigMap", Metadata: objects.Metadata{Name: "m.x", Namespace: "n"}, Data: map[string][]byte{"a": []byte("YQ=="), "b": []byte("b")}}},
		{"what kubectl left", `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: secret, a: b}}, stringData: {tls.crt: c, tls.key: k}}`,
			objects.Object{Kind: "Secret", Metadata: objects.Metadata{Name: "s", Namespace: "fleet-default", Annotations: map[string]string{"a": "b"}}, Type: "kubernetes.io/tls",
				Data: map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, errs := read(t, c.text)
			if diff := cmp.Diff(c.want, got); diff != "" || len(errs) > 0 {
				t.Errorf("%v %s", errs, diff)
			}
		})
	}
}

// TestReadRefuses holds that complaints name the field, and that none of them has a value in it.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, path, want string }{
		{"another version", `{apiVersion: v2, kind: Secret, metadata: {name: s}}`, "apiVersion", "v1 belongs"},
		{"no name", `{apiVersion: v1, kind: Secret}`, "metadata.name", "is not the name"},
		{"a bad name", `{apiVersion: v1, kind: Secret, metadata: {name: A_b}}`, "metadata.name", "is not the name"},
		{"a bad namespace", `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a/b}}`, "metadata.namespace", "is not a namespace"},
		{"not base64", `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: hunter2!}}`, "data", `the value of "a" is not base64`},
		{"a number", `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: 424242}}`, "stringData.a", "another type"},
		{"a bad key", `{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, data: {a/b: hunter2}}`, "data", "is not a key"},
		{"a field of the other kind", `{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, stringData: {a: hunter2}}`, "stringData", "not a field of a ConfigMap"},
		{"the other way round", `{apiVersion: v1, kind: Secret, metadata: {name: s}, binaryData: {a: hunter2}}`, "binaryData", "not a field of a Secret"},
		{"an unknown field", `{apiVersion: v1, kind: Secret, metadata: {name: s}, dat: {a: hunter2}}`, "dat", ""},
		{"immutable", `{apiVersion: v1, kind: Secret, metadata: {name: s}, immutable: true}`, "immutable", ""},
		{"half a certificate", `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: s}, stringData: {tls.crt: hunter2}}`, "data", "needs tls.key"},
		{"an empty login", `{apiVersion: v1, kind: Secret, type: kubernetes.io/basic-auth, metadata: {name: s}}`, "data", "needs username or password"},
		{"no JSON", `{apiVersion: v1, kind: Secret, type: kubernetes.io/dockerconfigjson, metadata: {name: s}, stringData: {.dockerconfigjson: hunter2}}`, "data", "is not JSON"},
		{"too much", `{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, data: {a: ` + strings.Repeat("x", 1<<20+1) + `}}`, "data", "more than the 1024 KiB"},
		{"a bad cluster", `{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {rke.cattle.io/object-authorized-for-clusters: "a,B"}}}`, "metadata.annotations", `"B" is not the name of a cluster`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := read(t, c.text)
			if len(errs) != 1 || errs[0].Path != c.path || !strings.Contains(errs[0].Reason, c.want) {
				t.Fatalf("%.300v, want %q of %s", errs, c.want, c.path)
			}
			if text := errs.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "424242") {
				t.Errorf("a value is in the complaint: %s", text)
			}
		})
	}
}

// TestAllows: an object is for the clusters whose IDs were bound to the names in its annotations, whatever the names are now.
func TestAllows(t *testing.T) {
	o := objects.Object{
		Metadata: objects.Metadata{Annotations: map[string]string{objects.AuthorizedObject: " harbour ,quay", objects.AuthorizedCloudConfig: "mole"}},
		Clusters: map[string]string{"harbour": "c-m-aaaaaaaa", "quay": ""},
	}
	for id, want := range map[string]bool{"c-m-aaaaaaaa": true, "c-m-bbbbbbbb": false, "harbour": false, "quay": false, "": false} {
		if got := o.Allows(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
	if got := o.AllowedNames(); !cmp.Equal(got, []string{"harbour", "quay", "mole"}) {
		t.Errorf("names %q", got)
	}
}
