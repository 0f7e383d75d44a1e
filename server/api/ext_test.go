package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/management"
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
	b := newBench(t)
	administrated(b)
	cl, _ := harbour(b)
	annID, ann := b.person("ann", "user")
	_, ben := b.person("ben", "user-base")
	const at = "/apis/ext.cattle.io/v1/tokens"
	decode := func(r result) typedExtToken {
		t.Helper()
		var one typedExtToken
		if err := json.Unmarshal(r.raw, &one); err != nil || one.APIVersion != "ext.cattle.io/v1" || one.Kind != "Token" {
			t.Fatalf("%v: %d %s", err, r.status, r.raw)
		}
		return one
	}
	r := b.request("POST", at, ann, `{"apiVersion":"ext.cattle.io/v1","kind":"Token","spec":{"description":"ci","ttl":3600000}}`)
	made := decode(r)
	if r.status != 201 || made.Status.Value == "" || made.Spec.UserID != annID || made.Spec.Enabled == nil || !*made.Spec.Enabled || made.Status.ExpiresAt != start.Add(time.Hour).Format(time.RFC3339) {
		t.Errorf("%d %s", r.status, r.raw)
	}
	for _, text := range []string{made.Status.BearerToken, made.Metadata.Name + ":" + made.Status.Value} {
		if r := b.request("GET", "/v3/users?me=true", text, ""); r.status != 200 || r.data()[0]["id"] != annID {
			t.Errorf("the token says %d %s", r.status, r.raw)
		}
	}
	one := decode(b.request("GET", at+"/"+made.Metadata.Name, made.Status.BearerToken, ""))
	if !one.Status.Current || one.Status.Value != "" || one.Status.BearerToken != "" {
		t.Errorf("read again: %+v", one)
	}
	for token, want := range map[string]bool{ann: true, ben: false, b.admin: true} {
		r := b.request("GET", at, token, "")
		if got := strings.Contains(string(r.raw), `"`+made.Metadata.Name+`"`); got != want || r.text("kind") != "TokenList" {
			t.Errorf("seen %v, want %v: %d %.200s", got, want, r.status, r.raw)
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
		if r := b.request(c.method, c.target, c.token, c.body); r.status != c.status || r.text("kind") != "Status" {
			t.Errorf("%s: %d, want %d: %s", name, r.status, c.status, r.raw)
		}
	}
	if r := b.request("DELETE", at+"/"+made.Metadata.Name, ann, ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := b.request("GET", "/v3/users?me=true", made.Status.BearerToken, ""); r.status != 401 {
		t.Errorf("a token that was deleted says %d", r.status)
	}

	r = b.request("POST", "/apis/ext.cattle.io/v1/kubeconfigs", b.admin, `{"spec":{"clusters":["*"],"currentContext":"`+cl.ID+`","ttl":60}}`)
	var made2 struct {
		Status struct {
			Value, Summary string
			Tokens         []string
		}
	}
	var config management.Kubeconfig
	if err := json.Unmarshal(r.raw, &made2); err != nil || r.status != 201 || len(made2.Status.Tokens) != 2 {
		t.Fatalf("%d %s", r.status, r.raw)
	}
	if err := yaml.Unmarshal([]byte(made2.Status.Value), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Clusters) != 2 || len(config.Users) != 2 || config.CurrentContext != "harbour" || strings.Count(config.Users[0].User.Token, ":") != 1 {
		t.Errorf("%s", made2.Status.Value)
	}
	for i, name := range made2.Status.Tokens {
		d, _ := b.st.Tokens.Get(name)
		if !d.Value.Expires.Equal(start.Add(time.Minute)) {
			t.Errorf("the token ends at %s", d.Value.Expires)
		}
		if id := d.Value.ClusterID; id == "" || !strings.HasSuffix(config.Clusters[i].Cluster.Server, "/"+id) {
			t.Errorf("the token for %s is good for %q", config.Clusters[i].Cluster.Server, id)
		}
	}
}
