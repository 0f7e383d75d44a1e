package clusterspec

import (
	"encoding/json"
	"testing"
)

// TestWhatAsksForNothingIsKept reads documents, stores them and shows them: what is false, 0 or empty is there again as it was written.
func TestWhatAsksForNothingIsKept(t *testing.T) {
	const head = `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"pier"},"spec":`
	for name, spec := range map[string]string{
		"none":           `{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}`,
		"beside others":  `{"enableNetworkPolicy":false,"kubernetesVersion":"v1.34.4+k3s1","localClusterAuthEndpoint":{"enabled":false,"fqdn":""},"rkeConfig":{"chartValues":{},"provisionGeneration":0}}`,
		"of drains":      `{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"upgradeStrategy":{"workerConcurrency":"","workerDrainOptions":{"IgnoreErrors":false,"deleteEmptyDirData":false,"enabled":false,"force":true,"timeout":0}}}}`,
		"in lists":       `{"agentEnvVars":[{"name":"A","value":"1"},{"name":"B","value":""}],"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"machineSelectorConfig":[]}}`,
		"below no field": `{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"machinePoolDefaults":{"hostnameLengthLimit":0}}}`,
		"large numbers":  `{"enableNetworkPolicy":false,"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"machineGlobalConfig":{"tls-san":["10.0.0.1"]},"provisionGeneration":9007199254740993}}`,
		"imported":       `{"enableNetworkPolicy":false}`,
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := ParseSpec([]byte(head+spec+"}"), data(t))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				kept, err := json.Marshal(doc.Spec)
				if got := canonicalJSON(t, kept); err != nil || got != spec {
					t.Errorf("%s, %v; was written as\n%s", got, err, spec)
				}
				doc.Spec = Spec{}
				if err := json.Unmarshal(kept, &doc.Spec); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// canonicalJSON is JSON with its fields in order.
func canonicalJSON(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := numbers(text, &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhatAsksForNothingMakesNothing changes a document after it was read: a value that is there wins, and fields do not come back
// below what was taken out.
func TestWhatAsksForNothingMakesNothing(t *testing.T) {
	doc, err := ParseSpec([]byte(`{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"pier"},
		"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"provisionGeneration":0,"etcd":{"disableSnapshots":false}}}}`), data(t))
	if err != nil {
		t.Fatal(err)
	}
	again := *doc.Spec.RKEConfig
	doc.Spec.RKEConfig = &again
	again.ProvisionGeneration, again.ETCD = 7, nil
	if got, err := json.Marshal(doc.Spec); err != nil || string(got) != `{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"provisionGeneration":7}}` {
		t.Errorf("%s, %v", got, err)
	}
	doc.Spec.RKEConfig = nil
	if got, err := json.Marshal(doc.Spec); err != nil || string(got) != `{"kubernetesVersion":"v1.34.4+k3s1"}` {
		t.Errorf("%s, %v", got, err)
	}
}
