package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/options"
)

// TestWatchesGoOnAfterARestart: a client that watched an earlier server of the same data gets what changed since, removals too, without a list; and
// what changes from then on.
func TestWatchesGoOnAfterARestart(t *testing.T) {
	const clusters = "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"
	apply := func(s *whole, admin, name, version string) {
		t.Helper()
		document := fmt.Sprintf("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: %s}\nspec: {kubernetesVersion: %s, rkeConfig: {}}\n", name, version)
		if code, text := s.ask(admin, http.MethodPost, "/v1-drover/apply", document); code != http.StatusOK {
			t.Fatal(code, text)
		}
	}
	first := startWhole(t, "", "")
	admin := first.administrator()
	apply(first, admin, "pier", "v1.34.4+k3s1")
	_, namespace, secret := first.register(admin)
	apply(first, admin, "quay", "v1.34.4+k3s1")
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if _, text := first.ask(admin, http.MethodGet, clusters, ""); json.Unmarshal([]byte(text), &list) != nil || list.Metadata.ResourceVersion == "" {
		t.Fatal(text)
	}
	apply(first, admin, "jetty", "v1.34.4+k3s1")
	if code, text := first.ask(admin, http.MethodDelete, clusters+"/quay", ""); code != http.StatusOK {
		t.Fatal(code, text)
	}
	machine := "/v1-drover/machines/" + namespace + "/" + strings.TrimSuffix(secret, "-machine-plan")
	var shown struct{ NodeID string }
	if _, text := first.ask(admin, http.MethodGet, machine, ""); json.Unmarshal([]byte(text), &shown) != nil {
		t.Fatal(text)
	}
	if code, text := first.ask(admin, http.MethodDelete, "/v3/nodes/"+shown.NodeID+"?force=true", ""); code >= 300 {
		t.Fatal(code, text)
	}
	for _, gone := range []string{clusters + "/quay", machine} {
		first.until(gone+" is gone", func() bool {
			code, _ := first.ask(admin, http.MethodGet, gone, "")
			return code == http.StatusNotFound
		})
	}
	first.stop()

	again := startWhole(t, "", "", func(o *options.Options) { o.DataDir = first.dir })
	lines := again.lines(admin, clusters+"?watch=true&resourceVersion="+list.Metadata.ResourceVersion)
	plans := again.lines(admin, "/api/v1/secrets?watch=true&resourceVersion="+list.Metadata.ResourceVersion)
	seen := func(lines <-chan string, want ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, one := range want {
			missing[one] = true
		}
		for limit := time.After(time.Minute); len(missing) > 0; {
			select {
			case line, open := <-lines:
				if !open || strings.HasPrefix(line, "ERROR") || line == "ADDED pier" {
					t.Fatalf("got %s", line)
				}
				delete(missing, line)
			case <-limit:
				t.Fatalf("did not come: %v", missing)
			}
		}
	}
	seen(lines, "ADDED jetty", "DELETED quay")
	seen(plans, "DELETED "+secret)
	apply(again, admin, "pier", "v1.34.5+k3s1")
	seen(lines, "MODIFIED pier")
}

// lines are the events of a watch of Kubernetes, "TYPE name" each.
func (s *whole) lines(token, path string) <-chan string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		s.Fatal(path, answer.Status)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for read := bufio.NewScanner(answer.Body); read.Scan(); {
			var event struct {
				Type   string
				Object struct {
					Metadata struct{ Name string }
				}
			}
			if err := json.Unmarshal(read.Bytes(), &event); err != nil {
				return // the server ends
			}
			lines <- strings.TrimSpace(event.Type + " " + event.Object.Metadata.Name)
		}
	}()
	return lines
}
