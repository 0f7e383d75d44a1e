package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans/clusterauth"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// Kubeconfigs of a cluster with an authorized endpoint: their contexts, and the token that the cluster gets.
func TestKubeconfigsThatLeadStraightToACluster(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", func(c *records.Cluster) {
		active(c)
		c.Spec.LocalClusterAuthEndpoint = &clusterspec.LocalClusterAuthEndpoint{Enabled: true}
	})
	b.addMachine(cl, "1", func(m *records.Machine) { m.NodeName, m.InternalAddress = "harbour-one", []string{"10.0.0.1"} })
	read := func() (contexts, warning string, made records.Token, text string) {
		t.Helper()
		r := b.want(http.StatusOK, "POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", "")
		var k management.Kubeconfig
		if err := yaml.Unmarshal([]byte(r.text("config")), &k); err != nil {
			t.Fatal(err)
		}
		for i, c := range k.Contexts {
			contexts += c.Name + "=" + k.Clusters[i].Cluster.Server + " "
		}
		name, _, _ := strings.Cut(k.Users[0].User.Token, ":")
		made, _ = b.auth.Token(name)
		return strings.TrimSpace(contexts), r.header.Get("Warning"), made, k.Users[0].User.Token
	}
	const proxied = "harbour=https://drover.example/k8s/clusters/c-m-h4rb0r55"

	contexts, warning, made, _ := read() // before the server has reached the cluster
	if contexts != proxied || !strings.Contains(warning, "has not reached the cluster") || made.ClusterID != "c-m-h4rb0r55" || len(b.awaited) > 0 {
		t.Errorf("%s, %q, %+v, awaited %v", contexts, warning, made, b.awaited)
	}
	b.clusterCA = map[records.ClusterKey]string{"fleet-default/harbour": "CA"}
	contexts, warning, made, text := read()
	if contexts != proxied+" harbour-one=https://10.0.0.1:6443" || warning != "" || len(b.awaited) != 1 || b.awaited[0] != "fleet-default/harbour "+made.Name {
		t.Errorf("%s, %q, awaited %v", contexts, warning, b.awaited)
	}
	_, key, _ := strings.Cut(text, ":")
	if made.ClusterID != "c-m-h4rb0r55" || !strings.HasPrefix(made.ClusterHash, "$3:1:") || clusterauth.Verify(made.ClusterHash, key) != nil {
		t.Errorf("token %+v", made)
	}
	// The token is good at the server, too, for this cluster.
	if r := b.request("GET", "/k8s/clusters/c-m-h4rb0r55/version", text, ""); r.status != http.StatusServiceUnavailable {
		t.Errorf("through the server: %d %s", r.status, r.raw)
	}
	// One in the form of Kubernetes has the same ways.
	ext := b.want(http.StatusCreated, "POST", "/apis/ext.cattle.io/v1/kubeconfigs", `{"spec":{"clusters":["c-m-h4rb0r55"]}}`)
	if value := fmt.Sprint(ext.body["status"]); !strings.Contains(value, "server: https://10.0.0.1:6443") || len(b.awaited) != 2 {
		t.Errorf("over /apis: %s, awaited %v", value, b.awaited)
	}
	b.lost = errors.New("no tunnel is open")
	if contexts, warning, _, _ = read(); !strings.Contains(contexts, "harbour-one") || !strings.Contains(warning, "does not have the token yet") || !strings.Contains(warning, "no tunnel is open") {
		t.Errorf("%s, %q", contexts, warning)
	}
	b.want(http.StatusOK, "PUT", "/v3/settings/kubeconfig-generate-token", `{"value":"false"}`)
	awaited := len(b.awaited)
	if contexts, warning, _, text = read(); text != "" || !strings.Contains(contexts, "harbour-one") || warning != "" || len(b.awaited) != awaited {
		t.Errorf("with a plug-in: %s, %q, %q", contexts, warning, text)
	}
}
