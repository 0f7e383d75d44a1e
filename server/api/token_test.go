package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

// TestRotateServerToken: it is an operation, of which no answer and no line of the log has a token; the CA is refused with what to do.
func TestRotateServerToken(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-00000001", func(c *records.Cluster) {
		c.Spec.KubernetesVersion, c.Status.Initialized = "v1.34.3+k3s1", true
	})
	secrets := records.ClusterSecrets{ServerToken: "s3rver-word", AgentToken: "ag3nt-word", Other: []records.ServerToken{{Token: "3arlier-word"}}}
	if _, err := b.st.ClusterSecrets.Create(t.Context(), "fleet-default/harbour", secrets); err != nil {
		t.Fatal(err)
	}
	path := "/v1-drover/clusters/fleet-default/harbour/operations"
	for _, ca := range []string{`{"kind": "rotate-ca"}`, `{"kind": "rotate-certificates", "ca": true}`} {
		if r := b.want(http.StatusUnprocessableEntity, "POST", path, ca); !strings.Contains(r.text("message"), "k3s certificate rotate-ca --path DIR") {
			t.Errorf("%s", r.raw)
		}
	}
	if r := b.want(http.StatusConflict, "POST", path+"?dryRun=true", `{"kind": "rotate-server-token"}`); !strings.Contains(r.text("message"), "it would not begin: no server with etcd") {
		t.Errorf("%s", r.raw)
	}
	r := b.want(http.StatusOK, "POST", path, `{"kind": "rotate-server-token"}`)
	var begun views.Begun
	if err := json.Unmarshal(r.raw, &begun); err != nil || begun.Operation == nil || begun.Operation.Kind != ops.KindToken || begun.Operation.State != operations.Running {
		t.Fatalf("%v: %s", err, r.raw)
	}
	b.want(http.StatusConflict, "POST", path, `{"kind": "rotate-server-token"}`)
	now, _ := b.st.ClusterSecrets.Get("fleet-default/harbour")
	if now.Value.Next == nil {
		t.Fatal("the new token is not stored")
	}
	shown := b.get("/v1-drover/operations/" + begun.Operation.ID)
	for _, word := range []string{now.Value.Next.Token, "s3rver-word", "3arlier-word"} {
		if strings.Contains(string(r.raw)+string(shown.raw)+b.logs.String(), word) {
			t.Errorf("an answer or the log has %s", word)
		}
	}
	var tokens views.JoinTokens
	r = b.want(http.StatusOK, "POST", "/v1-drover/clusters/fleet-default/harbour/token", "")
	if err := json.Unmarshal(r.raw, &tokens); err != nil || tokens.Server != "s3rver-word" || len(tokens.Earlier) != 1 || tokens.Earlier[0] != (views.EarlierToken{Token: "3arlier-word", Hash: ops.TokenHash("3arlier-word")}) {
		t.Errorf("%v: %s", err, r.raw)
	}
}
