package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/options"
)

var keep = flag.String("keep", "", "name of a minor release, as v0.1, whose data are made anew in testdata/kept: when it is released, and never afterwards")

const kept = "testdata/kept"

// outsideURL is the address by which the hosts of the kept data reach their server.
func outsideURL(o *options.Options) {
	o.ServerURL, o.TLSNames = "https://drover.example:8443", []string{"127.0.0.1"}
}

// TestDataOfReleases: this server has all that the server of each minor release has kept, and gives no host another plan for it.
func TestDataOfReleases(t *testing.T) {
	if *keep != "" {
		keepData(t, filepath.Join(kept, *keep))
	}
	archives, err := filepath.Glob(filepath.Join(kept, "*.tar"))
	if err != nil || len(archives) == 0 {
		t.Fatal("there are no data of a release", err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if _, err := (backup.Restore{From: archive, DataDir: dir, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(archive, ".tar") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			s := startWhole(t, "", "", outsideURL, func(o *options.Options) { o.DataDir = dir })
			admin := s.administrator()
			s.until("the clusters were decided on", func() bool {
				_, text := s.ask(admin, http.MethodGet, "/v1-drover/workers", "")
				return strings.Contains(text, `"name":"clusters"`) && regexp.MustCompile(`"name":"clusters"[^}]*"succeeded":[1-9]`).MatchString(text)
			})
			if diff := cmp.Diff(string(want), inventory(s, admin)); diff != "" {
				t.Errorf("-kept +now\n%s", diff)
			}
		})
	}
}

// inventory is what a server has, a line each.
func inventory(s *whole, admin string) string {
	s.Helper()
	var b strings.Builder
	for _, list := range []struct {
		path   string
		fields []string
	}{
		{"/v3/clusters", []string{"id", "name", "state"}},
		{"/v3/nodes", []string{"id", "hostname", "state", "etcd", "controlPlane", "worker"}},
		{"/v3/users", []string{"id", "username", "enabled"}},
		{"/v3/globalRoleBindings", []string{"userId", "globalRoleId"}},
		{"/v3/clusterRoleTemplateBindings", []string{"clusterId", "userId", "roleTemplateId"}},
		{"/v3/projects", []string{"id", "name"}},
		{"/v3/tokens", []string{"id", "userId", "description"}},
		{"/v3/settings?name=password-min-length", []string{"id", "value"}},
		{"/v3/roleTemplates?builtin=false", []string{"id", "name", "context"}},
		{"/v1-drover/fleets", []string{"name", "machines"}},
		{"/v1-drover/operations", []string{"id", "kind", "state", "title"}},
		{"/v1/secrets", []string{"id", "_type"}},
	} {
		status, text := s.ask(admin, http.MethodGet, list.path, "")
		var answer struct{ Data []map[string]any }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
			s.Fatal(list.path, status, text)
		}
		for _, one := range answer.Data {
			if text, _ := one["description"].(string); strings.HasPrefix(text, "file ") {
				continue // the token of root on this host, which each data directory gets anew
			}
			fmt.Fprint(&b, list.path)
			for _, field := range list.fields {
				fmt.Fprintf(&b, " %v", one[field])
			}
			b.WriteByte('\n')
		}
	}
	_, text := s.ask(admin, http.MethodGet, "/v1-drover/machines", "")
	for _, id := range regexp.MustCompile(`"id":"([a-z-]+/custom-[0-9a-f]+)"`).FindAllStringSubmatch(text, -1) {
		namespace, name, _ := strings.Cut(id[1], "/")
		fmt.Fprintf(&b, "plan of %s %s\n", name, plans.Short(plans.Checksum(s.planOf(admin, namespace, name))))
	}
	status, text := s.ask(admin, http.MethodGet, "/v1/provisioning.cattle.io.clusters/fleet-default/harbour", "")
	var document struct{ Spec json.RawMessage }
	if err := json.Unmarshal([]byte(text), &document); err != nil || status != http.StatusOK {
		s.Fatal(status, text)
	}
	fmt.Fprintf(&b, "spec of harbour %s\n", document.Spec)
	return b.String()
}

// planOf is the plan of a machine, empty for none.
func (s *whole) planOf(admin, namespace, machine string) []byte {
	s.Helper()
	_, text := s.ask(admin, http.MethodGet, "/api/v1/namespaces/"+namespace+"/secrets/"+machine+"-machine-plan", "")
	var secret struct{ Data map[string][]byte }
	if err := json.Unmarshal([]byte(text), &secret); err != nil {
		s.Fatal(text, err)
	}
	return secret.Data[plans.KeyPlan]
}

// keepData makes a server with something of each kind, and keeps its data and what they are.
func keepData(t *testing.T, path string) {
	s := startWhole(t, "", "", outsideURL)
	admin := s.administrator()
	made := func(path, body string) string {
		t.Helper()
		status, text := s.ask(admin, http.MethodPost, path, body)
		if status/100 != 2 {
			t.Fatal(path, status, text)
		}
		return text
	}
	id := func(text string) string { return regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)[1] }
	made("/v1-drover/apply", "apiVersion: v1\nkind: Secret\nmetadata: {name: bucket, namespace: fleet-default}\ntype: Opaque\nstringData: {accessKey: a, secretKey: b}\n")
	made("/v1-drover/apply", strings.Replace(harbour, "rkeConfig: {}", "rkeConfig: {machineGlobalConfig: {disable: [traefik]}, etcd: {snapshotScheduleCron: \"0 */5 * * *\"}}", 1))
	_, text := s.ask(admin, http.MethodGet, "/v3/clusters?name=harbour", "")
	cluster := id(text)
	token, namespace, secret := s.register(admin)
	stop, _ := s.watch(token, namespace, secret)
	defer stop()
	machine := strings.TrimSuffix(secret, "-machine-plan")
	s.until("the machine has a plan", func() bool { return len(s.planOf(admin, namespace, machine)) > 0 })
	made("/v1-drover/apply", "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: cape, namespace: fleet-default}\nspec: {kubernetesVersion: v1.34.4+rke2r1, rkeConfig: {}}\n")

	by := regexp.MustCompile(`CATTLE_TOKEN=([a-z0-9]+)`).FindStringSubmatch(made("/v1-drover/fleets/edge/join", ""))
	_, _, given := s.join(by[1], map[string]string{"X-Cattle-Id": strings.Repeat("b2", 31)})
	s.until("the fleet has its machine", func() bool {
		_, text := s.ask(admin, http.MethodGet, "/v1-drover/fleets/edge", "")
		return strings.Contains(text, `"machines":1`)
	})
	made("/v1-drover/fleets/edge/plan", "files: [{path: /etc/motd, content: aGVsbG8K}]\n")
	s.until("its machine has a plan", func() bool {
		return len(s.planOf(admin, "drover-fleets", strings.TrimSuffix(given, "-machine-plan"))) > 0
	})

	user := id(made("/v3/users", `{"username": "ann", "password": "a long password of hers"}`))
	made("/v3/globalRoleBindings", `{"userId": "`+user+`", "globalRoleId": "user"}`)
	made("/v3/clusterRoleTemplateBindings", `{"clusterId": "`+cluster+`", "userId": "`+user+`", "roleTemplateId": "cluster-member"}`)
	made("/v3/roleTemplates", `{"name": "readers", "context": "project", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}`)
	made("/v3/projects", `{"clusterId": "`+cluster+`", "name": "lighthouse"}`)
	made("/v3/tokens", `{"description": "of a pipeline", "ttl": 0}`)
	if status, text := s.ask(admin, http.MethodPut, "/v3/settings/password-min-length", `{"value": "14"}`); status != http.StatusOK {
		t.Fatal(status, text)
	}

	status, archive := s.ask(admin, http.MethodGet, "/v1-drover/backup", "")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	says := inventory(s, admin)
	s.stop()
	var whole bytes.Buffer
	keys := backup.KeysIn(s.dir, "")
	if _, err := backup.Copy(&whole, strings.NewReader(archive), &keys); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]io.Reader{path + ".tar": &whole, path + ".txt": strings.NewReader(says)} {
		text, err := io.ReadAll(content)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(name), 0o755)
		}
		if err == nil {
			err = os.WriteFile(name, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
