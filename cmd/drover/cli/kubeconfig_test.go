package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeconfigsOfAServer: what is printed for kubectl names no program and no file of this host, whatever the server answers.
func TestKubeconfigsOfAServer(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	const text = `apiVersion: v1
kind: Config
current-context: harbour
clusters: [{name: harbour, cluster: {server: "https://drover.example/k8s/clusters/c-1"}}]
users: [{name: harbour, user: {%s}}]
contexts: [{name: harbour, context: {cluster: harbour, user: harbour}}, {name: harbour-one, context: {cluster: harbour, user: harbour}}]
`
	for name, tc := range map[string]struct{ user, errs string }{
		"a token": {"token: hunter2", "contexts that lead to harbour without the server: harbour-one\n"},
		"exec":    {"exec: {command: touch, args: [" + marker + "]}", "users[0].user.exec is refused: it names a program to run; one that asks this program for its tokens is made by --exec\n"},
		"a file":  {"tokenFile: /etc/hunter2", "users[0].user.tokenFile is refused: it names a file"},
	} {
		given := fmt.Sprintf(text, tc.user)
		answer, err := json.Marshal(map[string]string{"config": given})
		if err != nil {
			t.Fatal(err)
		}
		a := playServer(t, map[string]http.HandlerFunc{
			"GET /v1-drover/clusters":           says(`{"data":[{"id":"c-1","namespace":"fleet-default","name":"harbour","distribution":"k3s"}]}`),
			"POST /v3/clusters/{id}":            says(string(answer)),
			"GET /v1-drover/clusters/{path...}": says(`{"id":"c-1","namespace":"fleet-default","name":"harbour","distribution":"k3s"}`),
		})
		code, out, errs := a.run(t.Context(), "clusters", "kubeconfig", "harbour")
		if !strings.Contains(errs, tc.errs) || strings.Contains(errs, "hunter2") {
			t.Errorf("%s: it says\n%s", name, errs)
		}
		if allowed := name == "a token"; (code == 0) != allowed || (out == given) != allowed || !allowed && out != "" {
			t.Errorf("%s: status %d, and prints\n%s", name, code, out)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the program has run")
	}
}
