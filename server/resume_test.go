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
	first.until("quay is gone", func() bool {
		code, _ := first.ask(admin, http.MethodGet, clusters+"/quay", "")
		return code == http.StatusNotFound
	})
	first.stop()

	again := startWhole(t, "", "", func(o *options.Options) { o.DataDir = first.dir })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, again.url+clusters+"?watch=true&resourceVersion="+list.Metadata.ResourceVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	answer, err := again.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for read := bufio.NewScanner(answer.Body); read.Scan(); {
			var event struct {
				Type   string
				Object struct {
					Code     int
					Metadata struct{ Name string }
				}
			}
			if err := json.Unmarshal(read.Bytes(), &event); err != nil {
				t.Error(err)
			}
			lines <- strings.TrimSpace(fmt.Sprint(event.Type, " ", event.Object.Metadata.Name))
		}
	}()
	seen := func(want ...string) {
		t.Helper()
		missing := map[string]bool{}
		for _, one := range want {
			missing[one] = true
		}
		for limit := time.After(time.Minute); len(missing) > 0; {
			select {
			case line := <-lines:
				if strings.HasPrefix(line, "ERROR") || line == "ADDED pier" {
					t.Fatalf("got %s", line)
				}
				delete(missing, line)
			case <-limit:
				t.Fatalf("did not come: %v", missing)
			}
		}
	}
	seen("ADDED jetty", "DELETED quay")
	apply(again, admin, "pier", "v1.34.5+k3s1")
	seen("MODIFIED pier")
}
