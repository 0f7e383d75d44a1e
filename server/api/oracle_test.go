package api_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestNamesOfForeignClustersAreNoOracle: a person who may make clusters asks everything that can be asked of a cluster, about a cluster of
// another person and about one that does not exist. Status and words are the same.
func TestNamesOfForeignClustersAreNoOracle(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	_, ann := b.Person("ann", "user")
	routes, err := os.ReadFile("testdata/access.txt")
	if err != nil {
		t.Fatal(err)
	}
	document := func(name string) string {
		return `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","type":"provisioning.cattle.io.cluster","metadata":{"name":"` + name + `","namespace":"fleet-default"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}},"name":"` + name + `","clusterId":"` + idOf(name) + `"}`
	}
	// What tells two names apart in an answer that repeats what was asked.
	same := regexp.MustCompile(`harbour|h4rb0r55|vacant0|v4c4nt00`)
	var asked int
	compare := func(method, target string, body func(string) string) {
		t.Helper()
		header := []string{}
		if method == "PATCH" {
			header = []string{"Content-Type", "application/merge-patch+json"}
		}
		one := b.Request(method, fill(target, "harbour"), ann, body("harbour"), header...)
		other := b.Request(method, fill(target, "vacant0"), ann, body("vacant0"), header...)
		asked++
		if strings.HasPrefix(target, "/dashboard/") { // each page has times and tokens of its own
			one.Raw, other.Raw = nil, nil
		}
		if a, b := same.ReplaceAllString(string(one.Raw), "NAME"), same.ReplaceAllString(string(other.Raw), "NAME"); one.Status != other.Status || a != b {
			t.Errorf("%s %s:\n%d %.300s\n%d %.300s", method, target, one.Status, a, other.Status, b)
		}
	}
	empty := func(string) string { return "{}" }
	for line := range strings.Lines(string(routes)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasPrefix(fields[1], "/") || !strings.Contains(fields[1], "lusters/{") && !strings.Contains(fields[1], "clusterregistrationtokens/{") {
			continue
		}
		if strings.HasSuffix(fields[1], "/import-rke") { // makes a cluster, as apply does: names are unique, so that a person who may make clusters learns which are taken
			continue
		}
		if strings.HasPrefix(fields[1], "/v3/connect") || strings.Contains(fields[1], "...") {
			continue
		}
		compare(fields[0], fields[1], empty)
		if fields[0] == "PUT" || fields[0] == "POST" {
			compare(fields[0], fields[1], document)
		}
	}
	for _, c := range []struct{ method, target string }{
		{"POST", "/v3/clusterregistrationtokens"}, {"POST", "/v3/clusterRoleTemplateBindings"}, {"POST", "/v3/projects"},
		{"POST", "/v1-drover/tokens"}, {"POST", "/v3/tokens"},
		{"PUT", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/{name}"}, {"PATCH", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/{name}"},
		{"GET", "/k8s/clusters/{id}/api/v1/namespaces"}, {"GET", "/k8s/clusters/{id}/version"}, {"GET", "/v3/clusters/{id}/nodes"}, {"GET", "/v3/import/{id}.yaml"},
	} {
		compare(c.method, c.target, document)
	}
	if asked < 60 {
		t.Errorf("%d questions were asked", asked)
	}
}

func idOf(name string) string {
	if name == "harbour" {
		return "c-m-h4rb0r55"
	}
	return "c-m-v4c4nt00"
}

// fill puts a cluster into the pattern of a route.
func fill(target, name string) string {
	target = strings.NewReplacer("{namespace}/{name}", "fleet-default/"+name, "clusters/{name}", "clusters/"+name, "clusterregistrationtokens/{id}", "clusterregistrationtokens/"+idOf(name)+":default-token",
		"{id}", idOf(name), "{context}", idOf(name)).Replace(target)
	if strings.Contains(target, "management.cattle.io.clusters/") {
		target = strings.ReplaceAll(target, name, idOf(name))
	}
	return regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(target, "x")
}
