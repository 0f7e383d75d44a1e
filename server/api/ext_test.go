package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/test/apibed"
)

type typedExtToken struct {
	APIVersion, Kind string
	Metadata         struct{ Name string }
	Spec             struct {
		UserID, Description, ClusterName string
		TTL                              int64
		Enabled                          *bool
	}
	Status struct {
		Value, BearerToken, ExpiresAt string
		Current, Expired              bool
	}
}

// TestExtTokens: tokens and kubeconfigs as newer clients ask for them.
func TestExtTokens(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	_, ben := b.Person("ben", "user-base")
	const at = "/apis/ext.cattle.io/v1/tokens"
	decode := func(r apibed.Result) typedExtToken {
		t.Helper()
		var one typedExtToken
		if err := json.Unmarshal(r.Raw, &one); err != nil || one.APIVersion != "ext.cattle.io/v1" || one.Kind != "Token" {
			t.Fatalf("%v: %d %s", err, r.Status, r.Raw)
		}
		return one
	}
	r := b.Request("POST", at, ann, `{"apiVersion":"ext.cattle.io/v1","kind":"Token","spec":{"description":"ci","ttl":3600000}}`)
	made := decode(r)
	if r.Status != 201 || made.Status.Value == "" || made.Spec.UserID != annID || made.Spec.Enabled == nil || !*made.Spec.Enabled || made.Status.ExpiresAt != apibed.Start.Add(time.Hour).Format(time.RFC3339) {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	for _, text := range []string{made.Status.BearerToken, made.Metadata.Name + ":" + made.Status.Value} {
		if r := b.Request("GET", "/v3/users?me=true", text, ""); r.Status != 200 || r.Data()[0]["id"] != annID {
			t.Errorf("the token says %d %s", r.Status, r.Raw)
		}
	}
	one := decode(b.Request("GET", at+"/"+made.Metadata.Name, made.Status.BearerToken, ""))
	if !one.Status.Current || one.Status.Value != "" || one.Status.BearerToken != "" {
		t.Errorf("read again: %+v", one)
	}
	for token, want := range map[string]bool{ann: true, ben: false, b.Admin: true} {
		r := b.Request("GET", at, token, "")
		if got := strings.Contains(string(r.Raw), `"`+made.Metadata.Name+`"`); got != want || r.Text("kind") != "TokenList" {
			t.Errorf("seen %v, want %v: %d %.200s", got, want, r.Status, r.Raw)
		}
	}
	for name, c := range map[string]struct {
		method, target, token, body string
		status                      int
	}{
		"nobody":               {"GET", at, "", "", 401},
		"another's":            {"GET", at + "/" + made.Metadata.Name, ben, "", 404},
		"another's, away":      {"DELETE", at + "/" + made.Metadata.Name, ben, "", 404},
		"for another":          {"POST", at, ben, fmt.Sprintf(`{"spec":{"userID":%q}}`, annID), 403},
		"of an unseen cluster": {"POST", at, ben, fmt.Sprintf(`{"spec":{"clusterName":%q}}`, cl.ID), 422},
		"with a negative life": {"POST", at, ben, `{"spec":{"ttl":-1}}`, 422},
		"of a text":            {"POST", at, ben, `{"spec":{"ttl":"long"}}`, 422},
		"no cluster":           {"POST", "/apis/ext.cattle.io/v1/kubeconfigs", ben, `{"spec":{"clusters":["*"]}}`, 422},
		"an unseen one":        {"POST", "/apis/ext.cattle.io/v1/kubeconfigs", ben, fmt.Sprintf(`{"spec":{"clusters":[%q]}}`, cl.ID), 422},
	} {
		if r := b.Request(c.method, c.target, c.token, c.body); r.Status != c.status || r.Text("kind") != "Status" {
			t.Errorf("%s: %d, want %d: %s", name, r.Status, c.status, r.Raw)
		}
	}
	if r := b.Request("DELETE", at+"/"+made.Metadata.Name, ann, ""); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Request("GET", "/v3/users?me=true", made.Status.BearerToken, ""); r.Status != 401 {
		t.Errorf("a token that was deleted says %d", r.Status)
	}

	r = b.Request("POST", "/apis/ext.cattle.io/v1/kubeconfigs", b.Admin, `{"spec":{"clusters":["*"],"currentContext":"`+cl.ID+`","ttl":60}}`)
	var made2 struct {
		Status struct {
			Value, Summary string
			Tokens         []string
		}
	}
	var config management.Kubeconfig
	if err := json.Unmarshal(r.Raw, &made2); err != nil || r.Status != 201 || len(made2.Status.Tokens) != 2 {
		t.Fatalf("%d %s", r.Status, r.Raw)
	}
	if err := yaml.Unmarshal([]byte(made2.Status.Value), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Clusters) != 2 || len(config.Users) != 2 || config.CurrentContext != "harbour" || strings.Count(config.Users[0].User.Token, ":") != 1 {
		t.Errorf("%s", made2.Status.Value)
	}
	for i, name := range made2.Status.Tokens {
		d, _ := b.State.Tokens.Get(name)
		if !d.Value.Expires.Equal(apibed.Start.Add(time.Minute)) {
			t.Errorf("the token ends at %s", d.Value.Expires)
		}
		if id := d.Value.ClusterID; id == "" || !strings.HasSuffix(config.Clusters[i].Cluster.Server, "/"+id) {
			t.Errorf("the token for %s is good for %q", config.Clusters[i].Cluster.Server, id)
		}
	}
}
