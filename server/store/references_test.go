package store

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferencesInUseAreMarked: what a cluster used by the rules of before it may use, what it named in vain it may not, and a second
// run has nothing to write.
func TestReferencesInUseAreMarked(t *testing.T) {
	secret := func(name, annotations string) migratedDocument {
		return migratedDocument{Collection: "objects", Key: "Secret/" + name, Sensitive: true,
			Value: []byte(`{"kind":"Secret","name":"x","namespace":"fleet-default","annotations":{` + annotations + `},"data":{"a":"aHVzaA=="}}`)}
	}
	const files, cloud = `"rke.cattle.io/object-authorized-for-clusters":"quay, harbour"`, `"v2prov-secret-authorized-for-cluster":"harbour"`
	documents := []migratedDocument{
		{Collection: "clusters", Key: "fleet-default/harbour", Sensitive: true, Value: []byte(`{"namespace":"fleet-default","name":"harbour","id":"c-m-harbour1","generation":7,"spec":{"rkeConfig":{
"machineGlobalConfig":{"cloud-provider-config":"secret://elsewhere:cloud"},
"machineSelectorConfig":[{"config":{"cloud-provider-config":"secret://elsewhere:shut"}}],
"machineSelectorFiles":[{"fileSources":[{"secret":{"name":"files"}},{"configMap":{"name":"files"}},{"secret":{"name":"shut"}}]}],
"registries":{"configs":{"a.lan":{"authConfigSecretName":"auth","tlsSecretName":"tls"},"b.lan":{"authConfigSecretName":"missing"}}},
"etcd":{"s3":{"cloudCredentialName":"fleet-default:keys","bucket":"harbour","endpoint":"s3.lan","retention":3}}}}}`)},
		{Collection: "clusters", Key: "fleet-default/plain", Sensitive: true, Value: []byte(`{"namespace":"fleet-default","name":"plain","id":"c-m-plain001","spec":{}}`)},
		secret("fleet-default/files", files), secret("fleet-default/shut", ""), secret("fleet-default/auth", ""), secret("fleet-default/tls", ""), secret("fleet-default/keys", ""),
		secret("elsewhere/cloud", cloud), secret("elsewhere/shut", ""), secret("fleet-default/unused", `"rke.cattle.io/object-authorized-for-clusters":"gone"`),
		{Collection: "objects", Key: "ConfigMap/fleet-default/files", Sensitive: true, Value: []byte(`{"kind":"ConfigMap","annotations":{` + files + `}}`)},
		{Collection: "machines", Key: "fleet-default/m", Value: []byte(`{}`)},
	}
	changes, err := references(documents)
	if err != nil {
		t.Fatal(err)
	}
	after := map[string]map[string]any{}
	for _, d := range changes {
		if !d.Sensitive {
			t.Errorf("%s is written in the clear", d.Key)
		}
		var fields map[string]any
		if err := json.Unmarshal(d.Value, &fields); err != nil {
			t.Fatal(err)
		}
		after[d.Collection+"/"+d.Key] = fields
	}
	harbour := after["clusters/fleet-default/harbour"]
	uid := func(key string) any { return after["objects/"+key]["uid"] }
	want := map[string]any{
		"Secret/fleet-default/files": map[string]any{"uid": uid("Secret/fleet-default/files")}, "ConfigMap/fleet-default/files": map[string]any{"uid": uid("ConfigMap/fleet-default/files")},
		"Secret/fleet-default/auth": map[string]any{"uid": uid("Secret/fleet-default/auth")}, "Secret/fleet-default/tls": map[string]any{"uid": uid("Secret/fleet-default/tls")},
		"Secret/elsewhere/cloud":    map[string]any{"uid": uid("Secret/elsewhere/cloud")},
		"Secret/fleet-default/keys": map[string]any{"uid": uid("Secret/fleet-default/keys"), "bucket": map[string]any{"endpoint": "s3.lan", "bucket": "harbour", "cloudCredentialName": "fleet-default:keys"}},
	}
	if diff := cmp.Diff(want, harbour["granted"]); diff != "" {
		t.Error(diff)
	}
	if harbour["generation"] != float64(7) || after["clusters/fleet-default/plain"] != nil || after["machines/fleet-default/m"] != nil {
		t.Errorf("more was changed: %v", after)
	}
	if diff := cmp.Diff(map[string]any{"quay": "", "harbour": "c-m-harbour1"}, after["objects/Secret/fleet-default/files"]["clusters"]); diff != "" {
		t.Error(diff)
	}
	for i, d := range documents {
		for _, changed := range changes {
			if changed.Collection == d.Collection && changed.Key == d.Key {
				documents[i] = changed
			}
		}
	}
	if again, err := references(documents); err != nil || len(again) != 0 {
		t.Errorf("a second run writes %d documents: %v", len(again), err)
	}
}
