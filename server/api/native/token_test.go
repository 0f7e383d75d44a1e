package native_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestRotateServerToken: it is an operation, of which no answer and no line of the log has a token.
func TestRotateServerToken(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-00000001", func(c *records.Cluster) {
		c.Spec.KubernetesVersion, c.Status.Initialized = "v1.34.3+k3s1", true
	})
	secrets := records.ClusterSecrets{ServerToken: "s3rver-word", AgentToken: "ag3nt-word", Other: []records.ServerToken{{Token: "3arlier-word"}}}
	if _, err := b.State.ClusterSecrets.Create(t.Context(), "fleet-default/harbour", secrets); err != nil {
		t.Fatal(err)
	}
	path := "/v1-drover/clusters/fleet-default/harbour/operations"
	if r := b.Want(http.StatusConflict, "POST", path+"?dryRun=true", `{"kind": "rotate-server-token"}`); !strings.Contains(r.Text("message"), "it would not begin: no server with etcd") {
		t.Errorf("%s", r.Raw)
	}
	r := b.Want(http.StatusOK, "POST", path, `{"kind": "rotate-server-token"}`)
	var begun apitypes.Begun
	if err := json.Unmarshal(r.Raw, &begun); err != nil || begun.Operation == nil || begun.Operation.Kind != operations.KindRotateToken || begun.Operation.State != operations.Running {
		t.Fatalf("%v: %s", err, r.Raw)
	}
	b.Want(http.StatusConflict, "POST", path, `{"kind": "rotate-server-token"}`)
	now, _ := b.State.ClusterSecrets.Get("fleet-default/harbour")
	if now.Value.Next == nil {
		t.Fatal("the new token is not stored")
	}
	shown := b.Get("/v1-drover/operations/" + begun.Operation.ID)
	for _, word := range []string{now.Value.Next.Token, "s3rver-word", "3arlier-word"} {
		if strings.Contains(string(r.Raw)+string(shown.Raw)+b.Logs.String(), word) {
			t.Errorf("an answer or the log has %s", word)
		}
	}
	var tokens apitypes.JoinTokens
	r = b.Want(http.StatusOK, "POST", "/v1-drover/clusters/fleet-default/harbour/token", "")
	if err := json.Unmarshal(r.Raw, &tokens); err != nil || tokens.Server != "s3rver-word" || len(tokens.Earlier) != 1 || tokens.Earlier[0] != (apitypes.EarlierToken{Token: "3arlier-word", Hash: installers.HashServerToken("3arlier-word")}) {
		t.Errorf("%v: %s", err, r.Raw)
	}
}

// TestAddServerToken: a token of before is kept beside the cluster's own, once, and is in no answer and no line of the log.
func TestAddServerToken(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-00000001", nil)
	b.AddCluster("dockyard", "c-dock1", func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
	})
	const path = "/v1-drover/clusters/fleet-default/harbour/token/add"
	b.Want(http.StatusNotFound, "POST", path, `{"token": "0ld-word"}`)
	if _, err := b.State.ClusterSecrets.Create(t.Context(), "fleet-default/harbour", records.ClusterSecrets{ServerToken: "s3rver-word"}); err != nil {
		t.Fatal(err)
	}
	if r := b.Request("POST", path, b.User, `{"token": "0ld-word"}`); r.Status != http.StatusNotFound {
		t.Errorf("a user without rights: %d %s", r.Status, r.Raw)
	}
	for body, want := range map[string]string{
		`{"token": "0ld-word 0ld-word"}`:  "token is not a server token: it is more than one word",
		`{"token": ""}`:                   "it is empty",
		`{"toke": "0ld-word"}`:            `the body is not of the form {"token": "..."}`,
		`{"token": "0ld-word"} {}`:        "the body is not of the form",
		`0ld-word`:                        "the body is not of the form",
		`{"token": "K10::node:0ld-word"}`: `of the user "node"`,
	} {
		if r := b.Want(http.StatusUnprocessableEntity, "POST", path, body); !strings.Contains(r.Text("message"), want) || strings.Contains(string(r.Raw), "0ld-word") {
			t.Errorf("%s: %s", body, r.Raw)
		}
	}
	b.Want(http.StatusRequestEntityTooLarge, "POST", path, `{"token": "`+strings.Repeat("w", 5000)+`"}`)
	if r := b.Want(http.StatusConflict, "POST", "/v1-drover/clusters/fleet-default/dockyard/token/add", `{"token": "0ld-word"}`); !strings.Contains(r.Text("message"), "has no join tokens") {
		t.Errorf("%s", r.Raw)
	}
	hash := installers.HashServerToken("0ld-word")
	for _, known := range []string{"false", "true"} {
		if r := b.Want(http.StatusOK, "POST", path, `{"token": "K10::server:0ld-word\n"}`); strings.TrimSpace(string(r.Raw)) != `{"type":"broughtToken","cluster":"fleet-default/harbour","hash":"`+hash+`","known":`+known+`}` {
			t.Errorf("%s", r.Raw)
		}
	}
	now, _ := b.State.ClusterSecrets.Get("fleet-default/harbour")
	want := records.ClusterSecrets{ServerToken: "s3rver-word", Other: []records.ServerToken{{Token: "0ld-word"}}, Brought: []string{hash}}
	if diff := cmp.Diff(want, now.Value); diff != "" {
		t.Error(diff)
	}
	logs := b.Logs.String()
	if strings.Contains(logs, "0ld-word") || strings.Count(logs, `msg="server token brought" cluster=fleet-default/harbour hash=`+hash) != 2 {
		t.Errorf("the log has\n%s", logs)
	}
	for range records.MaxServerTokens {
		now.Value.Other = append(now.Value.Other, records.ServerToken{Token: "x"})
	}
	if _, err := b.State.ClusterSecrets.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if r := b.Want(http.StatusConflict, "POST", path, `{"token": "0lder-word"}`); !strings.Contains(r.Text("message"), "no more are kept") {
		t.Errorf("%s", r.Raw)
	}
}
