package api_test

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
	"github.com/drover-project/drover/test/apibed"
)

// Kubeconfigs of a cluster with an authorized endpoint: their contexts, and the token that the cluster gets.
func TestKubeconfigsThatLeadStraightToACluster(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", func(c *records.Cluster) {
		apibed.Active(c)
		c.Spec.LocalClusterAuthEndpoint = &clusterspec.LocalClusterAuthEndpoint{Enabled: true}
	})
	b.AddMachine(cl, "1", func(m *records.Machine) { m.NodeName, m.InternalAddress = "harbour-one", []string{"10.0.0.1"} })
	read := func() (contexts, warning string, made records.Token, text string) {
		t.Helper()
		r := b.Want(http.StatusOK, "POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", "")
		var k management.Kubeconfig
		if err := yaml.Unmarshal([]byte(r.Text("config")), &k); err != nil {
			t.Fatal(err)
		}
		for i, c := range k.Contexts {
			contexts += c.Name + "=" + k.Clusters[i].Cluster.Server + " "
		}
		name, _, _ := strings.Cut(k.Users[0].User.Token, ":")
		made, _ = b.Auth.Token(name)
		return strings.TrimSpace(contexts), r.Header.Get("Warning"), made, k.Users[0].User.Token
	}
	const proxied = "harbour=https://drover.example/k8s/clusters/c-m-h4rb0r55"

	contexts, warning, made, _ := read() // before the server has reached the cluster
	if contexts != proxied || !strings.Contains(warning, "has not reached the cluster") || made.ClusterID != "c-m-h4rb0r55" || len(b.Awaited) > 0 {
		t.Errorf("%s, %q, %+v, awaited %v", contexts, warning, made, b.Awaited)
	}
	b.ClusterCA = map[records.ClusterKey]string{"fleet-default/harbour": "CA"}
	contexts, warning, made, text := read()
	if contexts != proxied+" harbour-one=https://10.0.0.1:6443" || warning != "" || len(b.Awaited) != 1 || b.Awaited[0] != "fleet-default/harbour "+made.Name {
		t.Errorf("%s, %q, awaited %v", contexts, warning, b.Awaited)
	}
	_, key, _ := strings.Cut(text, ":")
	if made.ClusterID != "c-m-h4rb0r55" || !strings.HasPrefix(made.ClusterHash, "$3:1:") || clusterauth.Verify(made.ClusterHash, key) != nil {
		t.Errorf("token %+v", made)
	}
	// The token is good at the server, too, for this cluster.
	if r := b.Request("GET", "/k8s/clusters/c-m-h4rb0r55/version", text, ""); r.Status != http.StatusServiceUnavailable {
		t.Errorf("through the server: %d %s", r.Status, r.Raw)
	}
	// One in the form of Kubernetes has the same ways.
	ext := b.Want(http.StatusCreated, "POST", "/apis/ext.cattle.io/v1/kubeconfigs", `{"spec":{"clusters":["c-m-h4rb0r55"]}}`)
	if value := fmt.Sprint(ext.Body["status"]); !strings.Contains(value, "server: https://10.0.0.1:6443") || len(b.Awaited) != 2 {
		t.Errorf("over /apis: %s, awaited %v", value, b.Awaited)
	}
	b.Lost = errors.New("no tunnel is open")
	if contexts, warning, _, _ = read(); !strings.Contains(contexts, "harbour-one") || !strings.Contains(warning, "does not have the token yet") || !strings.Contains(warning, "no tunnel is open") {
		t.Errorf("%s, %q", contexts, warning)
	}
	b.Want(http.StatusOK, "PUT", "/v3/settings/kubeconfig-generate-token", `{"value":"false"}`)
	awaited := len(b.Awaited)
	if contexts, warning, _, text = read(); text != "" || !strings.Contains(contexts, "harbour-one") || warning != "" || len(b.Awaited) != awaited {
		t.Errorf("with a plug-in: %s, %q, %q", contexts, warning, text)
	}
}
